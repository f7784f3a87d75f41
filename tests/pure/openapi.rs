//! `docs/openapi.yaml` and the table of endpoints name the same paths and methods.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use spinney::endpoints::ENDPOINTS;

/// The operations of the file, by its indentation: paths have two spaces, methods four.
fn described() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.yaml");
    let text = fs::read_to_string(file).unwrap();
    let paths = text.split("\npaths:\n").nth(1).unwrap();
    let paths = paths.split("\ncomponents:\n").next().unwrap();
    let (mut path, mut found) = ("", BTreeSet::new());
    for line in paths.lines() {
        let named = line.trim_start();
        match line.len() - named.len() {
            2 => path = named.trim_end_matches(':'),
            4 if named.trim_end_matches(':') != "parameters" && !named.starts_with('-') => {
                let method = named.trim_end_matches(':').to_uppercase();
                assert!(found.insert(format!("{method} {path}")), "{method} {path} twice");
            }
            _ => {}
        }
    }
    found
}

#[test]
fn every_endpoint_is_described_and_nothing_else() {
    // A page is described once, without or with the slash that its path ends with.
    let paths: BTreeSet<&str> = ENDPOINTS.iter().map(|row| row.path).collect();
    let is_second = |path: &str| {
        let without = path.strip_suffix('/');
        path != "/_spinney/ui/" && without.is_some_and(|path| paths.contains(path))
    };
    let mut served = BTreeSet::new();
    for row in ENDPOINTS.iter().filter(|row| !is_second(row.path)) {
        // HEAD goes with GET.
        let methods = row.methods.iter().filter(|method| **method != "HEAD");
        served.extend(methods.map(|method| format!("{method} {}", row.path)));
    }
    assert!(served.len() > 20, "{served:?}");
    assert_eq!(described(), served);
}
