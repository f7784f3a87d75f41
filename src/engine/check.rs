//! Dry run for one document: reads and looks up as stamping does, without placing.

use bytes::Bytes;
use serde::de::IgnoredAny;

use xxhash_rust::xxh3::xxh3_64;

use super::{Engine, RequestContext, Unavailable, own_root};
use crate::bulk::{JsonError, Stamp, write_stamp};
use crate::fingerprint::{Distance, Fingerprint};
use crate::forest::port::{CheckedFingerprint, CheckedTree};
use crate::forest::{Decision, DocumentHash, Root};
use crate::method::{Method, OwnText, Stage};
use crate::time::format_date;

/// Errors of a check.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// No route wants documents of the index.
    #[error(
        "no route stamps the index {0}: its documents pass as they come; ask for an index that --index or a [[route]] \
         names"
    )]
    NoRoute(String),
    /// It is no JSON object.
    #[error("the document is not understood: {0}")]
    Document(#[from] JsonError),
    /// It is more than one.
    #[error("the document is not understood: it ends at byte {at} and something follows")]
    Trailing {
        /// Where the first ends.
        at: usize,
    },
    /// The forest is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// How a document's root would be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootOrigin {
    /// In the forest.
    Placed(Decision),
    /// The document has no usable text: it gets a root of its own outside the forest.
    OwnRoot,
}

/// Result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The method of the document's route.
    pub method: Method,
    /// Forest of the document.
    pub forest: String,
    /// Fingerprints at most this far apart are near there.
    pub k: Distance,
    /// How its root would be found.
    pub fate: RootOrigin,
    /// That root; `None` if the document has neither text nor id: then it is another one each time.
    pub root: Option<Root>,
    /// The stage that finds the tree, for the method `staged`.
    pub stage: Option<Stage>,
    /// The document's sentences that are boilerplate by now, cleaned.
    pub boilerplate: Vec<String>,
    /// The fingerprints in the order in which they are looked up, then those that are left out as boilerplate.
    pub fingerprints: Vec<CheckedFingerprint>,
    /// The trees near any of them: its own first, then those that would take the document, then those that refuse it.
    pub trees: Vec<CheckedTree>,
    /// What the document has that the founders of some of the trees have not: of its own, and of the nearest of the
    /// others, where the alignment check decided.
    pub own: Vec<(Root, OwnText)>,
    /// The members of the stamp, as one JSON object. `None` if there is no `root`.
    pub stamp: Option<Vec<u8>>,
}

impl Engine {
    /// Returns how a document of this index would be stamped. Changes nothing: no arrival, no node, no sentence
    /// count.
    ///
    /// # Errors
    /// When no route matches the index, the body is not one JSON object, or the forest is not available.
    pub async fn check(
        &self,
        body: Bytes,
        index: String,
        id: Option<String>,
        context: RequestContext,
    ) -> Result<Checked, CheckError> {
        let no_route = || CheckError::NoRoute(index.clone());
        let route = self.routes().find(&index).ok_or_else(no_route)?;
        let bound = self.routes().bound.get(route).ok_or_else(no_route)?;
        let own_root = own_root(&index, id.as_deref(), context.unique, 0);
        let own_id = id.as_deref().map_or(DocumentHash::UNKNOWN, |id| {
            DocumentHash::of_byte(self.reader.names.index(xxh3_64(index.as_bytes())), id)
        });
        let mut prepared = {
            let (reader, body) = (self.reader.clone(), body.clone());
            let read = move || {
                let prepared = reader.read_document(&body, route, own_root, context)?;
                match end_before_more(&body) {
                    Some(at) => Err(CheckError::Trailing { at }),
                    None => Ok(prepared),
                }
            };
            self.run(read).await??
        };
        let entry = self.forests.entries.get(prepared.forest).ok_or_else(no_route)?;
        let reply = entry.port.check(prepared.take_for_forest()).await?;
        let first = match &reply.check {
            Some(check) => {
                let of_tree = entry.port.firsts(vec![check.root]).await?.pop().unwrap_or_default();
                own_id.is_first(of_tree, check.decision, check.answer == check.root)
            }
            None => (reply.overrides.group(Root(Fingerprint(own_root))).0.0 == own_root).then_some(true),
        };
        let own_root = reply.overrides.group(Root(Fingerprint(own_root)));
        let mut checked = Checked {
            method: bound.route.method.clone(),
            forest: entry.name.clone(),
            k: entry.k,
            fate: RootOrigin::OwnRoot,
            root: id.map(|_| own_root),
            stage: None,
            boilerplate: Vec::new(),
            fingerprints: Vec::new(),
            trees: Vec::new(),
            own: Vec::new(),
            stamp: None,
        };
        if let Some(check) = reply.check {
            checked.fate = RootOrigin::Placed(check.decision);
            checked.root = Some(check.answer);
            checked.stage = check.stage;
            checked.fingerprints = check.fingerprints;
            checked.trees = check.trees;
            if !check.boilerplate.is_empty() || !check.own.is_empty() {
                let reader = self.reader.clone();
                let read = move || {
                    let boilerplate = match check.boilerplate.as_slice() {
                        [] => Vec::new(),
                        sentences => reader.sentences(&body, route, sentences),
                    };
                    let own = check.own.iter().map(|(root, own)| (*root, reader.own_text(&body, route, own)));
                    (boilerplate, own.collect())
                };
                (checked.boilerplate, checked.own) = self.run(read).await?;
            }
        }
        checked.stamp = checked.root.map(|root| {
            let mut stamp = vec![b'{'];
            let arrival = reply.now.map(format_date);
            let members = Stamp {
                root: root.0.0,
                is_local_fallback: false,
                hashes: &prepared.hashes,
                arrival: arrival.as_deref(),
                proof: prepared.proof.as_deref(),
                first: Some(first.unwrap_or_default()),
            };
            write_stamp(&mut stamp, &self.routes().names, &members);
            stamp.push(b'}');
            stamp
        });
        Ok(checked)
    }
}

/// End of the first value of a body if another one follows. The cluster reports that for writes; here it must be
/// reported.
fn end_before_more(body: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let at = values.byte_offset();
    let rest = body.get(at..).unwrap_or_default();
    (!rest.trim_ascii().is_empty()).then_some(at)
}
