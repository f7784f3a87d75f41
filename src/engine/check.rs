//! What would happen to a document, without anything happening: the same reading and the same look at the forest as
//! when it is stamped, and then no placement.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

use super::place::time;
use super::trees::{self, Locked};
use super::{Engine, Prepared, RequestContext, learned, own_root};
use crate::bulk::{JsonError, Stamp, write_stamp};
use crate::fingerprint::{Distance, Fingerprint};
use crate::forest::{Decision, Forest, Near, Root, TreeView};
use crate::method::{
    Features, Founder, Method, Offer, ShortText, Similarity, Stage, TextProof, WIDE, Workspace,
};
use crate::method::{Proof, Query, Refusal};
use crate::text::boilerplate::BoilerplateMask;
use crate::time::Millis;

/// Why nothing can be said of a document.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error(
        "no route stamps the index {0}: its documents pass as they come; ask for an index that --index or a [[route]] names"
    )]
    NoRoute(String),
    #[error("the document is not understood: {0}")]
    Document(#[from] JsonError),
    #[error("the document is not understood: it ends at byte {at} and something follows")]
    Trailing { at: usize },
}

/// How a document's root would be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// In the forest.
    Placed(Decision),
    /// The document has no usable text: it gets a root of its own outside the forest.
    OwnRoot,
}

/// What would happen to a document.
#[derive(Debug)]
pub struct Checked<'e> {
    /// The method of the document's route.
    pub method: &'e Method,
    /// The forest that it would stand in.
    pub forest: &'e str,
    /// Fingerprints at most this far apart are near there.
    pub k: Distance,
    /// How its root would be found.
    pub fate: Fate,
    /// That root; `None` if the document has neither text nor id: then it is another one each time.
    pub root: Option<Root>,
    /// The stage that finds the tree, for the method `staged`.
    pub stage: Option<Stage>,
    /// The document's sentences that are boilerplate by now, cleaned.
    pub boilerplate: Vec<String>,
    /// The fingerprints in the order in which they are looked up, then those that are left out as boilerplate.
    pub fingerprints: Vec<LookedUp>,
    /// The trees near any of them: its own first, then those that would take the document, then those that refuse it.
    pub trees: Vec<CheckedTree>,
    /// The members of the stamp, as one JSON object. `None` if there is no `root`.
    pub stamp: Option<Vec<u8>>,
}

/// One fingerprint of the document and what is near it.
#[derive(Debug)]
pub struct LookedUp {
    pub fingerprint: Fingerprint,
    /// Which stage it belongs to, for the method `staged`.
    pub stage: Option<Stage>,
    /// It belongs to a sentence that is boilerplate: what is near it is no candidate.
    pub left_out: bool,
    /// The nodes within k, nearest first.
    pub near: Vec<Near>,
}

/// A near tree.
#[derive(Debug)]
pub struct CheckedTree {
    pub root: Root,
    pub view: TreeView,
    /// How many of the fingerprints that are looked up have a near node in it.
    pub shared: usize,
    /// Whether the proof at its root agrees with the document's, or why the tree is none for the document.
    pub verdict: Result<(), Refusal>,
    pub measure: Measure,
}

/// What a proof found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// There is no proof, or it was not asked.
    None,
    /// Of the method `verified`: similarity from 0 to 1, that of the titles if both texts have one, and numbers in the
    /// same places.
    Text {
        similarity: f32,
        needed: f32,
        titles: Option<f32>,
        same: usize,
        different: usize,
    },
    /// Of short texts: how many letters differ, if no more than are allowed.
    Edits(Option<usize>),
}

/// What the forest says.
struct Looked {
    root: Root,
    decision: Decision,
    by: Option<Fingerprint>,
    /// The forest's clock once the document had been placed.
    clock: Millis,
    fingerprints: Vec<LookedUp>,
    trees: Vec<CheckedTree>,
    /// Numbers of the sentences that are boilerplate.
    left_out: Vec<usize>,
}

