//! What a user for spinney may do (`scripts/lib/redis-user.acl`, docs/shared-forest.md) is what spinney asks for.

use std::collections::BTreeSet;

const RIGHTS: &str = include_str!("../../scripts/lib/redis-user.acl");
const PAGE: &str = include_str!("../../docs/shared-forest.md");
const FUNCTIONS: &str = include_str!("functions.lua");
const SOURCES: [&str; 5] = [
    include_str!("lessons.rs"),
    include_str!("link.rs"),
    include_str!("mod.rs"),
    include_str!("pipeline.rs"),
    include_str!("registry.rs"),
];

/// What stands behind a word, up to a quote.
fn quoted<'a>(text: &'a str, word: &'a str, quote: char) -> impl Iterator<Item = String> + 'a {
    let behind = text.split(word).skip(1);
    behind.filter_map(move |rest| Some(rest.split_once(quote)?.0.to_lowercase()))
}

#[test]
fn a_user_for_spinney_may_do_what_spinney_asks_for() {
    let rights = RIGHTS.split_whitespace();
    let rights: BTreeSet<String> = rights
        .filter_map(|right| Some(right.strip_prefix('+')?.split('|').next()?.to_owned()))
        .collect();
    let called = quoted(FUNCTIONS, "redis.call('", '\'');
    let asked = SOURCES
        .iter()
        .flat_map(|source| quoted(source, "cmd(\"", '"'));
    let all: BTreeSet<String> = called.chain(asked).collect();
    assert!(all.len() > 10, "{all:?}");
    let missing: Vec<&String> = all.difference(&rights).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let told: BTreeSet<&str> = PAGE.split_whitespace().collect();
    let untold: Vec<&str> = RIGHTS
        .split_whitespace()
        .filter(|right| !told.contains(right))
        .collect();
    assert!(untold.is_empty(), "{untold:?}");
}
