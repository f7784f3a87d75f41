//! The documentation leads nowhere that is not there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `dir` whose name ends so, but for what is built or fetched.
pub fn files(dir: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules", "originals"].contains(&&*name) {
                files(&path, ends, found);
            }
        } else if ends.iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

/// The name by which a heading can be linked to, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn anchors(markdown: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut found = BTreeSet::new();
    for line in markdown.lines() {
        is_code ^= line.starts_with("```");
        if !is_code && line.starts_with('#') {
            found.insert(anchor(line.trim_start_matches('#')));
        }
    }
    found
}

/// The targets of links in the text, `](target)`, outside of code.
fn links(markdown: &str) -> Vec<&str> {
    let mut is_code = false;
    let lines = markdown.lines().filter(move |line| {
        is_code ^= line.starts_with("```");
        !is_code
    });
    let links = lines.flat_map(|line| line.split("](").skip(1));
    links.filter_map(|rest| rest.split(')').next()).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut pages = Vec::new();
    files(root(), &[".md"], &mut pages);
    let mut checked = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, part) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(target.exists(), "{} links to {link}, which is not there", page.display());
            if !part.is_empty() && target.extension().is_some_and(|end| end == "md") {
                let there = anchors(&fs::read_to_string(&target).unwrap());
                assert!(there.contains(part), "{} links to {link}: no such heading", page.display());
            }
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} links were found");
}

/// Folders whose files are named by their path from the root.
const FOLDERS: [&str; 13] = [
    "benches",
    "crates",
    "docs",
    "eval",
    "examples",
    "fuzz",
    "mappings",
    "mutants",
    "packaging",
    "scripts",
    "src",
    "templates",
    "tests",
];

/// The paths in a text that begin with one of the folders. What goes on with a sign of a shell or a pattern is only the
/// beginning of one.
fn paths(text: &str) -> Vec<&str> {
    let of = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    let mut found = Vec::new();
    for word in text.split(|c: char| !of(c) && !"$*{<…\\".contains(c)) {
        let word = word.trim_start_matches("./");
        let is_whole = word.chars().all(of);
        // `docs/s` is a rate, `NAME` stands for a name, and the corpus of a fuzz target is made by it or unpacked.
        let is_ours = word.split_once('/').is_some_and(|(folder, rest)| {
            FOLDERS.contains(&folder)
                && !["", "s"].contains(&rest)
                && !rest.contains("NAME")
                && !["fuzz/corpus", "fuzz/artifacts", "fuzz/seeds/"].iter().any(|made| word.starts_with(made))
        });
        if is_whole && is_ours {
            found.push(word.trim_end_matches(['.', '-', '/']));
        }
    }
    found
}

/// What cargo is told to build by its name: an example or a benchmark.
fn built(text: &str) -> Vec<(&str, &str)> {
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_matches(['`', '"', '\'', ',', ')', '.'])).collect();
    let pairs = words.windows(2).filter_map(|pair| match pair {
        [kind @ ("--example" | "--bench"), name] => Some((*kind, *name)),
        _ => None,
    });
    pairs.filter(|(_, name)| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))).collect()
}

/// Pages, code, messages and scripts name files, and examples that scripts build.
#[test]
fn every_file_that_is_named_exists() {
    let mut sources = Vec::new();
    for dir in FOLDERS.iter().filter(|dir| root().join(dir).is_dir()) {
        files(&root().join(dir), &[""], &mut sources);
    }
    files_here(&mut sources);
    let mut wrong = BTreeSet::new();
    let mut checked = 0;
    for source in sources {
        let Ok(text) = fs::read_to_string(&source) else { continue };
        let shown = source.strip_prefix(root()).unwrap().display().to_string();
        // A path may be meant from the folder of the package.
        let package = source.ancestors().skip(1).find(|dir| dir.join("Cargo.toml").exists()).map(Path::to_owned);
        for path in paths(&text) {
            let bases = [Some(root().to_owned()), package.clone(), source.parent().map(Path::to_owned)];
            if !bases.iter().flatten().any(|base| base.join(path).exists()) {
                wrong.insert(format!("{shown} names {path}"));
            }
            checked += 1;
        }
        for (kind, name) in built(&text) {
            let folder = if kind == "--example" { "examples" } else { "benches" };
            let file = |base: &Path| base.join(folder).join(format!("{name}.rs")).exists();
            if !file(root()) && !package.as_deref().is_some_and(file) {
                wrong.insert(format!("{shown} builds {kind} {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not there:\n{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
    assert!(checked > 300, "only {checked} names were found");
}

/// The files of the root folder.
fn files_here(found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            found.push(path);
        }
    }
}

/// The names in the first column of the table of options.
fn documented(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let table =
        text.lines().skip_while(|line| !line.starts_with("| `listen`")).take_while(|line| line.starts_with('|'));
    let first = table.filter_map(|line| line.split('|').nth(1).map(str::to_owned));
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Every option of `serve` is in both tables, and nothing else is.
#[test]
fn the_tables_of_options_are_those_of_the_program() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_spinney")).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let flags = flags.filter_map(|line| line.split([' ', '=', ',']).next().map(str::to_owned));
    let mut flags: BTreeSet<String> = flags.collect();
    // The file itself, and what every program has.
    for other in ["config", "help"] {
        flags.remove(other);
    }
    assert!(flags.len() > 40, "{flags:?}");
    for page in ["docs/options.md", "docs/guide.zh-CN.md"] {
        assert_eq!(documented(page), flags, "{page}");
    }
}
