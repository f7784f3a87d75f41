//! The copy of the code that is changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, process};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::candidates::Candidate;
use crate::render::Rendered;

/// The crates that are changed, with the folders of their code. The first uses the others.
pub(crate) const CRATES: [(&str, &str); 5] = [
    ("spinney", "src"),
    ("spinney-bulk", "crates/bulk/src"),
    ("spinney-forest", "crates/forest/src"),
    ("spinney-simulation", "simulation/src"),
    ("spinney-text", "crates/text/src"),
];

/// What every mutant asks whether it is active.
const SWITCH: &str = r#"
pub(crate) mod mutant_switch {
    use std::sync::LazyLock;

    static ACTIVE: LazyLock<u32> =
        LazyLock::new(|| std::env::var("SPINNEY_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0));

    pub(crate) fn is(number: u32) -> bool {
        *ACTIVE == number
    }
}
"#;

/// Lints that are errors by themselves: what a mutant computes may be seen to overflow.
const ALLOWED: &str = "#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n";

/// A file of the production code.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root of the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// The copy, and its folder for builds beside it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) temporary: PathBuf,
}

impl Tree {
    /// Copies what git knows or would know of the folder that the program runs in.
    pub(crate) fn copy(dir: &Path) -> Result<Tree> {
        let dir = env::current_dir()?.join(dir);
        let tree = Tree {
            root: dir.join("tree"),
            target: dir.join("target"),
            temporary: dir.join(format!("tmp/{}", process::id())),
        };
        let listed = Command::new("git").args(["ls-files", "-co", "--exclude-standard", "-z"]).output()?;
        ensure!(listed.status.success(), "git ls-files failed");
        let listed = String::from_utf8(listed.stdout)?;
        let mut copied = HashSet::new();
        for name in listed.split_terminator('\0') {
            let path = Path::new(name);
            if !path.is_file() {
                continue;
            }
            let to = tree.root.join(path);
            fs::create_dir_all(to.parent().context("no folder")?)?;
            if !CRATES.iter().any(|(_, code)| path.starts_with(code)) {
                write(&to, &fs::read(path)?)?;
                fs::set_permissions(&to, fs::metadata(path)?.permissions())?;
            } else if !to.exists() {
                fs::copy(path, &to)?;
            }
            copied.insert(to);
        }
        remove_others(&tree.root, &copied)?;
        Ok(tree)
    }

    /// The production code in these files and folders.
    pub(crate) fn sources(&self, of: &[PathBuf]) -> Result<Vec<Source>> {
        let mut sources = BTreeMap::new();
        let mut tests = Vec::new();
        let mut left = of.to_vec();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                for entry in fs::read_dir(&path)? {
                    left.push(entry?.path());
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
                tests.extend(test_modules(&path, &text)?);
                sources.insert(path, text);
            }
        }
        let is_test = |path: &PathBuf| tests.iter().any(|test| path.with_extension("").starts_with(test));
        sources.retain(|path, _| !is_test(path));
        Ok(sources.into_iter().map(|(path, text)| Source { path, text }).collect())
    }

    /// Writes all source files with these mutants in them.
    pub(crate) fn write(&self, files: &[Source], mutants: &[&Candidate]) -> Result<BTreeMap<PathBuf, Rendered>> {
        let mut places = BTreeMap::new();
        let mut left: Vec<PathBuf> = CRATES.iter().map(|(_, code)| PathBuf::from(code)).collect();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                for entry in fs::read_dir(&path)? {
                    left.push(entry?.path());
                }
                continue;
            }
            let to = self.root.join(&path);
            let is_root = CRATES.iter().any(|(_, code)| path == Path::new(code).join("lib.rs"));
            let (before, after) = if is_root { (ALLOWED, SWITCH) } else { ("", "") };
            let Some(file) = files.iter().find(|file| file.path == path) else {
                write(&to, &[before.as_bytes(), &fs::read(&path)?, after.as_bytes()].concat())?;
                continue;
            };
            let own: Vec<&Candidate> = mutants.iter().filter(|mutant| mutant.file == file.path).copied().collect();
            let rendered = Rendered::new(before, &file.text, &own);
            write(&to, &[rendered.text.as_bytes(), after.as_bytes()].concat())?;
            places.insert(path, rendered);
        }
        Ok(places)
    }

    /// Compiles the libraries and answers the mutants that do not compile.
    pub(crate) fn check(&self, places: &BTreeMap<PathBuf, Rendered>) -> Result<BTreeSet<u32>> {
        let packages = CRATES.iter().flat_map(|(package, _)| ["--package", package]);
        let messages = self.cargo(&["check", "--lib"].into_iter().chain(packages).collect::<Vec<_>>())?;
        let mut faults = BTreeSet::new();
        let mut failed = false;
        for message in &messages {
            failed |= message["reason"] == "build-finished" && message["success"] == false;
            if message["message"]["level"] != "error" {
                continue;
            }
            let spans = message["message"]["spans"].as_array().map_or(&[][..], Vec::as_slice);
            for primary in [true, false] {
                let mut found = BTreeSet::new();
                for span in spans.iter().filter(|span| span["is_primary"] == primary) {
                    let path = Path::new(span["file_name"].as_str().unwrap_or_default());
                    let byte = |name: &str| span[name].as_u64().unwrap_or_default() as usize;
                    let range = byte("byte_start")..byte("byte_end");
                    found.extend(places.get(path).map(|file| file.innermost(&range)).unwrap_or_default());
                }
                let is_found = !found.is_empty();
                faults.extend(found);
                if is_found {
                    break;
                }
            }
        }
        if failed && faults.is_empty() {
            show(&messages);
            bail!("the copy does not compile, and no mutant is seen to be the reason");
        }
        Ok(faults)
    }

    /// Runs cargo in the copy and answers its messages.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let output = Command::new("cargo")
            .args(arguments)
            .args(["--locked", "--message-format", "json"])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .stderr(Stdio::inherit())
            .output()?;
        let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
    }
}

/// Prints what the compiler has said.
pub(crate) fn show(messages: &[Value]) {
    for message in messages.iter().filter(|message| message["reason"] == "compiler-message") {
        eprintln!("{}", message["message"]["rendered"].as_str().unwrap_or_default());
    }
}

/// Paths, without their ending, of the modules of a file that are for tests.
fn test_modules(path: &Path, text: &str) -> Result<Vec<PathBuf>> {
    let parsed = syn::parse_file(text).with_context(|| format!("{}", path.display()))?;
    let own = path.with_extension("");
    let folder = if own.ends_with("mod") || own.ends_with("lib") { own.parent().unwrap_or(&own) } else { &own };
    let tests = parsed.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && crate::find::is_other(&module.attrs) => {
            Some(match named_path(&module.attrs) {
                Some(named) => own.parent().unwrap_or(&own).join(named).with_extension(""),
                None => folder.join(module.ident.to_string()),
            })
        }
        _ => None,
    });
    Ok(tests.collect())
}

/// `#[path = "…"]`
fn named_path(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(named) if named.path.is_ident("path") => match &named.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Writes a file unless it is so already: cargo builds again what is newer.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

/// Removes files that are no longer in the original.
fn remove_others(dir: &Path, copied: &HashSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, copied)?;
        } else if !copied.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
