//! The arrows between crates, between folders and between files. docs/internals/architecture.md describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate by its folder, and the crates of the workspace that it may use.
const CRATES: [(&str, &[&str]); 6] = [
    ("crates/bulk", &[]),
    ("crates/text", &[]),
    ("crates/forest", &["spinney-text"]),
    (".", &["spinney-bulk", "spinney-forest", "spinney-text"]),
    ("eval", &["spinney"]),
    ("simulation", &[]),
];

/// What crates below the sidecar do not use: they get bytes, the time and whoever runs their jobs from their caller.
const RUNTIMES: [&str; 5] = ["hyper", "hyper-util", "redis", "tokio", "tokio-util"];

/// Folders of the sidecar, and what they know nothing of.
const UNKNOWN: [(&str, &[&str]); 9] = [
    ("access", &["api", "groups", "proxy", "server", "ui"]),
    ("cluster", &["backfill", "counts", "engine", "groups", "recovery", "server"]),
    ("counts", &["api", "engine", "groups", "proxy", "server", "ui"]),
    ("docid", &["engine", "http", "server"]),
    ("engine", &["api", "cluster", "http", "proxy", "server", "ui"]),
    ("groups", &["api", "proxy", "server", "ui"]),
    ("proxy", &["api", "groups", "ui"]),
    ("redis", &["cluster", "engine", "http", "server"]),
    ("ui", &["api", "proxy", "server"]),
];

/// A module by its path from the root of its crate.
type Module = Vec<String>;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn crates_use_only_those_below() {
    for (folder, allowed) in CRATES {
        let manifest = fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let Some(dependencies) = manifest.get("dependencies") else { continue };
        for name in dependencies.as_table().unwrap().keys() {
            let is_ours = name.starts_with("spinney");
            assert!(!is_ours || allowed.contains(&name.as_str()), "{folder} uses {name}");
            let is_below = folder.starts_with("crates/");
            assert!(!is_below || !RUNTIMES.contains(&name.as_str()), "{folder} uses {name}");
        }
    }
}

#[test]
fn folders_know_nothing_of_those_above() {
    let graph = graph_of(&sources_of("src"));
    for (folder, unknown) in UNKNOWN {
        for (module, uses) in graph.iter().filter(|(module, _)| module.first().is_some_and(|first| first == folder)) {
            let wrong = uses.iter().find(|used| used.first().is_some_and(|used| unknown.contains(&used.as_str())));
            assert_eq!(wrong, None, "{}", module.join("::"));
        }
        assert!(graph.keys().any(|module| module.first().is_some_and(|first| first == folder)), "{folder} is gone");
    }
}

#[test]
fn files_and_folders_have_no_circles() {
    for (folder, _) in CRATES {
        let sources = sources_of(&format!("{folder}/src"));
        assert!(sources.len() > 5, "{folder}");
        let graph = graph_of(&sources);
        assert_eq!(circle(&between_files(&graph)), None, "files of {folder}");
        assert_eq!(circle(&between_folders(&graph)), None, "folders of {folder}");
    }
}

/// What would be a circle is found, whichever way a path is written.
#[test]
fn circles_are_found() {
    let graph = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, text)| (module_of(Path::new(path)), (*text).to_owned()));
        graph_of(&files.collect())
    };
    let found = |files: &[(&str, &str)]| {
        let graph = graph(files);
        (circle(&between_files(&graph)).is_some(), circle(&between_folders(&graph)).is_some())
    };
    let leaf = ("b/leaf.rs", "");
    assert_eq!(found(&[("a.rs", "use crate::b::leaf::{self, X};"), ("b/mod.rs", "mod leaf;"), leaf]), (false, false));
    for path in ["use crate::a;", "use crate::{a::X, z};", "use super::super::a::{Y};", "fn f() { crate::a::f() }"] {
        let files = [("a.rs", "use crate::b::leaf::X;"), ("b/mod.rs", "mod leaf;"), ("b/leaf.rs", path)];
        assert_eq!(found(&files), (true, true), "{path}");
    }
    let siblings = [("b/mod.rs", ""), ("b/leaf.rs", "use super::twig;"), ("b/twig.rs", "use super::leaf::Leaf;")];
    assert_eq!(found(&siblings), (true, false));
    let in_a_comment = [("a.rs", "// crate::b::leaf"), ("b/mod.rs", ""), ("b/leaf.rs", "use crate::a;")];
    assert_eq!(found(&in_a_comment), (false, false));
    let in_tests = [("a.rs", "#[cfg(test)]\nmod tests {\nuse crate::c;"), ("c.rs", "use crate::a;")];
    assert_eq!(found(&in_tests), (false, false));
}

