//! Stamps a bulk body: `cargo run -p spinney-bulk --example stamp < body.ndjson`. The root of a document is made of the
//! length of its text here; everything else is as the sidecar does it.

use std::io::{Read, Write, stdin, stdout};

use spinney_bulk::{FieldNames, Selected, Selection, Splice, Stamp, parse, scan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut body = Vec::new();
    stdin().read_to_end(&mut body)?;
    let selection = Selection::new(&FieldNames { text: &["content"], ..FieldNames::default() }, "cluster_")?;
    let mut splice = Splice::default();
    for item in parse(&body)? {
        let Some(source) = item.source else { continue };
        let base = source.start;
        let document = scan(&body[source], &selection)?;
        let text = document.first(Selected::Text(0)).unwrap_or_default();
        let stamp = Stamp {
            root: text.len() as u64,
            is_local_fallback: false,
            hashes: &[],
            arrival: None,
            proof: None,
            first: None,
        };
        splice.stamp(base, &document.cut, selection.names(), &stamp)?;
    }
    let mut stamped = Vec::new();
    splice.write_to(&body, &mut stamped);
    Ok(stdout().write_all(&stamped)?)
}
