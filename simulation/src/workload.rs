//! Writers with ids of their own, and people who merge groups.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};
use spinney::fingerprint::Fingerprint;
use spinney::forest::Root;
use spinney::forest::local::RETRY_WINDOW;
use spinney::forest::overrides::Override;

use super::documents::{edited, fresh};
use super::process::Reply;
use super::scene::{Content, DocumentAddress, INDICES, Known, Scene, Written, is_routed};
use super::upstream::BROKEN;

/// How a writer writes a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Index,
    Create,
    /// An update with the text.
    Update,
    /// An update that makes the document if it is not there.
    Upsert,
    /// An update without the text.
    Touch,
    Delete,
    /// What the mapping refuses.
    Broken,
}

/// One item of a bulk.
#[derive(Debug, Clone)]
struct Item {
    place: DocumentAddress,
    how: How,
    story: usize,
}

impl Scene {
    /// A writer's requests, one after the other.
    pub(super) async fn write(self: Arc<Self>, writer: u64) {
        let mut ids = 0;
        for _ in 0..self.plan.requests {
            self.world.pause(8_000).await;
            if self.has_failed() {
                return;
            }
            let mut items = self.items(writer, &mut ids);
            // A client that is told to come again does so, a few times.
            for _ in 0..3 {
                let Some(process) = self.process() else {
                    self.world.pause(2_000).await;
                    continue;
                };
                let body = self.body(&items);
                self.world.trace(|| format!("writer {writer} to process {}: {}", process.number, shown(&items)));
                let (sent, is_verified) = (self.world.time(), process.verified.lock().contains(&writer));
                let reply = process.ask(writer, "POST", "/_bulk", body.into()).await;
                let written = Written { sent, answered: self.world.time(), is_verified };
                let (again, is_accepted) = self.learn(&items, &reply, written);
                if is_accepted {
                    process.verified.lock().insert(writer);
                }
                self.world.trace(|| format!("writer {writer} is answered {}", shown_reply(&reply)));
                items.retain(|item| again.contains(&item.place));
                if items.is_empty() || self.world.happens(400) {
                    break;
                }
                self.world.pause(4_000).await;
            }
        }
    }

    fn items(&self, writer: u64, ids: &mut u64) -> Vec<Item> {
        let world = &self.world;
        let mut items: Vec<Item> = Vec::new();
        for _ in 0..1 + world.below(6) {
            let is_old = *ids > 0 && world.happens(300);
            let id = if is_old { world.below(*ids) } else { *ids };
            let index = INDICES[(id % 7 / 3) as usize % INDICES.len()];
            let place = (index, format!("{writer}-{id}"));
            // The order of two items for one document is another test's.
            if items.iter().any(|item| item.place == place) {
                continue;
            }
            *ids += u64::from(!is_old);
            let how = match world.below(20) {
                0..11 => How::Index,
                11..14 => How::Create,
                14..15 => How::Update,
                15..17 => How::Upsert,
                17 => How::Touch,
                18 => How::Delete,
                _ => How::Broken,
            };
            let place = match how {
                How::Broken => (index, format!("{}{BROKEN}", place.1)),
                _ => place,
            };
            items.push(Item { place, how, story: self.story() });
        }
        items
    }

    /// One that was sent before, one like it, or a new one.
    fn story(&self) -> usize {
        let world = &self.world;
        let mut records = self.records.lock();
        let known = records.stories.len() as u64;
        let story = match world.below(10) {
            _ if known == 0 => fresh(world),
            0..4 => return world.below(known) as usize,
            4 => edited(world, &records.stories[world.below(known) as usize]),
            5 => {
                // Two of what was last: the same moment at several processes.
                return (known - 1 - world.below(known.min(3))) as usize;
            }
            _ => fresh(world),
        };
        world.trace(|| format!("story {known}: {story}"));
        records.stories.push(story);
        records.stories.len() - 1
    }

