//! What must hold when all is quiet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use spinney::engine::{Checked, RootOrigin};
use spinney::fingerprint::Fingerprint;
use spinney::forest::{Decision, Root};
use spinney::parts::roots_index;

use super::plan::ForestStorage;
use super::process::Process;
use super::scene::{Content, INDICES, Scene, Sent, Written, is_routed};
use super::world::pass;

/// Longer than any background task may take when nothing fails: the pause of restamping doubles up to a minute, and an
/// unknown outcome is withdrawn after one.
const QUIET: Duration = Duration::from_secs(30 * 60);
/// How often is looked.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// At least so long is waited: documents of unknown outcome are looked for twice, and withdrawn then.
const LEAST: Duration = Duration::from_secs(120);

/// Longer than the cluster keeps a point in time that nobody asks for.
const KEEP_ALIVE: Duration = Duration::from_secs(6 * 60);

/// Milliseconds after which what is taken back is on the disk, or its process has been killed for its disk.
const SETTLED: i64 = 25_000;

/// A stored document.
struct Stored {
    story: usize,
    root: Root,
    written: Option<Written>,
    place: String,
}

fn root_of(source: &Value) -> Option<Root> {
    let root = source["cluster_root"].as_str()?;
    Fingerprint::written(root, true).map(Root)
}

impl Scene {
    /// Waits until all that was begun is done, and checks it.
    pub(super) async fn check(&self, when: &str) {
        let begun = self.world.elapsed();
        pass(LEAST).await;
        let before = self.stored();
        loop {
            match self.converged().await {
                Ok(()) => break,
                Err(wrong) if self.world.elapsed() - begun > QUIET => {
                    return self.fail(format!("{when}: {wrong}"));
                }
                Err(_) => pass(CHECK_INTERVAL).await,
            }
        }
        let stored = match before.and_then(|_| self.stored()) {
            Ok(stored) => stored,
            Err(wrong) => return self.fail(format!("{when}: {wrong}")),
        };
        let checks = [self.check_roots(&stored).await, self.check_refused().await, self.check_nothing_left().await];
        for wrong in checks.into_iter().filter_map(Result::err) {
            for Stored { story, root, place, .. } in &stored {
                self.world.trace(|| format!("stored: {place} of story {story} with the root {root}"));
            }
            self.fail(format!("{when}: {wrong}"));
        }
    }

    /// All documents, each of which is what it may be, once, with one root.
    fn stored(&self) -> Result<Vec<Stored>, String> {
        let records = self.records.lock();
        let cluster = self.upstream.cluster.lock();
        let all: BTreeMap<&str, _> = INDICES.iter().map(|index| (*index, cluster.stored(index))).collect();
        let mut stored = Vec::new();
        for ((index, id), known) in &records.documents {
            let place = format!("{index}/{id}");
            let Some((source, _)) = all[index].get(id) else {
                if !known.may_be.contains(&Content::Absent) {
                    return Err(format!("{place} was accepted and is not there"));
                }
                continue;
            };
            let is_of = |story: &usize| {
                let story = &records.stories[*story];
                let sent = story.source();
                ["title", "content", "url"].iter().all(|field| source[field] == sent[field])
            };
            let states = known.may_be.iter().filter_map(|state| match state {
                Content::Story(story) => Some(*story),
                Content::Absent => None,
            });
            let Some(story) = states.into_iter().find(is_of) else {
                return Err(format!("{place} is none of what it may be: {:?}", known.may_be));
            };
            if !is_routed(index) {
                if source.get("cluster_root").is_some() {
                    return Err(format!("{place} is stamped, and no route is"));
                }
                continue;
            }
            let root = root_of(source).ok_or_else(|| format!("{place} has no root: {source}"))?;
            if source["cluster_key"].as_i64() != Some(root.0.0.cast_signed()) {
                return Err(format!("{place}: root and key differ: {source}"));
            }
            stored.push(Stored { story, root, written: known.written, place });
        }
        for (index, documents) in &all {
            for id in documents.keys() {
                if !records.documents.contains_key(&(*index, id.clone())) {
                    return Err(format!("{index}/{id} was never sent"));
                }
            }
        }
        self.world.count("stored documents checked", stored.len() as u64);
        Ok(stored)
    }

