//! Transfers a whole forest from a process into Redis, and back, while no documents are placed.
//!
//! An import writes roots before leaves, so that no leaf is dead, each with the rest of its lifetime (to a 64th of the
//! window), as trees that are never withdrawn. Until it has ended, the record of fields is unfinished. An export sorts
//! nodes by the step of their arrival, and writes the changes that make them. Boilerplate is transferred as lessons
//! (`boilerplate_sync.rs`), with the overrides.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use spinney_text::fingerprint::{Fingerprint, FingerprintVersion};
use spinney_text::hash::HashKey;
use spinney_text::method::{Durable, FounderTokens, MethodKind, Proof};

use super::keys::{
    Command, FoundingToken, Key, KeyKind, KeyOp, Lifetime, RedisReply, ScanPosition, fingerprints_of, with_fingerprints,
};
use super::layout::{Calendar, LeafValue, NodeValue, RootValue, read_founder_tokens, write_founder_tokens};
use super::{SharedForest, SharedInner};
use crate::local::{Copied, ForestState, StateChange};
use crate::overrides::Overrides;
use crate::port::{PortHandle, Unavailable};
use crate::progress::{Progress, ReportProgress};
use crate::text_fields::FieldRecord;
use crate::time::Millis;
use crate::{Change, DocumentHash, Forest, Portions, Restoring, Root, Settings, Summary, Tick, TickStart, TreeSize};

/// Nodes of one step.
const STEP: usize = 5_000;
/// Bytes of changes that are handed over together.
const BATCH: usize = 1 << 20;
/// Nodes that arrive in one tick, where they are put together again.
const MOST_OF_TICK: usize = 1 << 16;

/// The totals of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferReport {
    /// Nodes, roots among them.
    pub nodes: u64,
    /// Trees.
    pub roots: u64,
    /// Nodes that were skipped: expired, or without a tree.
    pub skipped: u64,
    /// Sentences that are known as boilerplate.
    pub boilerplate: u64,
}