    fn body(&self, items: &[Item]) -> String {
        let records = self.records.lock();
        let mut body = String::new();
        for item in items {
            let story = &records.stories[item.story];
            let source = story.source();
            let (index, id) = &item.place;
            let meta = json!({"_index": index, "_id": id});
            let (action, source) = match item.how {
                How::Index => ("index", source),
                How::Create => ("create", source),
                How::Update => ("update", json!({ "doc": source })),
                How::Upsert => ("update", json!({"doc": source, "doc_as_upsert": true})),
                How::Touch => ("update", json!({"doc": {"views": 1}})),
                How::Delete => ("delete", Value::Null),
                How::Broken => ("index", source),
            };
            let _ = writeln!(body, "{}", json!({ action: meta }));
            if item.how != How::Delete {
                let _ = writeln!(body, "{source}");
            }
        }
        body
    }

    /// Takes down what is known after a reply. Answers the documents to be sent again, and whether one that may have
    /// been stamped was accepted.
    fn learn(&self, items: &[Item], reply: &Reply, written: Written) -> (Vec<DocumentAddress>, bool) {
        let answer = reply.as_ref().map(|(status, body)| (status.as_u16(), body));
        let statuses: Option<Vec<u16>> = match answer {
            Some((200, body)) => {
                let answer: Value = serde_json::from_slice(body).unwrap_or_default();
                let statuses = answer["items"].as_array().map(|items| {
                    let status = |item: &Value| item.as_object()?.values().next()?["status"].as_u64();
                    items.iter().filter_map(|item| Some(status(item)? as u16)).collect::<Vec<u16>>()
                });
                statuses.filter(|statuses| statuses.len() == items.len())
            }
            _ => None,
        };
        if statuses.is_none() && matches!(answer, Some((200, _))) {
            self.fail(format!("an answer that names other items: {}", shown_reply(reply)));
        }
        // These were never carried out; after all other answers, and without one, they may have been.
        let is_refused = matches!(answer, Some((400 | 401 | 403 | 413 | 429 | 503, _)));
        let (mut again, mut is_accepted, mut refused) = (Vec::new(), false, false);
        let mut records = self.records.lock();
        records.requests.push((written.sent, written.answered));
        for (at, item) in items.iter().enumerate() {
            let status = statuses.as_ref().map(|statuses| statuses[at]);
            let outcome = match status {
                Some(200..300) => Outcome::Done,
                Some(429 | 503) => Outcome::Later,
                Some(_) => Outcome::Refused,
                None if is_refused => Outcome::Later,
                None => Outcome::Unknown,
            };
            let sent = records.sent.entry(item.story).or_default();
            match outcome {
                Outcome::Done => sent.accepted += 1,
                Outcome::Refused | Outcome::Later => {
                    refused = true;
                    if sent.refused == 0 {
                        sent.refused_at = written.answered;
                    }
                    sent.refused += 1;
                    // A whole answer of 503 does not say that nothing was stored.
                    let is_unknown = matches!(answer, Some((503, _)));
                    let taken_back_at = written.answered + if is_unknown { RETRY_WINDOW.0 } else { 0 };
                    sent.taken_back_at = sent.taken_back_at.max(taken_back_at);
                }
                Outcome::Unknown => sent.unknown += 1,
            }
            self.world.count(outcome.name(), 1);
            let entry = records.documents.entry(item.place.clone());
            let known = entry.or_insert_with(|| Known { may_be: vec![Content::Absent], written: None });
            apply(known, item, outcome, written);
            is_accepted |= outcome == Outcome::Done && is_routed(item.place.0);
            if matches!(outcome, Outcome::Later | Outcome::Unknown) {
                again.push(item.place.clone());
            }
        }
        if refused {
            records.refusals.push(written.answered);
        }
        (again, is_accepted)
    }

