use spinney_text::fingerprint::Distance;
use spinney_text::method::{FeatureQuery, Refusal};

use super::*;

mod expiry;
mod founder_tokens;
mod late_merges;
mod local_fallback;
mod memory;
mod method_short;
mod method_verified;
mod page_chrome;
mod port;
pub(super) mod records;
mod recovery;
mod restart;
mod save;
mod strict;
mod transfer;
mod verified;

const NEVER: Option<Millis> = None;

fn forest(window: Option<Millis>) -> Forest {
    forest_of(3, window)
}

fn forest_of<P: Proof>(k: u32, window: Option<Millis>) -> Forest<P> {
    Forest::new(Settings { k: Distance(k), window, key: HashKey::FIXED }).unwrap()
}

/// Places a document of the strict rules.
fn place(forest: &mut Forest, fingerprint: u64, now: i64) -> Placement {
    forest.place(&FeatureQuery::strict(&Fingerprint(fingerprint)), Millis(now))
}

fn root(fingerprint: u64) -> Root {
    Root(Fingerprint(fingerprint))
}

/// Fingerprint, root and arrival of all nodes, oldest arrival first.
fn rows<P: Proof>(forest: &Forest<P>) -> Vec<(u64, u64, i64)> {
    let row = |node: NodeView<'_, P>| (node.fingerprint.0, node.root.0.0, node.arrival.0);
    let mut rows: Vec<_> = forest.nodes().into_iter().map(row).collect();
    rows.reverse();
    rows
}

/// Texts of one tree, the first of which founds it.
pub(crate) const EDITIONS: [&str; 4] = [
    "kfkmnqcn wdpiji aepksuju uuuri ow caiff wich kavfk ptshjlf nmsrlh avov rhvdmnqa fwivo ocuuhwrq. uutepg jhmptp gjb \
     iungceh kv pqd gulm vaqsoanp mtdv gna",
    "kfkmnqcn wdpiji aepksuju uuuri ow caiff wich kavfk ptshjlf nmsrlh avov rhvdmnqa fwivo ocuuhwrq. uutepg jhmptp gjb \
     iungceh kv gulm vaqsoanp mtdv 10796 gna",
    "kfkmnqcn wdpiji aepksuju uuuri gmr caiff wich ptshjlf nmsrlh avov uvio fwivo ocuuhwrq. uutepg jhmptp gjb iungceh \
     kv pqd ndidme",
    "vjo akwd aepksuju uuuri ow caiff wich kavfk cim nmsrlh avov rhvdmnqa fwivo ocuuhwrq. uutepg ovr gjb iungceh kv \
     pqd gulm",
];
/// A text all of whose fingerprints are in that tree: it takes it by the founder tokens, and would not without them.
pub(crate) const OF_ALL_FINGERPRINTS: &str = "kfkmnqcn wdpiji aepksuju uuuri uluslbpe caiff wich kavfk ptshjlf nmsrlh \
    avov rhvdmnqa fwivo ocuuhwrq. uutepg jhmptp gjb iungceh rdhack pqd ultdkho vaqsoanp mtdv gna";
