//! Stored documents follow what people say about groups: those that show a root that is not answered for them any more are stamped
//! anew, in spinney's own name. Which they are and what they are to show is `forest/words/restamp.rs`; the law is docs/merges.md.
//!
//! Only the root is written, over a document that is still as it was read, so whatever is repeated, overtaken or broken off in
//! the middle ends the same. What was on its way to the cluster when something was said is waited for: it may show what was
//! answered before. Of processes that share a forest one does it; it waits for what all of them have on their way (`obeyed.rs`).

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::lines::{self, Fate};
use super::obeyed::AllObey;
use super::pages::{Found, Pages, Slice};
use super::survey::{Order, Routes, Target, survey};
use super::{AdoptError, pages};
use crate::bulk::Seen;
use crate::cluster::operator::Operator;
use crate::counts::{Counts, Written};
use crate::engine::{Engine, RequestContext, Unavailable, WordError};
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::forest::port::Obeyed;
use crate::forest::words::{Looked, Restamp, RestampPass, Words};
use crate::shutdown::Writes;

/// Documents of a bulk.
const BATCH: usize = 500;

/// Of each bulk, so many documents show that it has become visible.
const WITNESSES: usize = 64;

/// Roots that are looked for in one way through the documents, unless one word names more.
const MOST_ROOTS: usize = 2_000;

/// So long after the forest has merged groups, stored documents begin to follow.
const GATHERING: Duration = Duration::from_secs(1);

/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How far it is; shared with those who show it, and who wake it.
#[derive(Debug, Default)]
pub(crate) struct Restamping {
    wake: Notify,
    status: Mutex<Status>,
    /// What those who share forests obey.
    all_obey: AllObey,
}

#[derive(Debug, Clone, Default)]
struct Status {
    is_working: bool,
    /// Why it does not go on; empty: it does.
    reason: String,
    /// Words that stored documents may not follow yet.
    waiting: u64,
    stamped: u64,
    errors: u64,
}

impl Restamping {
    /// Something was said.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(super) fn all_obey(&self) -> &AllObey {
        &self.all_obey
    }

    /// It cannot even begin.
    pub(crate) fn cannot_start(&self, reason: &str) {
        warn!(
            reason,
            "stored documents do not follow what is said about groups"
        );
        self.status.lock().reason = reason.to_owned();
    }

    fn ended(&self, result: &Result<(), RestampError>) {
        let mut status = self.status.lock();
        status.is_working = false;
        status.reason.clear();
        if let Err(error) = result {
            status.errors += 1;
            status.reason = error.to_string();
        }
    }

    /// As `_stats` and the list of words show it.
    pub(crate) fn shown(&self) -> Value {
        let status = self.status.lock().clone();
        let state = match (status.reason.is_empty(), status.is_working) {
            (false, _) => "failing",
            (true, true) => "stamping",
            (true, false) => "waiting",
        };
        json!({
            "state": state,
            "reason": status.reason,
            "waiting": status.waiting,
            "stamped": status.stamped,
            "errors": status.errors,
        })
    }

    /// Names, help and values of the metrics.
    pub(crate) fn metrics(&self) -> [(&'static str, &'static str, u64); 3] {
        let status = self.status.lock();
        [
            (
                "words_waiting",
                "Words about groups that stored documents may not follow yet",
                status.waiting,
            ),
            (
                "restamped",
                "Stored documents that got another root since the start, because somebody has said so",
                status.stamped,
            ),
            (
                "restamp_errors",
                "Times since the start that stored documents could not be given another root",
                status.errors,
            ),
        ]
    }
}

/// What it works with.
pub(crate) struct Restamper<'a> {
    pub(crate) shared: &'a Restamping,
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) operator: &'a Operator,
    pub(crate) writes: &'a Writes,
    pub(crate) counts: &'a Counts,
    pub(crate) routes: &'a Routes,
    /// The forests that other processes share.
    pub(crate) shared_forests: Vec<String>,
    /// What the engine is to know when it reads a stored document.
    pub(crate) context: &'a (dyn Fn() -> RequestContext + Send + Sync),
}

