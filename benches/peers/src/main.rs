//! Other indexes of Rust, measured as ours is: `spinney-bench-peers FOLDER DIST PEER`, with the folder that
//! `scripts/bench index` made.

#[path = "../../indexes/data.rs"]
#[allow(dead_code, reason = "what makes the files is not needed to read them")]
mod data;
#[path = "../../indexes/figures.rs"]
mod figures;
#[path = "../../support/own.rs"]
mod own;

use std::path::Path;

use anyhow::{bail, ensure};
use data::{Data, Found};
use figures::{Figures, LONGEST, is_exact, latency, rate};
use gaoya::simhash::SimHashIndex;
use own::{resident, spent};

const NEAR: u32 = 3;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, dist, peer] = arguments.as_slice() else {
        bail!("usage: spinney-bench-peers FOLDER DIST mih-rs|gaoya");
    };
    let folder = Path::new(folder);
    let data = Data::read(folder)?;
    eprintln!("{peer}: filling");
    let figures = match peer.as_str() {
        "mih-rs" => mih(folder, &data)?,
        "gaoya" => gaoya(folder, &data)?,
        _ => bail!("there is no peer '{peer}'"),
    };
    println!("{}", figures.line(dist));
    ensure!(figures.exact, "{peer} finds what a scan does not");
    Ok(())
}

/// Norouzi's multi-index hashing. It is built at once and not changed afterwards; it copies the codes.
fn mih(folder: &Path, data: &Data) -> anyhow::Result<Figures> {
    let before = resident() as f64;
    let started = spent();
    let index = mih_rs::Index::new(data.nodes.clone())?;
    let insert_per_s = data.nodes.len() as f64 / (spent() - started);
    let bytes_per_node = (resident() as f64 - before) / data.nodes.len() as f64;
    let mut searcher = index.range_searcher();
    eprintln!("mih-rs: looking up");
    measured("mih-rs", folder, data, insert_per_s, bytes_per_node, |query, found| {
        for &id in searcher.run(query, NEAR as usize) {
            *found = (found.0 + 1, found.1 ^ data.nodes[id as usize]);
        }
    })
}

/// Tables by permuted blocks. Its distance is the first one that is not near; five blocks of which one is equal.
fn gaoya(folder: &Path, data: &Data) -> anyhow::Result<Figures> {
    let before = resident() as f64;
    let mut index = SimHashIndex::<u64, u32>::new(5, NEAR as usize + 1);
    let mut next = 0;
    let insert_per_s = rate(&data.nodes, 16, f64::INFINITY, |codes| {
        for &code in codes {
            index.insert(next, code);
            next += 1;
        }
    });
    let bytes_per_node = (resident() as f64 - before) / data.nodes.len() as f64;
    eprintln!("gaoya: looking up");
    measured("gaoya", folder, data, insert_per_s, bytes_per_node, |query, found| {
        for &id in index.query(&query) {
            *found = (found.0 + 1, found.1 ^ data.nodes[id as usize]);
        }
    })
}

fn measured(
    name: &str,
    folder: &Path,
    data: &Data,
    insert_per_s: f64,
    bytes_per_node: f64,
    mut near: impl FnMut(u64, &mut Found),
) -> anyhow::Result<Figures> {
    let exact = is_exact(folder, NEAR, &data.queries, &mut near)?;
    let mut met = (0, 0);
    let lookups_per_s_batched = rate(&data.queries, 16, LONGEST, |queries| {
        queries.iter().for_each(|&query| near(query, &mut met));
    });
    let lookup_us = latency(&data.queries, |query| near(query, &mut met));
    std::hint::black_box(met);
    Ok(Figures {
        name: name.to_owned(),
        nodes: data.nodes.len(),
        insert_per_s,
        lookups_per_s_batched,
        lookup_us,
        placements_per_s: None,
        bytes_per_node,
        exact,
    })
}