/// The files of a crate without those of tests, each with its text.
fn sources_of(folder: &str) -> BTreeMap<Module, String> {
    let root = repository().join(folder);
    let mut sources = BTreeMap::new();
    let mut left: Vec<PathBuf> = vec![root.clone()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let path_here = path.strip_prefix(&root).unwrap();
        let is_test = path_here.iter().any(|part| {
            let part = part.to_str().unwrap();
            matches!(part, "tests" | "tests.rs") || part.ends_with("_tests.rs")
        });
        if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            sources.insert(module_of(path_here), fs::read_to_string(&path).unwrap());
        }
    }
    sources
}

fn module_of(path: &Path) -> Module {
    let without = path.with_extension("");
    let parts = without.iter().map(|part| part.to_str().unwrap().to_owned());
    parts.filter(|part| !matches!(part.as_str(), "lib" | "main" | "mod")).collect()
}

/// What each file names by a path of its crate.
fn graph_of(sources: &BTreeMap<Module, String>) -> Graph {
    let mut graph = Graph::new();
    for (module, text) in sources {
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let code: String =
            code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
        let uses = graph.entry(module.clone()).or_default();
        for path in paths(module, &code) {
            // The longest part of the path that is a file; the rest is an item of it.
            let file = (1..=path.len()).rev().map(|len| &path[..len]).find(|part| sources.contains_key(*part));
            uses.extend(file.filter(|file| file != module).map(<[String]>::to_vec));
        }
    }
    graph
}

/// All paths that begin at `crate`, `super` or `self`, from the root of the crate.
fn paths(module: &Module, code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for head in ["crate", "super", "self"] {
        for (at, _) in code.match_indices(&format!("{head}::")) {
            let is_inner = code[..at].ends_with("::") || code[..at].ends_with(is_name);
            if !is_inner {
                let base = match head {
                    "crate" => Vec::new(),
                    "super" => module[..module.len().saturating_sub(1)].to_vec(),
                    _ => module.clone(),
                };
                follow(base, &code[at + head.len() + 2..], &mut found);
            }
        }
    }
    found
}

/// Adds the paths of a `use` tree that goes on from a module. Returns what is left of the text.
fn follow<'t>(mut path: Module, mut rest: &'t str, found: &mut Vec<Module>) -> &'t str {
    loop {
        rest = rest.trim_start();
        if let Some(mut tree) = rest.strip_prefix('{') {
            while !tree.trim_start().starts_with('}') && !tree.is_empty() {
                tree = follow(path.clone(), tree, found).trim_start();
                tree = tree.strip_prefix(',').unwrap_or(tree);
            }
            return tree.trim_start().strip_prefix('}').unwrap_or_default();
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        match name {
            "super" => drop(path.pop()),
            "self" => {}
            _ => path.push(name.to_owned()),
        }
        match behind.strip_prefix("::") {
            Some(behind) if !name.is_empty() => rest = behind,
            _ => {
                found.push(path);
                // As far as the next item of the tree.
                let next = behind.find([',', '}', ';']).unwrap_or(behind.len());
                return &behind[next..];
            }
        }
    }
}

/// The arrows between files, without those between a module and what is inside it.
fn between_files(graph: &Graph) -> Graph {
    let arrows = |module: &Module, uses: &BTreeSet<Module>| {
        uses.iter().filter(|used| !used.starts_with(module) && !module.starts_with(used)).cloned().collect()
    };
    graph.iter().map(|(module, uses)| (module.clone(), arrows(module, uses))).collect()
}

fn between_folders(graph: &Graph) -> Graph {
    let mut folders = Graph::new();
    for (module, uses) in graph {
        let Some(from) = module.first() else { continue };
        let others = uses.iter().filter_map(|used| used.first()).filter(|used| *used != from);
        folders.entry(vec![from.clone()]).or_default().extend(others.map(|used| vec![used.clone()]));
    }
    folders
}

/// Modules each of which uses the next one, and the last the first.
fn circle(graph: &Graph) -> Option<Vec<String>> {
    fn visit<'g>(
        graph: &'g Graph,
        module: &'g Module,
        path: &mut Vec<&'g Module>,
        done: &mut BTreeSet<&'g Module>,
    ) -> Option<Vec<String>> {
        if let Some(begin) = path.iter().position(|before| *before == module) {
            return Some(path[begin..].iter().map(|module| module.join("::")).collect());
        }
        if !done.contains(module) {
            path.push(module);
            for used in graph.get(module).into_iter().flatten() {
                if let Some(circle) = visit(graph, used, path, done) {
                    return Some(circle);
                }
            }
            path.pop();
            done.insert(module);
        }
        None
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|module| visit(graph, module, &mut Vec::new(), &mut done))
}
