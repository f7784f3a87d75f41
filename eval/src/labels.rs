//! What a person says about the documents: labelled pairs, and clusters.

use std::collections::HashMap;

use super::documents::{Document, Documents};

/// What a person says about two documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    /// They belong together: `1`, `same` or `dup`.
    Together,
    /// They do not: `0`, `different`, or anything that begins with `0-`.
    Apart,
    /// Something that is neither right nor wrong; the index of its name.
    Other(usize),
}

/// Two documents and what a person says about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LabelledPair {
    pub one: Document,
    pub other: Document,
    pub label: Label,
    /// Index of the label as it is written.
    pub name: usize,
}

/// Labelled pairs: lines of `id <tab> id <tab> label`; further columns are ignored.
#[derive(Debug, Default)]
pub struct LabelledPairs {
    pub(super) pairs: Vec<LabelledPair>,
    /// The labels as they are written, and what each says.
    pub(super) names: Vec<(String, Label)>,
    /// Names of the labels that are neither right nor wrong.
    pub(super) others: Vec<String>,
    /// Pairs left out because one of their documents does not exist.
    pub(super) left_out: usize,
}

/// Which documents belong together: lines of `id <tab> cluster`. Documents that are not named do not count.
#[derive(Debug, Default)]
pub struct LabelledClusters {
    /// Document and number of its cluster.
    pub(super) members: Vec<(Document, u32)>,
    /// Lines left out because their document does not exist.
    pub(super) left_out: usize,
}

/// What is wrong with a file of labels.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// A line has too few columns.
    #[error("line {line} has {columns}, separated by tabs: {expected} are needed", columns = counted(*columns))]
    Columns {
        /// The line, counted from 1.
        line: usize,
        /// How many it has.
        columns: usize,
        /// What they should be.
        expected: &'static str,
    },
    /// A document has two clusters.
    #[error("line {line}: `{id}` has a cluster already")]
    Twice {
        /// The second line, counted from 1.
        line: usize,
        /// The document's id.
        id: String,
    },
    /// Nothing is left to compare with.
    #[error("no line names documents that exist: do the ids match those of --id-field?")]
    Nothing,
}

fn counted(columns: usize) -> String {
    match columns {
        1 => "1 column".into(),
        _ => format!("{columns} columns"),
    }
}

/// Lines with something on them and their numbers, split at tabs.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = (1..).zip(text.lines()).map(|(at, line)| (at, line.trim_end()));
    let lines = lines.filter(|(_, line)| !line.is_empty());
    lines.map(|(at, line)| (at, line.split('\t').collect()))
}

impl LabelledPairs {
    /// Reads labelled pairs. A first line without the id of a document is a header.
    ///
    /// # Errors
    /// When a line has no label, or none of them names two of the documents.
    pub fn parse(text: &str, documents: &Documents) -> Result<LabelledPairs, LabelError> {
        LabelledPairs::resolve(text, |id| documents.find(id))
    }

    pub(super) fn resolve(text: &str, find: impl Fn(&str) -> Option<Document>) -> Result<LabelledPairs, LabelError> {
        let mut pairs = LabelledPairs::default();
        for (line, columns) in rows(text) {
            let &[one, other, label, ..] = columns.as_slice() else {
                return Err(LabelError::Columns { line, columns: columns.len(), expected: "two ids and a label" });
            };
            match (find(one), find(other)) {
                (Some(one), Some(other)) => {
                    let name = pairs.name(label);
                    let label = pairs.label(label);
                    pairs.pairs.push(LabelledPair { one, other, label, name });
                }
                (None, None) if line == 1 => {}
                _ => pairs.left_out += 1,
            }
        }
        if pairs.pairs.is_empty() {
            return Err(LabelError::Nothing);
        }
        Ok(pairs)
    }

    /// Index of a label as it is written.
    fn name(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|(known, _)| known == name);
        known.unwrap_or_else(|| {
            let label = self.label(name);
            self.names.push((name.to_owned(), label));
            self.names.len() - 1
        })
    }

    fn label(&mut self, name: &str) -> Label {
        match name {
            "1" | "same" | "dup" => Label::Together,
            "0" | "different" => Label::Apart,
            _ if name.starts_with("0-") => Label::Apart,
            _ => {
                let known = self.others.iter().position(|other| other == name);
                Label::Other(known.unwrap_or_else(|| {
                    self.others.push(name.to_owned());
                    self.others.len() - 1
                }))
            }
        }
    }
}

impl LabelledClusters {
    /// Reads clusters. A first line without the id of a document is a header.
    ///
    /// # Errors
    /// When a line names no cluster, a document is in two, or no line names one of the documents.
    pub fn parse(text: &str, documents: &Documents) -> Result<LabelledClusters, LabelError> {
        LabelledClusters::resolve(text, |id| documents.find(id))
    }

    fn resolve(text: &str, find: impl Fn(&str) -> Option<Document>) -> Result<LabelledClusters, LabelError> {
        let mut clusters = LabelledClusters::default();
        let mut names: HashMap<&str, u32> = HashMap::new();
        let mut seen = std::collections::HashSet::new();
        for (line, columns) in rows(text) {
            let &[id, name, ..] = columns.as_slice() else {
                return Err(LabelError::Columns { line, columns: columns.len(), expected: "an id and a cluster" });
            };
            let Some(document) = find(id) else {
                clusters.left_out += usize::from(line > 1);
                continue;
            };
            if !seen.insert(document) {
                return Err(LabelError::Twice { line, id: id.to_owned() });
            }
            let next = names.len() as u32;
            let number = *names.entry(name).or_insert(next);
            clusters.members.push((document, number));
        }
        if clusters.members.is_empty() {
            return Err(LabelError::Nothing);
        }
        Ok(clusters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(id: &str) -> Option<Document> {
        id.strip_prefix('d')?.parse().ok()
    }

    #[test]
    fn labels_say_together_apart_or_something_else() {
        let text = "a\tb\tlabel\tkind\nd1\td2\tsame\tx\nd1\td3\t0-footer\n\nd2\td3\tgrey\nd4\td5\tevent\nd4\td1\tgrey\r\nd1\tz\t1\nd8\td9\t1\n";
        let pairs = LabelledPairs::resolve(text, find).unwrap();
        let labels: Vec<Label> = pairs.pairs.iter().map(|pair| pair.label).collect();
        use Label::{Apart, Other, Together};
        assert_eq!(labels, [Together, Apart, Other(0), Other(1), Other(0), Together]);
        assert_eq!(pairs.others, ["grey", "event"]);
        assert_eq!(pairs.left_out, 1);
    }

    #[test]
    fn clusters_are_numbered_as_they_come() {
        let clusters = LabelledClusters::resolve("id\tgroup\nd5\tx\nd1\ty\nd2\tx\nz\tx\n", find).unwrap();
        assert_eq!(clusters.members, [(5, 0), (1, 1), (2, 0)]);
        assert_eq!(clusters.left_out, 1);
    }

    #[test]
    fn wrong_lines_are_named() {
        let columns = LabelledPairs::resolve("d1\td2\t1\nd1\td2\n", find).unwrap_err();
        assert_eq!(columns.to_string(), "line 2 has 2 columns, separated by tabs: two ids and a label are needed");
        assert_eq!(LabelledPairs::resolve("a\tb\t1\n", find).err(), Some(LabelError::Nothing));
        let twice = LabelledClusters::resolve("d1\ta\nd1\tb\n", find).unwrap_err();
        assert_eq!(twice.to_string(), "line 2: `d1` has a cluster already");
        assert_eq!(LabelledClusters::resolve("", find).err(), Some(LabelError::Nothing));
    }
}