/// Stored documents of one forest that are to be stamped anew.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    forest: String,
    /// The words, and what each asks for; none: all of them, at the start.
    words: Vec<(u64, Arc<Restamp>)>,
}

/// What the words of each forest ask for, by its name and their numbers.
type ToDo = BTreeMap<String, BTreeMap<u64, Arc<Restamp>>>;

impl Job {
    /// A way through the documents as they are to be now.
    fn pass(&self, words: &Words) -> RestampPass {
        match self.words.is_empty() {
            true => words.pass_for_all(),
            false => words.pass_for(self.words.clone()),
        }
    }
}

/// A job whose documents were gone through once, and what was on its way before that.
struct Begun {
    job: Job,
    before: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
enum RestampError {
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    #[error(transparent)]
    Forest(#[from] Unavailable),
    #[error(transparent)]
    Word(#[from] WordError),
    #[error("a document cannot be written: {0}")]
    Refused(String),
}

impl Restamper<'_> {
    /// Works until it is aborted.
    pub(crate) async fn run(&self) {
        let mut pause = pages::PAUSE;
        // What was under way when the last process ended may have come after its jobs.
        let mut started = HashSet::new();
        loop {
            let result = self.work(&mut started).await;
            self.shared.ended(&result);
            match result {
                Ok(()) => {
                    pause = pages::PAUSE;
                    self.woken().await;
                }
                Err(error) => {
                    warn!(%error, "stored documents do not follow yet what was said about groups");
                    let woken = self.shared.wake.notified();
                    let _ = tokio::time::timeout(pause, woken).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Whether it is this process that has the stored documents of a forest follow.
    fn leads(&self, forest: &str) -> bool {
        let is_first = |obeyed: Obeyed| obeyed.is_first;
        !self.is_shared(forest) || self.shared.all_obey.of(forest).is_some_and(is_first)
    }

    fn is_shared(&self, forest: &str) -> bool {
        self.shared_forests.iter().any(|shared| shared == forest)
    }

    /// Somebody has said something, or the forest itself.
    async fn woken(&self) {
        tokio::select! {
            () = self.shared.wake.notified() => {}
            // Nobody waits for that, and more of it may come at once.
            () = self.engine.merged() => pause(GATHERING).await,
        }
    }

    /// Does all that is to be done. `started`: forests whose documents were gone through since this process has them follow.
    async fn work(&self, started: &mut HashSet<String>) -> Result<(), RestampError> {
        started.retain(|forest| self.leads(forest));
        for (forest, _) in self.engine.all_words().await? {
            if !self.leads(&forest) || started.contains(&forest) {
                continue;
            }
            self.complete(&Job {
                forest: forest.clone(),
                words: Vec::new(),
            })
            .await?;
            started.insert(forest);
        }
        let mut begun: Vec<Begun> = Vec::new();
        loop {
            let mut to_do = self.to_do().await?;
            // What has changed meanwhile begins again; the others of its way through the documents have been gone through.
            begun.retain_mut(|Begun { job, .. }| {
                let mut of_forest = to_do.get_mut(&job.forest);
                job.words.retain(|(number, restamp)| {
                    let to_do = of_forest.as_mut();
                    to_do.is_some_and(|to_do| take(to_do, *number, restamp))
                });
                !job.words.is_empty()
            });
            for job in together(to_do) {
                self.shared.status.lock().is_working = true;
                // From here on whoever asks is told what the job is about.
                let heard = self.engine.hear(&job.forest).await?;
                let (here, forest) = (self.writes.begun(), job.forest.clone());
                let all_obey = self.shared.all_obey.clone();
                let is_shared = self.is_shared(&forest);
                let before = Box::pin(async move {
                    here.await;
                    if is_shared {
                        all_obey.wait(forest, heard).await;
                    }
                });
                self.pass(&job).await?;
                begun.push(Begun { job, before });
            }
            let Some(first) = begun.first_mut() else {
                return Ok(());
            };
            tokio::select! {
                () = &mut first.before => {}
                () = self.woken() => continue,
            }
            let Begun { job, .. } = begun.remove(0);
            let done = self.complete(&job).await?;
            self.engine.restamped(&job.forest, done).await?;
        }
    }

    /// What is to be done.
    async fn to_do(&self) -> Result<ToDo, RestampError> {
        let (mut to_do, mut waiting) = (ToDo::new(), 0);
        for (forest, words) in self.engine.all_words().await? {
            let unfinished = words.unfinished();
            waiting += unfinished.len() as u64;
            if self.leads(&forest) {
                let unfinished = unfinished.map(|(number, of)| (number, of.clone()));
                to_do.insert(forest, unfinished.collect());
            }
        }
        self.shared.status.lock().waiting = waiting;
        Ok(to_do)
    }

    /// Goes through the documents of a job until none is in the way any more. Answers which way it was.
    async fn complete(&self, job: &Job) -> Result<RestampPass, RestampError> {
        let mut pause = pages::PAUSE;
        loop {
            let (left, pass) = self.pass(job).await?;
            if left == 0 {
                return Ok(pass);
            }
            info!(
                left,
                "documents were changed while they were to get another root"
            );
            tokio::time::sleep_until((Instant::now() + pause).into()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Goes through the documents of a job once. Answers how many have to be looked at again.
    async fn pass(&self, job: &Job) -> Result<(u64, RestampPass), RestampError> {
        let words = self.engine.words_of(&job.forest).await?;
        let pass = job.pass(&words);
        let sought = pass.sought(&words);
        // Others change them meanwhile.
        drop(words);
        if sought.is_empty() {
            return Ok((0, pass));
        }
        let targets = match survey(self.operator, self.routes, None, None).await {
            Err(AdoptError::NoIndex(_)) => return Ok((0, pass)),
            targets => targets?,
        };
        let mut left = 0;
        for mut target in targets {
            if target.route.forest != job.forest {
                continue;
            }
            target.order = Order::of_arrival();
            if !pass.needs_texts() {
                target.route.fields.clear();
            }
            target.route.fields.push(target.names.root().to_owned());
            // A query takes so many terms.
            for roots in sought.chunks(MOST_ROOTS) {
                let roots: Vec<String> = roots.iter().map(Root::to_string).collect();
                let query = json!({"bool": {"filter": [
                    {"terms": {"_index": target.indices}},
                    {"terms": {target.names.root(): roots}},
                ]}});
                let all = Slice { id: 0, of: 1 };
                let mut pages = Pages::new(self.operator, &target, query, all, BATCH);
                while let Some(found) = pages.next().await? {
                    left += self.stamp((&job.forest, &pass), &target, &found).await?;
                }
                pages.close().await;
            }
        }
        Ok((left, pass))
    }

    /// Stamps those of these documents anew that show another root than they are to. Answers how many have changed meanwhile, or
    /// could not be written just now.
    async fn stamp(
        &self,
        (forest, pass): (&str, &RestampPass),
        target: &Target,
        found: &[Found],
    ) -> Result<u64, RestampError> {
        let mut looked = Vec::with_capacity(found.len());
        for found in found {
            looked.push(match pass.needs_texts() {
                true => self.look(target, found).await?,
                false => None,
            });
        }
        // Of now: what was said in the meantime counts. It is a write like others: another process may wait for it.
        let _writing = self.writes.enter();
        let words = self.engine.words_of(forest).await?;
        let (root_field, key_field) = (target.names.root(), target.names.key());
        let (mut lines, mut moved) = (Vec::new(), Vec::new());
        for (found, looked) in found.iter().zip(looked) {
            let Some(shown) = shown(&found.source, root_field) else {
                continue;
            };
            let root = pass.shows(&words, shown, looked);
            if root != shown {
                let key = root.0.0.cast_signed();
                let members = json!({root_field: root.to_string(), key_field: key});
                lines::add_members(&mut lines, found, &members);
                moved.push((found, [shown, root]));
            }
        }
        drop(words);
        if moved.is_empty() {
            return Ok(0);
        }
        let own = HeaderName::from_static("x-opaque-id");
        let own = (own, HeaderValue::from_static("spinney-words"));
        let sent = self.operator.send_lines_with("/_bulk", own, lines.into());
        let answer = match sent.await {
            Ok(answer) => answer,
            Err(error) => {
                // It may have been done.
                self.note(&moved, &[]);
                return Err(AdoptError::from(error).into());
            }
        };
        let fates = lines::numbered_fates(&answer, moved.len()).unwrap_or_default();
        self.note(&moved, &fates);
        if fates.is_empty() {
            let answer = String::from_utf8_lossy(&answer).into_owned();
            return Err(AdoptError::Answer(answer).into());
        }
        let mut left = 0;
        for (fate, _) in fates {
            match fate {
                Fate::Stamped => self.shared.status.lock().stamped += 1,
                Fate::Unchanged | Fate::Gone => {}
                Fate::Changed | Fate::Later(_) => left += 1,
                Fate::Refused(reason) => return Err(RestampError::Refused(reason)),
            }
        }
        Ok(left)
    }

    async fn look(&self, target: &Target, found: &Found) -> Result<Option<Looked>, RestampError> {
        let name = target.name_of(&found.index);
        let source = found.source.clone();
        Ok(self.engine.look(name, source, (self.context)()).await?)
    }

    /// Tells who counts groups. Without fates, nobody knows what was done.
    fn note(&self, moved: &[(&Found, [Root; 2])], fates: &[(Fate, Option<u64>)]) {
        #[derive(Default)]
        struct Part {
            roots: HashSet<u64>,
            seen: Vec<Seen>,
        }
        let mut parts: BTreeMap<&str, Part> = BTreeMap::new();
        for (at, (found, roots)) in moved.iter().enumerate() {
            let fate = fates.get(at);
            if fate.is_some_and(|(fate, _)| *fate != Fate::Stamped) {
                continue;
            }
            let part = parts.entry(&found.index).or_default();
            part.roots.extend(roots.map(|root| root.0.0));
            if let Some(&(_, Some(seq_no))) = fate {
                part.seen.push(Seen {
                    item: at,
                    id: found.id.clone(),
                    seq_no,
                    is_deleted: false,
                });
            }
        }
        for (index, part) in parts {
            let roots: Vec<u64> = part.roots.into_iter().collect();
            let last = part.seen.len().saturating_sub(WITNESSES);
            let witnesses: Vec<&Seen> = part.seen.iter().skip(last).collect();
            let written = Written {
                index,
                roots: &roots,
                witnesses: &witnesses,
                ..Written::default()
            };
            self.counts.note(std::iter::once(written));
            self.counts.hurry();
        }
    }
}

/// Whether this is still to be done; then it is taken off what is to be begun.
fn take(to_do: &mut BTreeMap<u64, Arc<Restamp>>, number: u64, restamp: &Arc<Restamp>) -> bool {
    let is_it = to_do.get(&number).is_some_and(|of| of == restamp);
    if is_it {
        to_do.remove(&number);
    }
    is_it
}

/// Words of one forest are followed in one way through the documents: a forest says many at once, and where texts are
/// needed, the documents of all words that wait are looked at anyway.
fn together(to_do: ToDo) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (forest, words) in to_do {
        let job = |words| Job {
            forest: forest.clone(),
            words,
        };
        let (by_texts, by_root): (Vec<_>, Vec<_>) = words
            .into_iter()
            .partition(|(_, restamp)| restamp.needs_texts());
        let (mut some, mut roots) = (Vec::new(), 0);
        for (number, restamp) in by_root {
            let more = restamp.roots.len();
            if roots + more > MOST_ROOTS && !some.is_empty() {
                jobs.push(job(std::mem::take(&mut some)));
                roots = 0;
            }
            roots += more;
            some.push((number, restamp));
        }
        let rest = [some, by_texts].into_iter();
        jobs.extend(rest.filter(|words| !words.is_empty()).map(job));
    }
    jobs
}

#[expect(
    clippy::disallowed_methods,
    reason = "what the forest says is gathered for a while"
)]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The root that a document shows.
pub(crate) fn shown(source: &[u8], field: &str) -> Option<Root> {
    let source: Value = serde_json::from_slice(source).ok()?;
    let root = Fingerprint::written(source.get(field)?.as_str()?, true)?;
    Some(Root(root))
}
