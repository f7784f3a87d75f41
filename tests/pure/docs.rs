//! The documentation leads nowhere that is not there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `dir` whose name ends so, but for what is built or fetched.
fn files(dir: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
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

/// Code, messages and scripts name pages too.
#[test]
fn every_page_that_is_named_exists() {
    let mut sources = Vec::new();
    for dir in ["src", "tests", "benches", "scripts", "mappings", "docs", "templates"] {
        files(&root().join(dir), &[".rs", ".md", ".html", ".sh", ".py", ".js"], &mut sources);
    }
    let mut checked = 0;
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        for (at, _) in text.match_indices("docs/") {
            let name: String =
                text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || "/-_.".contains(*c)).collect();
            let Some(end) = name.find(".md") else {
                continue;
            };
            let page = &name[..end + 3];
            assert!(root().join(page).exists(), "{} names {page}, which is not there", source.display());
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} names were found");
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