    /// What the background has to do is done: overrides are followed, and counts are true.
    async fn converged(&self) -> Result<(), String> {
        let stored = self.stored()?;
        let merges = self.records.lock().merges.clone();
        for process in self.processes() {
            let overrides = process.product.engine().overrides_of_index("news-1").await;
            let (_, overrides) = overrides.map_err(|error| format!("the overrides cannot be read: {error}"))?;
            for (number, (winner, loser)) in &merges {
                if overrides.group(*winner) != overrides.group(*loser) {
                    return Err(format!("the override {number} is not followed: {winner} and {loser}"));
                }
            }
            for document in &stored {
                let group = overrides.group(document.root);
                if group != document.root {
                    let Stored { place, root, .. } = document;
                    return Err(format!("{place} shows {root}, and {group} is the answer"));
                }
            }
            if overrides.unfinished().len() > 0 {
                return Err("an override is not finished".to_owned());
            }
        }
        self.world.count("merges followed", merges.len() as u64);
        match self.plan.counts {
            true => self.counted().and_then(|()| self.check_firsts()),
            false => Ok(()),
        }
    }

    /// Each group has one first document.
    fn check_firsts(&self) -> Result<(), String> {
        let cluster = self.upstream.cluster.lock();
        let mut groups: BTreeMap<i64, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for index in INDICES.iter().filter(|index| is_routed(index)) {
            for (id, (source, _)) in cluster.stored(index) {
                let group = groups.entry(source["cluster_key"].as_i64().unwrap_or_default()).or_default();
                group.0.push(format!("{index}/{id}: {}", source["cluster_first"]));
                if source["cluster_first"] == true {
                    group.1.push(format!("{index}/{id}"));
                }
            }
        }
        for (key, (documents, firsts)) in &groups {
            if firsts.len() != 1 {
                return Err(format!("the group {key:x} of {documents:?} has the first documents {firsts:?}"));
            }
            self.world.count("groups with one first document", u64::from(documents.len() > 1));
        }
        Ok(())
    }

    /// The entries of the roots indices are the groups of the documents.
    fn counted(&self) -> Result<(), String> {
        let cluster = self.upstream.cluster.lock();
        for index in INDICES.iter().filter(|index| is_routed(index)) {
            let mut groups: BTreeMap<i64, u64> = BTreeMap::new();
            for (source, _) in cluster.stored(index).values() {
                *groups.entry(source["cluster_key"].as_i64().unwrap_or_default()).or_default() += 1;
            }
            groups.retain(|_, documents| *documents >= 2);
            let entries = cluster.stored(&roots_index(index));
            let entry = |(source, _): &(Value, u64)| Some((source["cluster_key"].as_i64()?, source["n"].as_u64()?));
            let counted: BTreeMap<i64, u64> = entries.values().filter_map(entry).collect();
            if counted != groups {
                return Err(format!("{index}: {counted:?} is counted, and there are {groups:?}"));
            }
            self.world.count("groups counted", groups.len() as u64);
        }
        Ok(())
    }

    async fn checked(&self, process: &Process, story: usize) -> Result<Checked, String> {
        let story = self.records.lock().stories[story].clone();
        let source = story.source().to_string();
        let checked = process.product.check(source.into(), "news-1", "nobody").await;
        checked.map_err(|error| format!("process {} cannot check: {error}", process.number))
    }

    /// The same text has the root that it had, at every process.
    async fn check_roots(&self, stored: &[Stored]) -> Result<(), String> {
        let now = self.world.time();
        let window = self.plan.window.as_millis() as i64 * 8 / 10;
        let mut stories: BTreeMap<String, Vec<(Written, &Stored)>> = BTreeMap::new();
        {
            let records = self.records.lock();
            for document in stored {
                let Some(written) = document.written.filter(|it| it.answered > records.forgotten) else { continue };
                let key = records.stories[document.story].source().to_string();
                stories.entry(key).or_default().push((written, document));
            }
        }
        for documents in stories.values_mut() {
            documents.sort_by_key(|(written, _)| written.answered);
            let Some(&(written, last)) = documents.last() else { continue };
            let story = last.story;
            if now - written.answered > window {
                continue;
            }
            // Nobody sees a document of an unverified writer before the cluster has accepted it: until then another
            // copy of its text gets another root, and another text may take the root that it was given.
            if documents.iter().any(|(written, _)| self.records.lock().was_unseen(written)) {
                self.world.count("texts of unverified writers at one moment", 1);
                continue;
            }
            let was_postponed = |(written, _): &(Written, _)| self.records.lock().was_postponed_to_the_end(written);
            if documents.iter().any(was_postponed) {
                self.world.count("texts that were to be placed once Redis was back", 1);
                continue;
            }
            let may_have_lost = |(written, _): &(Written, _)| self.records.lock().may_have_lost_founder(written);
            if self.plan.gathers_writes() && documents.iter().any(may_have_lost) {
                self.world.count("texts with a lost founder", 1);
                continue;
            }
            let mut answers = Vec::new();
            for process in self.processes() {
                let checked = self.checked(&process, story).await?;
                if checked.fate == RootOrigin::OwnRoot {
                    // Each document has a root of its own, and an override may have made two of them one.
                    let corrected = self.records.lock().corrected.clone();
                    let mut roots = BTreeMap::new();
                    for (_, Stored { place, root, .. }) in documents.iter().filter(|of| !corrected.contains(&of.1.root))
                    {
                        if let Some(other) = roots.insert(*root, place) {
                            return Err(format!("documents without text share the root {root}: {other} and {place}"));
                        }
                    }
                    break;
                }
                // Sentences that many texts share count no more: such a text may be found by others than before.
                if !checked.boilerplate.is_empty() || checked.fingerprints.iter().any(|found| found.left_out) {
                    self.world.count("texts with boilerplate", 1);
                    answers.clear();
                    break;
                }
                answers.push((process.number, checked.root, checked.fate));
            }
            for &(number, answer, fate) in &answers {
                self.world.count("texts found again", 1);
                if answer != Some(last.root) {
                    if self.records.lock().has_twin(story) {
                        self.world.count("texts with the hash of another", 1);
                        break;
                    }
                    let Stored { place, root, .. } = last;
                    return Err(format!(
                        "{place} (story {story}) has the root {root}, and process {number} answers {answer:?}, {fate:?}"
                    ));
                }
            }
            if answers.is_empty() {
                continue;
            }
            for pair in documents.windows(2) {
                let [(before, first), (after, second)] = pair else { continue };
                if after.answered - before.answered < window && first.root != second.root {
                    if self.records.lock().has_twin(story) {
                        continue;
                    }
                    return Err(format!(
                        "{} and {} have one text (story {story}) and the roots {} and {}",
                        first.place, second.place, first.root, second.root
                    ));
                }
            }
            self.world.count("texts with several documents", u64::from(documents.len() > 1));
        }
        Ok(())
    }