    /// People who merge groups and undo it.
    pub(super) async fn correct(self: Arc<Self>) {
        for _ in 0..self.world.below(4) {
            self.world.pause(20_000).await;
            let Some(process) = self.process() else { continue };
            let engine = process.product.engine().clone();
            let undone = self.world.happens(300).then(|| self.records.lock().merges.keys().next().copied()).flatten();
            #[expect(clippy::disallowed_methods, reason = "who may correct groups is not what is simulated")]
            let work = async {
                if let Some(number) = undone {
                    // From now on it may be undone, whatever the answer is.
                    self.records.lock().merges.remove(&number);
                    return engine.undo_override("news-1", number).await.map(|_| ());
                }
                let roots = self.roots();
                let (Some(&winner), Some(&loser)) = (roots.first(), roots.last()) else { return Ok(()) };
                if winner == loser {
                    return Ok(());
                }
                self.records.lock().corrected.extend([winner, loser]);
                let correction = Override::Merge { winner, losers: vec![loser] };
                let added = engine.add_override("news-1", correction, Vec::new()).await?;
                if let Some(number) = added {
                    self.world.trace(|| format!("override {number}: {winner} is one with {loser}"));
                    self.records.lock().merges.insert(number, (winner, loser));
                }
                Ok(())
            };
            let life = process.life.clone();
            let done = tokio::select! {
                biased;
                () = life.ended() => None,
                done = work => Some(done),
            };
            self.world.trace(|| format!("an override at process {}: {done:?}", process.number));
            // Without an answer it may be in force or not: documents follow it or not, as all answers do.
            if let Some(Ok(())) = done {
                self.world.count("overrides", 1);
            }
            process.product.restamp();
        }
    }

    /// Roots of stored documents, each once.
    fn roots(&self) -> Vec<Root> {
        let cluster = self.upstream.cluster.lock();
        let mut roots: Vec<Root> = Vec::new();
        for index in INDICES.iter().filter(|index| is_routed(index)) {
            for (source, _) in cluster.stored(index).values() {
                let root = source["cluster_root"].as_str().and_then(|root| Fingerprint::written(root, true));
                if let Some(root) = root.map(Root)
                    && !roots.contains(&root)
                {
                    roots.push(root);
                }
            }
        }
        let most = roots.len().max(1);
        roots.rotate_left(self.world.below(most as u64) as usize % most);
        roots
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Nothing was done, and the writer is to come again.
    Later,
    Refused,
    Unknown,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Done => "documents accepted",
            Outcome::Later => "documents refused for now",
            Outcome::Refused => "documents refused",
            Outcome::Unknown => "documents of unknown outcome",
        }
    }
}

/// What a document may be after an item.
fn apply(known: &mut Known, item: &Item, outcome: Outcome, written: Written) {
    let after = |before: &Content| match (item.how, before) {
        (How::Index | How::Upsert, _) | (How::Create, Content::Absent) => Some(Content::Story(item.story)),
        (How::Update, Content::Story(_)) => Some(Content::Story(item.story)),
        (How::Touch, Content::Story(story)) => Some(Content::Story(*story)),
        (How::Delete, _) => Some(Content::Absent),
        (How::Create, Content::Story(_)) | (How::Update | How::Touch, Content::Absent) | (How::Broken, _) => None,
    };
    let states: Vec<Content> = known.may_be.iter().filter_map(after).collect();
    match outcome {
        Outcome::Later | Outcome::Refused => {}
        Outcome::Done => {
            known.may_be = states;
            if item.how != How::Touch {
                known.written = Some(written);
            }
        }
        Outcome::Unknown => {
            known.may_be.extend(states);
            known.written = None;
        }
    }
    known.may_be.dedup();
}

fn shown(items: &[Item]) -> String {
    let mut text = String::new();
    for Item { place: (index, id), how, story } in items {
        let _ = write!(text, "{how:?} {index}/{id} story {story}; ");
    }
    text
}

fn shown_reply(reply: &Reply) -> String {
    match reply {
        None => "nothing: the connection broke".to_owned(),
        Some((status, body)) => {
            let text = String::from_utf8_lossy(body);
            format!("{} {}", status.as_u16(), text.chars().take(400).collect::<String>())
        }
    }
}
