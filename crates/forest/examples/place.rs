//! The root of each fingerprint on standard input, 16 hex digits a line:
//! `cargo run -p spinney-forest --example place < fingerprints.txt`.

#![allow(clippy::print_stdout, reason = "a program of the command line")]

use std::io::{self, BufRead};

use spinney_forest::time::Millis;
use spinney_forest::{Forest, Settings};
use spinney_text::fingerprint::{Distance, Fingerprint};
use spinney_text::hash::HashKey;
use spinney_text::method::FeatureQuery;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut forest = Forest::<()>::new(Settings { k: Distance(3), window: None, key: HashKey::new(1, 2) })?;
    for line in io::stdin().lock().lines() {
        let fingerprint = Fingerprint(u64::from_str_radix(line?.trim(), 16)?);
        let placed = forest.place(&FeatureQuery::strict(&fingerprint), Millis(0));
        println!("{fingerprint} {} {:?}", placed.root, placed.decision);
    }
    Ok(())
}