impl Engine {
    /// Says what stamping one document of this index would do. Nothing is changed: no arrival, no node, no count of a
    /// sentence.
    ///
    /// # Errors
    /// When no route stamps the index, or the body is not one JSON object.
    pub fn check(
        &self,
        body: &[u8],
        index: &str,
        id: Option<&str>,
        call: RequestContext,
    ) -> Result<Checked<'_>, CheckError> {
        let no_route = || CheckError::NoRoute(index.to_owned());
        let route = self.route(index).ok_or_else(no_route)?;
        let bound = self.routes.get(route).ok_or_else(no_route)?;
        let own_root = own_root(index, id, call.unique, 0);
        let (prepared, _) = self.prepare(body, 0, 0, route, own_root, &mut Workspace::default())?;
        if let Some(at) = end_before_more(body) {
            return Err(CheckError::Trailing { at });
        }
        let Prepared {
            mut features, date, ..
        } = prepared;
        let at = bound.forest_of(features.as_ref());
        let (forest, trees) = self.forests.get(at).ok_or_else(no_route)?;
        let hashes = features.as_ref().map(Features::hashes).unwrap_or_default();
        let proof = features.as_ref().and_then(Features::proof);

        let locked = trees.lock();
        let now = time(&bound.route.clock, date, call, locked.clock());
        let looked = features
            .as_mut()
            .and_then(|features| locked.check(features, now.unwrap_or(Millis(0))));
        drop(locked);

        let mut checked = Checked {
            method: &bound.route.method,
            forest,
            k: match bound.short {
                Some(short) if short == at => bound.route.k.max(WIDE),
                _ => bound.route.k,
            },
            fate: Fate::OwnRoot,
            root: id.map(|_| Root(Fingerprint(own_root))),
            stage: None,
            boilerplate: Vec::new(),
            fingerprints: Vec::new(),
            trees: Vec::new(),
            stamp: None,
        };
        let mut since = now;
        if let Some(looked) = looked {
            since = now.map(|_| looked.clock);
            checked.fate = Fate::Placed(looked.decision);
            checked.root = Some(looked.root);
            if let (Some(Features::Staged(staged)), Some(by)) = (&features, looked.by) {
                checked.stage = staged.stage(by);
            }
            checked.fingerprints = looked.fingerprints;
            checked.trees = looked.trees;
            if !looked.left_out.is_empty() {
                checked.boilerplate = learned::sentences(body, bound, &looked.left_out);
            }
        }
        checked.stamp = checked.root.map(|root| {
            let mut stamp = vec![b'{'];
            let arrival = since.map(crate::time::format_date);
            let members = Stamp {
                root: root.0.0,
                hashes: &hashes,
                arrival: arrival.as_deref(),
                proof: proof.as_deref(),
            };
            write_stamp(&mut stamp, &self.names, &members);
            stamp.push(b'}');
            stamp
        });
        Ok(checked)
    }
}

impl Locked<'_> {
    /// What [`place`](Locked::place) would do; `None` where it would do nothing.
    fn check(&self, features: &mut Features, now: Millis) -> Option<Looked> {
        let mut looked = match (self, features) {
            (Locked::Strict(forest), Features::Strict(prints)) => {
                look(forest, &trees::strict(prints), &[], now, |(), _| {
                    Measure::None
                })
            }
            (Locked::Verified(verified), Features::Verified(reading)) => {
                // A buffer of its own: the forest's own one is left alone.
                let mut kept = BoilerplateMask::default();
                let offer = Offer::of(reading, &verified.boilerplate, &mut kept);
                let left_out: Vec<Fingerprint> = reading.left_out(&kept).collect();
                let own = offer.proof();
                let long = verified.forest.thresholds();
                let measure =
                    |root: &Founder, shared| text_measure(own, root.proof(), shared, long);
                let mut looked = look(&verified.forest, &offer.sketch(), &left_out, now, measure);
                looked.left_out = kept.excluded().collect();
                looked
            }
            (Locked::Staged(forest), Features::Staged(staged)) => {
                let sketch = trees::in_turn(staged);
                let mut looked = look(forest, &sketch, &[], now, |_, _| Measure::None);
                for found in &mut looked.fingerprints {
                    found.stage = staged.stage(found.fingerprint);
                }
                looked
            }
            (Locked::Short(forest), Features::Short(short)) => {
                let measure = |root: &ShortText, _| Measure::Edits(short.text.compare(root).ok());
                look(forest, &trees::short_text(short), &[], now, measure)
            }
            _ => return None,
        };
        let own = looked.root;
        looked
            .trees
            .sort_by_key(|tree| (tree.root != own, tree.verdict.is_err(), tree.root));
        Some(looked)
    }
}

