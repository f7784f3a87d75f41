//! Compares two texts: `cargo run -p spinney-text --example near -- one.txt other.txt`.

#![allow(clippy::print_stdout, reason = "a program of the command line")]

use std::{env, fs};

use spinney_text::method::VerifiedFeatures;
use spinney_text::text::{Fields, Scratch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut scratch = Scratch::new();
    let mut proofs = Vec::new();
    for path in env::args().skip(1) {
        let text = fs::read_to_string(path)?;
        let mut features = VerifiedFeatures::new();
        features.read(&mut scratch, &Fields { title: None, body: &[&text] });
        proofs.push(*features.proof());
    }
    let [one, other] = proofs.as_slice() else { return Err("name two files".into()) };
    println!("{:.2}", one.similarity(other));
    Ok(())
}