    /// Nothing is left of texts that were only refused.
    async fn check_refused(&self) -> Result<(), String> {
        if self.plan.store == ForestStorage::Redis {
            // A release whose reply is lost is not sent again: the tree stays until its window ends.
            return Ok(());
        }
        let refused: Vec<usize> = {
            let records = self.records.lock();
            let is_local_fallback = |story: usize| {
                let text = &records.stories[story];
                let others = records.stories.iter().enumerate().filter(|(other, _)| *other != story);
                // What was edited of it is like it.
                text.is_new && others.into_iter().all(|(other, of)| of.is_new || other < story)
            };
            // What a refusal takes back may not be on the disk yet when its process ends.
            let is_settled = |sent: &Sent| {
                let unsettled = sent.refused_at..sent.taken_back_at + SETTLED;
                let mut dying = records.dying_disks.iter();
                let is_stored = dying.all(|dying| unsettled.end <= dying.start || dying.end <= unsettled.start);
                is_stored && !records.ends.iter().any(|end| unsettled.contains(end))
            };
            let sent = records.sent.iter().filter(|(story, sent)| {
                let text = &records.stories[**story];
                let is_refused = sent.refused > 0 && sent.accepted + sent.unknown == 0;
                is_refused && is_settled(sent) && text.body.chars().count() > 200
            });
            sent.map(|(story, _)| *story).filter(|story| is_local_fallback(*story)).collect()
        };
        for story in refused {
            for process in self.processes() {
                let checked = self.checked(&process, story).await?;
                self.world.count("refused texts looked for", 1);
                if let RootOrigin::Placed(Decision::Refreshed) = checked.fate {
                    let Checked { fingerprints, trees, .. } = checked;
                    return Err(format!(
                        "story {story} was only refused, and the forest knows it: {fingerprints:?}, {trees:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Budgets are whole, and nothing is in flight.
    async fn check_nothing_left(&self) -> Result<(), String> {
        for process in self.processes() {
            let (used, in_flight) = process.product.in_flight();
            if used > 0 || in_flight > 0 {
                return Err(format!("{used} bytes and {in_flight} requests are left in flight"));
            }
            let stats = process.product.engine().forests().stats().await.map_err(|error| error.to_string())?;
            for (forest, stats) in stats {
                if stats.memory_bytes > 1 << 30 {
                    return Err(format!("the forest {forest} takes {} bytes", stats.memory_bytes));
                }
                self.world.count("nodes", stats.nodes as u64);
            }
        }
        Ok(())
    }

    /// Stops all processes; nothing is left in the cluster.
    pub(super) async fn end(self: &Arc<Self>) {
        for number in 0..self.plan.processes {
            self.stop(number).await;
        }
        // Those of processes that were killed expire.
        pass(KEEP_ALIVE).await;
        let mut cluster = self.upstream.cluster.lock();
        let _ = cluster.answer(self.world.time(), "GET", "/", &[], &mut |_, _| None);
        let points = cluster.points();
        drop(cluster);
        if points > 0 {
            self.fail(format!("{points} points in time are left open"));
        }
    }
}