/// Where the first value of a body ends, if another one follows. A write leaves that to the cluster; here nobody else
/// would say it.
fn end_before_more(body: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let at = values.byte_offset();
    let rest = body.get(at..).unwrap_or_default();
    (!rest.trim_ascii().is_empty()).then_some(at)
}

fn text_measure(own: &TextProof, root: &TextProof, shared: usize, long: Similarity) -> Measure {
    let numbers = own.compare_numbers(root);
    Measure::Text {
        similarity: own.similarity(root),
        needed: own.needed(root, shared, long),
        titles: own.compare_titles(root),
        same: numbers.same,
        different: numbers.different,
    }
}

/// Looks at a forest as it is at `now`. `left_out`: fingerprints that are not looked up when the document is placed.
fn look<P: Proof>(
    forest: &Forest<P>,
    sketch: &Query<'_, P>,
    left_out: &[Fingerprint],
    now: Millis,
    measure: impl Fn(&P, usize) -> Measure,
) -> Looked {
    let check = forest.check(sketch, now);
    // How many fingerprints each tree shares with the document; 0 for those that only boilerplate leads to.
    let mut shared: BTreeMap<Root, usize> = BTreeMap::new();
    for near in &check.near {
        let mut roots: Vec<Root> = near.iter().map(|near| near.root).collect();
        roots.sort_unstable();
        roots.dedup();
        for root in roots {
            *shared.entry(root).or_default() += 1;
        }
    }
    let looked_up = |left_out| {
        move |(&fingerprint, near)| LookedUp {
            fingerprint,
            stage: None,
            left_out,
            near,
        }
    };
    let hidden: Vec<Vec<Near>> = left_out.iter().map(|&f| forest.near_at(f, now)).collect();
    let mut hidden_roots: Vec<Root> = hidden.iter().flatten().map(|near| near.root).collect();
    hidden_roots.sort_unstable();
    hidden_roots.dedup();
    hidden_roots.retain(|root| *root != check.root && !shared.contains_key(root));

    let verdicts = check.verdicts.iter().map(|&(root, verdict)| {
        let shared = shared.get(&root).copied().unwrap_or_default();
        let measured = forest.proof(root).map(|proof| measure(proof, shared));
        (root, shared, verdict, measured.unwrap_or(Measure::None))
    });
    let hidden_verdicts = hidden_roots
        .into_iter()
        .map(|root| (root, 0, Err(Refusal::Boilerplate), Measure::None));
    let trees = verdicts.chain(hidden_verdicts);
    let trees = trees.filter_map(|(root, shared, verdict, measure)| {
        Some(CheckedTree {
            root,
            view: forest.tree_at(root, now)?,
            shared,
            verdict,
            measure,
        })
    });
    let trees = trees.collect();
    let fingerprints = sketch.fingerprints.iter().zip(check.near);
    let mut fingerprints: Vec<LookedUp> = fingerprints.map(looked_up(false)).collect();
    fingerprints.extend(left_out.iter().zip(hidden).map(looked_up(true)));
    Looked {
        root: check.root,
        decision: check.decision,
        by: check.by,
        clock: forest.clock().max(now),
        fingerprints,
        trees,
        left_out: Vec::new(),
    }
}