/// The transfer of a forest between a process and Redis.
pub trait Transfer: Send + Sync {
    /// Whether Redis has nothing of it.
    fn is_empty(&self) -> PortHandle<bool>;
    /// Removes the forest, and returns the number of removed keys. No process may be placing documents.
    fn clear(&self) -> PortHandle<u64>;
    /// Writes a local forest into Redis. Existing keys stay.
    fn fill(&self, from: Arc<dyn Copied>, report: Arc<ReportProgress<'static>>) -> PortHandle<TransferReport>;
    /// Fills an empty local forest from Redis.
    fn import(&self, into: Arc<dyn Copied>, report: Arc<ReportProgress<'static>>) -> PortHandle<TransferReport>;
    /// The version of the fingerprints that it was begun with.
    fn fingerprints(&self) -> PortHandle<FingerprintVersion>;
    /// Which fields its texts were read from.
    fn fields(&self) -> PortHandle<FieldRecord>;
    /// Declares the version of the fingerprints that will be imported, and the fields of their texts.
    fn declare(&self, fingerprints: FingerprintVersion, fields: FieldRecord) -> PortHandle<()>;
    /// Number of its boilerplate sentences.
    fn known(&self) -> PortHandle<u64>;
    /// How it looks. `top`: how many of the largest trees are listed.
    fn summary(&self, top: usize, report: Arc<ReportProgress<'static>>) -> PortHandle<Summary>;
}

/// A node of a process's own.
struct ExportedNode<P> {
    fingerprint: Fingerprint,
    root: Root,
    arrival: Millis,
    /// At a root: its founding, its leaves and its data.
    tree: Option<ExportedTree<P>>,
}

/// A whole forest of a process's own.
struct ExportedForest<P> {
    nodes: Vec<ExportedNode<P>>,
    clock: Millis,
    /// The learned text in portions, and its number of boilerplate sentences.
    learned: Vec<Vec<u8>>,
    known: u64,
    /// Its overrides.
    overrides: Arc<Overrides>,
}

struct ExportedTree<P> {
    value: RootValue<P>,
    founder_tokens: Option<FounderTokens>,
}

/// The content of a Redis.
struct Found<P> {
    roots: HashMap<Fingerprint, RootValue<P>>,
    leaves: Vec<(Fingerprint, LeafValue)>,
    founder_tokens: HashMap<Fingerprint, (FoundingToken, FounderTokens)>,
    keys: u64,
}

impl<F: MethodKind> Transfer for SharedForest<F> {
    fn is_empty(&self) -> PortHandle<bool> {
        let inner = self.inner.clone();
        self.plain(async move {
            let mut place = Some(ScanPosition::default());
            while let Some(at) = place {
                let (keys, next) = inner.keys_from(at).await?;
                // Acknowledgements of recent processes do not count.
                if keys.iter().any(|key| key.kind != KeyKind::Acknowledgements) {
                    return Ok(false);
                }
                place = next;
            }
            Ok(true)
        })
    }

    fn fingerprints(&self) -> PortHandle<FingerprintVersion> {
        let inner = self.inner.clone();
        self.plain(async move {
            inner.number().await?;
            let forests = inner.keys.forests().await.map_err(|away| inner.away(away))?;
            let identity = forests.into_iter().find(|(name, ..)| *name == inner.name);
            let version = identity.and_then(|(_, _, identity)| fingerprints_of(&identity));
            Ok(version.unwrap_or(FingerprintVersion::CURRENT))
        })
    }

    fn fields(&self) -> PortHandle<FieldRecord> {
        let inner = self.inner.clone();
        self.plain(async move { inner.keys.fields(&inner.name).await.map_err(|away| inner.away(away)) })
    }

    fn declare(&self, fingerprints: FingerprintVersion, fields: FieldRecord) -> PortHandle<()> {
        let inner = self.inner.clone();
        self.plain(async move {
            inner.number().await?;
            let identity = with_fingerprints(&inner.identity, fingerprints);
            inner.keys.declare(&inner.name, &identity, &fields).await.map_err(|away| inner.away(away))
        })
    }

    fn clear(&self) -> PortHandle<u64> {
        let inner = self.inner.clone();
        self.plain(async move { inner.clear().await })
    }

    fn fill(&self, from: Arc<dyn Copied>, report: Arc<ReportProgress<'static>>) -> PortHandle<TransferReport> {
        let inner = self.inner.clone();
        self.plain(async move {
            let own = inner.compute(move |inner| inner.own(&*from)).await??;
            if inner.calendar.is_dated && own.clock.0 > i64::MIN {
                inner.clock.fetch_max(own.clock.0, Relaxed);
                let what = KeyOp::Advance { to: own.clock };
                let advance = vec![(KeyKind::Clock, Fingerprint(0), what)];
                inner.run_all(advance).await?;
            }
            inner.teach_all(own.learned).await?;
            let transferred = inner.fill(own.nodes, &*report).await?;
            inner.import_overrides(&own.overrides).await?;
            let boilerplate = own.known;
            Ok(TransferReport { boilerplate, ..transferred })
        })
    }

    fn import(&self, into: Arc<dyn Copied>, report: Arc<ReportProgress<'static>>) -> PortHandle<TransferReport> {
        let inner = self.inner.clone();
        self.plain(async move {
            let found = inner.find(&*report).await?;
            let table = inner.overrides().await?;
            inner.refresh_boilerplate().await?;
            inner
                .compute(move |inner| {
                    let transferred = inner.import_all(&found, &*into)?;
                    into.replay(&inner.changes_of(table.overrides()))?;
                    Ok(transferred)
                })
                .await?
        })
    }

    fn known(&self) -> PortHandle<u64> {
        let inner = self.inner.clone();
        self.plain(async move {
            inner.refresh_boilerplate().await?;
            let known = F::known(&inner.learned.lock());
            Ok(known as u64)
        })
    }

    fn summary(&self, top: usize, report: Arc<ReportProgress<'static>>) -> PortHandle<Summary> {
        let inner = self.inner.clone();
        self.plain(async move {
            let found = inner.find(&*report).await?;
            let size = inner.keys.size().await;
            let (_, memory_bytes) = size.map_err(|away| inner.away(away))?;
            let now = inner.arrives(None);
            Ok(found.summary(inner.calendar(), now, memory_bytes, top))
        })
    }
}

impl<F: MethodKind> SharedInner<F> {
    pub(super) async fn keys_from(&self, at: ScanPosition) -> Result<(Vec<Key>, Option<ScanPosition>), Unavailable> {
        let forest = self.number().await?;
        let keys = self.keys.keys(forest, at).await;
        keys.map_err(|away| self.away(away))
    }

    pub(super) async fn get(&self, keys: &[Key]) -> Result<Vec<RedisReply>, Unavailable> {
        let get = |&key: &Key| Command { key, what: KeyOp::Get };
        let commands = keys.iter().map(get).collect();
        let replies = self.keys.run(commands).await;
        replies.map_err(|failed| self.away(failed.why))
    }

    async fn clear(&self) -> Result<u64, Unavailable> {
        let (mut place, mut gone) = (Some(ScanPosition::default()), 0);
        while let Some(at) = place {
            let (keys, next) = self.keys_from(at).await?;
            let values = self.get(&keys).await?;
            let remove = keys.into_iter().zip(values).filter_map(|(key, value)| {
                let RedisReply::Bytes(value) = value else {
                    return None;
                };
                let what = KeyOp::Remove { value };
                Some(Command { key, what })
            });
            let removed = self.keys.run(remove.collect()).await;
            let removed = removed.map_err(|failed| self.away(failed.why))?;
            gone += removed.iter().filter(|r| **r == RedisReply::Number(1)).count() as u64;
            place = next;
        }
        self.forget_lessons().await?;
        Ok(gone)
    }

    /// A forest of a process, the nodes roots first.
    fn own(&self, from: &dyn Copied) -> Result<ExportedForest<F::Proof>, Unavailable> {
        let unreadable = || {
            let reason = "the forest cannot be copied: it is of another kind".to_owned();
            Unavailable::Away { forest: self.name.clone(), reason }
        };
        let settings = Settings { k: self.blocks.k(), window: self.settings.window, key: HashKey::FIXED };
        let learned = F::Learned::default();
        let empty = ForestState::<F>::new(settings, self.thresholds, learned).map_err(|_| unreadable())?;
        let mut restoring = Restoring::new(empty.with_founder_tokens(usize::MAX));
        let (section, bytes) = from.begin()?;
        let mut read = restoring.part(section, &bytes);
        let mut portions = Portions::default();
        while let Some((section, bytes)) = from.next(&mut portions)? {
            read = read.and_then(|()| restoring.part(section, &bytes));
        }
        read.map_err(|_| unreadable())?;
        let state = restoring.finish();
        let mut nodes = own_nodes(state.forest(), self.calendar);
        nodes.sort_by_key(|node| node.tree.is_none());
        Ok(ExportedForest {
            nodes,
            clock: state.forest().clock(),
            learned: F::portions(state.learned()),
            known: F::known(state.learned()) as u64,
            overrides: state.overrides().clone(),
        })
    }

    async fn fill(
        &self,
        nodes: Vec<ExportedNode<F::Proof>>,
        report: &ReportProgress<'_>,
    ) -> Result<TransferReport, Unavailable> {
        let (total, now) = (nodes.len() as u64, self.arrives(None));
        let mut tokens: HashMap<Root, FoundingToken> = HashMap::new();
        let (mut transferred, mut done) = (TransferReport::default(), 0);
        let mut nodes = nodes.into_iter().peekable();
        while nodes.peek().is_some() {
            let (mut commands, mut founder_tokens) = (Vec::new(), Vec::new());
            let (mut claimed, mut names) = (Vec::new(), Vec::new());
            let is_root = nodes.peek().is_some_and(|node| node.tree.is_some());
            // Not roots and leaves in one round trip.
            while let Some(node) = nodes.next_if(|node| node.tree.is_some() == is_root) {
                done += 1;
                let life = self.life(node.arrival, is_root);
                let is_over = match self.calendar.is_dated {
                    true => self.calendar().is_over(self.calendar.step(node.arrival)),
                    false => matches!(life, Lifetime::Until(at) if at <= now),
                };
                let token = match is_root {
                    true => Some(self.new_token()),
                    false => tokens.get(&node.root).copied(),
                };
                let Some(token) = token.filter(|_| !is_over) else {
                    transferred.skipped += 1;
                    continue;
                };
                let value = match node.tree {
                    Some(tree) => {
                        if let Some(tokens) = tree.founder_tokens {
                            let value = write_founder_tokens(token, &tokens);
                            founder_tokens.push((node.fingerprint, value));
                        }
                        RootValue { token, ..tree.value }.bytes()
                    }
                    None => {
                        let leaf = self.calendar.leaf(node.root, token, node.arrival);
                        leaf.bytes()
                    }
                };
                claimed.push((node.fingerprint, token));
                self.enter(node.fingerprint, node.arrival, &mut names);
                commands.push((node.fingerprint, KeyOp::Claim { value, life }));
                if commands.len() == STEP {
                    break;
                }
            }
            for (reply, (fingerprint, token)) in self.run(commands).await?.zip(claimed) {
                if reply != RedisReply::Nothing {
                    transferred.skipped += 1;
                    continue;
                }
                transferred.nodes += 1;
                if is_root {
                    transferred.roots += 1;
                    tokens.insert(Root(fingerprint), token);
                }
            }
            founder_tokens.retain(|(root, _)| tokens.contains_key(&Root(*root)));
            let put = founder_tokens.into_iter().map(|(root, value)| {
                let life = self.founder_tokens_life(value.len(), now);
                (KeyKind::FounderTokens, root, KeyOp::Put { value, life })
            });
            if self.settings.founder_token_bytes > 0 {
                names.extend(put);
            }
            self.run_all(names).await?;
            report(Progress { forest: &self.name, done, total });
        }
        Ok(transferred)
    }

    /// Reads all that is there.
    async fn find(&self, report: &ReportProgress<'_>) -> Result<Found<F::Proof>, Unavailable> {
        let mut found = Found { roots: HashMap::new(), leaves: Vec::new(), founder_tokens: HashMap::new(), keys: 0 };
        self.number().await?;
        let size = self.keys.size().await;
        let (total, _) = size.map_err(|away| self.away(away))?;
        let mut place = Some(ScanPosition::default());
        while let Some(at) = place {
            let (keys, next) = self.keys_from(at).await?;
            let values = self.get(&keys).await?;
            for (key, value) in keys.into_iter().zip(values) {
                found.keys += 1;
                let RedisReply::Bytes(bytes) = value else {
                    continue;
                };
                if key.kind == KeyKind::Clock {
                    self.refresh_clock(Some(RedisReply::Bytes(bytes)));
                    continue;
                }
                if !matches!(key.kind, KeyKind::Node | KeyKind::FounderTokens) {
                    continue;
                }
                if key.kind == KeyKind::FounderTokens {
                    let founder_tokens = read_founder_tokens(&bytes);
                    found.founder_tokens.extend(founder_tokens.map(|e| (key.fingerprint, e)));
                    continue;
                }
                match NodeValue::read(&bytes) {
                    Some(NodeValue::Root(root)) if root.is_confirmed => {
                        found.roots.insert(key.fingerprint, root);
                    }
                    Some(NodeValue::Leaf(leaf)) => found.leaves.push((key.fingerprint, leaf)),
                    // A provisional root, or one of a later version.
                    Some(NodeValue::Root(_)) | None => {}
                }
            }
            report(Progress { forest: &self.name, done: found.keys, total: found.keys.max(total as u64) });
            place = next;
        }
        // A key may come twice.
        found.leaves.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
        found.leaves.dedup_by_key(|(fingerprint, _)| *fingerprint);
        Ok(found)
    }

    /// Writes the content of Redis as changes.
    fn import_all(&self, found: &Found<F::Proof>, into: &dyn Copied) -> Result<TransferReport, Unavailable> {
        let now = self.arrives(None);
        let mut transferred = TransferReport::default();
        let mut changes = Vec::new();
        let mut events = found.events(self.calendar(), now, &mut transferred);
        // A root before its leaves, and at its own time once more: it lives on after them.
        events.sort_unstable_by_key(|&(at, kind, fingerprint, _)| (at, kind, fingerprint));
        let (mut tick, mut of_tick, mut last) = (Tick(0), 0, None);
        let write = |change: Change<F::Proof>, out: &mut Vec<u8>| {
            StateChange::Tree(change).write(out);
        };
        for (at, kind, fingerprint, root) in events {
            if last != Some(at) || of_tick == MOST_OF_TICK {
                tick = Tick(tick.0 + u32::from(last.is_some()));
                (last, of_tick) = (Some(at), 0);
                write(Change::Begin(TickStart { tick, at }), &mut changes);
            }
            of_tick += 1;
            match (kind, found.roots.get(&fingerprint)) {
                (Kind::Root, Some(value)) => {
                    write(
                        Change::AddRoot { fingerprint, added: value.added, proof: value.proof.clone() },
                        &mut changes,
                    );
                    let tally = value.tally();
                    write(Change::Count { root, tally }, &mut changes);
                    if value.first != DocumentHash::UNKNOWN {
                        write(Change::First { root, first: value.first }, &mut changes);
                    }
                    let tokens = found.founder_tokens.get(&fingerprint);
                    if let Some((_, tokens)) = tokens.filter(|(token, _)| *token == value.token) {
                        let tokens = tokens.clone();
                        write(Change::FounderTokens { root, tokens }, &mut changes);
                    }
                }
                (Kind::Leaf, _) => write(Change::AddLeaf { fingerprint, root }, &mut changes),
                (Kind::Again, _) => write(Change::Refresh { root }, &mut changes),
                (Kind::Root, None) => {}
            }
            if changes.len() >= BATCH {
                into.replay(&std::mem::take(&mut changes))?;
            }
        }
        if let Some(at) = self.dated_clock() {
            // The latest date itself, and not the beginning of its step.
            let tick = Tick(tick.0 + 1);
            write(Change::Begin(TickStart { tick, at }), &mut changes);
        }
        into.replay(&changes)?;
        let learned = self.learned.lock();
        into.learn(&F::portions(&learned))?;
        transferred.boilerplate = F::known(&learned) as u64;
        Ok(transferred)
    }
}

/// The event of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Root,
    Leaf,
    /// A root arrives after its leaves.
    Again,
}

type Event = (Millis, Kind, Fingerprint, Root);

impl<P: Proof + Durable> Found<P> {
    /// When a leaf of a living tree arrived.
    fn arrival_of(&self, leaf: &LeafValue, calendar: Calendar, now: Millis) -> Option<Millis> {
        let root = self.roots.get(&leaf.root.0)?;
        let is_dead = calendar.is_over(leaf.step) || calendar.is_over(root.step);
        let arrival = calendar.leaf_begun(leaf.step, now);
        (root.token == leaf.token && !is_dead).then_some(arrival)
    }

    /// All that happened, in no order.
    fn events(&self, calendar: Calendar, now: Millis, transferred: &mut TransferReport) -> Vec<Event> {
        let mut events = Vec::with_capacity(self.roots.len() + self.leaves.len());
        let mut first: HashMap<Fingerprint, Millis> = HashMap::new();
        for (fingerprint, leaf) in &self.leaves {
            let Some(at) = self.arrival_of(leaf, calendar, now) else {
                transferred.skipped += 1;
                continue;
            };
            transferred.nodes += 1;
            let of_tree = first.entry(leaf.root.0).or_insert(at);
            *of_tree = at.min(*of_tree);
            events.push((at, Kind::Leaf, *fingerprint, leaf.root));
        }
        for (&fingerprint, root) in &self.roots {
            transferred.nodes += 1;
            transferred.roots += 1;
            let own = calendar.begun(root.step, now);
            let founded = first.get(&fingerprint).map_or(own, |&first| first.min(own));
            events.push((founded, Kind::Root, fingerprint, Root(fingerprint)));
            if own > founded {
                events.push((own, Kind::Again, fingerprint, Root(fingerprint)));
            }
        }
        events
    }

    fn summary(&self, calendar: Calendar, now: Millis, memory_bytes: usize, top: usize) -> Summary {
        let mut summary =
            Summary { memory_bytes, roots: self.roots.len(), nodes: self.roots.len(), ..Summary::default() };
        let leaves = self.leaves.iter();
        let leaves = leaves.filter_map(|(_, leaf)| self.arrival_of(leaf, calendar, now));
        let leaves: Vec<Millis> = leaves.collect();
        summary.nodes += leaves.len();
        let roots = self.roots.values();
        let arrivals = roots.map(|root| calendar.begun(root.step, now)).chain(leaves);
        summary.arrivals = arrivals.fold(None, |all: Option<(Millis, Millis)>, at| {
            let (first, last) = all.unwrap_or((at, at));
            Some((first.min(at), last.max(at)))
        });
        for (&fingerprint, root) in &self.roots {
            let tally = root.tally();
            summary.page_chrome_trees += usize::from(tally.is_page_chrome());
            summary.add(TreeSize::of(Root(fingerprint), &tally), top);
        }
        summary
    }
}

/// The nodes of a forest as a Redis keeps them.
fn own_nodes<P: Proof>(forest: &Forest<P>, calendar: Calendar) -> Vec<ExportedNode<P>> {
    let nodes = forest.nodes().into_iter().map(|node| {
        let tree = node.proof.map(|proof| {
            let root = Root(node.fingerprint);
            let number = forest.root_number(root, forest.ticks.floor());
            let tally = number.and_then(|number| forest.tally(number));
            let view = forest.tree(root);
            let children = view.map_or(0, |view| view.children);
            ExportedTree {
                value: RootValue {
                    is_confirmed: true,
                    token: FoundingToken(0),
                    added: node.added.unwrap_or(node.arrival),
                    step: calendar.step(node.arrival),
                    is_dated: calendar.is_dated,
                    // Its number of placements is unknown: it expires with its window.
                    uses: u16::MAX,
                    nonce: 0,
                    children: u16::try_from(children).unwrap_or(u16::MAX),
                    before: 0,
                    tally: tally.filter(|tally| tally.documents > 1),
                    first: forest.first(root),
                    proof: proof.clone(),
                },
                founder_tokens: forest.founder_tokens.get(node.fingerprint).map(FounderTokens::from),
            }
        });
        ExportedNode { fingerprint: node.fingerprint, root: node.root, arrival: node.arrival, tree }
    });
    nodes.collect()
}
