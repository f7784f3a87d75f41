//! The faults that `scripts/mutants --planted` plants are of the code as it is today.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn text<'t>(of: &'t toml::Value, key: &str) -> &'t str {
    of.get(key).and_then(toml::Value::as_str).unwrap_or_else(|| panic!("no {key} in {of}"))
}

#[test]
fn every_planted_fault_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table: toml::Table = fs::read_to_string(root.join("mutants/faults.toml")).unwrap().parse().unwrap();
    let mut names = BTreeSet::new();
    for fault in table["fault"].as_array().unwrap() {
        let name = text(fault, "name");
        assert!(names.insert(name), "two faults are named {name}");
        for edit in fault["edit"].as_array().unwrap() {
            let (file, old) = (text(edit, "file"), text(edit, "old"));
            let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            assert_eq!(source.matches(old).count(), 1, "{name}: how often this is in {file}: {old}");
        }
        assert!(fault["edit"].to_string().contains("planted!()"), "{name} has no switch");
    }
    assert!(names.len() > 30, "only {names:?}");
}
