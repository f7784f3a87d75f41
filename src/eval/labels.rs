//! What a person says of the documents: labelled pairs, and clusters.

use std::collections::HashMap;

use super::documents::Document;

/// What a person says of two documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// They belong together: `1`, `same` or `dup`.
    Together,
    /// They do not: `0`, `different`, or anything that begins with `0-`.
    Apart,
    /// Something that is neither right nor wrong; the index of its name.
    Other(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    pub one: Document,
    pub other: Document,
    pub label: Label,
}

/// Labelled pairs: lines of `id <tab> id <tab> label`; further columns are not read.
#[derive(Debug, Default)]
pub struct Pairs {
    pub pairs: Vec<Pair>,
    /// Names of the labels that are neither right nor wrong.
    pub others: Vec<String>,
    /// Pairs left out because a document of theirs is not there.
    pub left_out: usize,
}

/// Which documents belong together: lines of `id <tab> cluster`. Documents that are not named do not count.
#[derive(Debug, Default)]
pub struct Clusters {
    /// Document and number of its cluster.
    pub members: Vec<(Document, u32)>,
    /// Lines left out because their document is not there.
    pub left_out: usize,
}

/// What is wrong with a file of labels.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    #[error("line {line} has {columns} columns, separated by tabs: {expected} are needed")]
    Columns {
        line: usize,
        columns: usize,
        expected: &'static str,
    },
    #[error("line {line}: `{id}` has a cluster already")]
    Twice { line: usize, id: String },
    #[error("no line names documents that are there: do the ids fit those of --id-field?")]
    Nothing,
}

/// Lines with something on them and their numbers, split at tabs.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = (1..)
        .zip(text.lines())
        .map(|(at, line)| (at, line.trim_end()));
    let lines = lines.filter(|(_, line)| !line.is_empty());
    lines.map(|(at, line)| (at, line.split('\t').collect()))
}

impl Pairs {
    /// Reads labelled pairs. A first line of other ids than those of documents is a header.
    ///
    /// # Errors
    /// When a line has no label, or none of them names documents.
    pub fn parse(text: &str, find: impl Fn(&str) -> Option<Document>) -> Result<Pairs, LabelError> {
        let mut pairs = Pairs::default();
        for (line, columns) in rows(text) {
            let &[one, other, label, ..] = columns.as_slice() else {
                return Err(LabelError::Columns {
                    line,
                    columns: columns.len(),
                    expected: "two ids and a label",
                });
            };
            match (find(one), find(other)) {
                (Some(one), Some(other)) => {
                    let label = pairs.label(label);
                    pairs.pairs.push(Pair { one, other, label });
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

impl Clusters {
    /// Reads clusters. A first line of another id than those of documents is a header.
    ///
    /// # Errors
    /// When a line names no cluster, a document stands in two, or none of the documents is there.
    pub fn parse(
        text: &str,
        find: impl Fn(&str) -> Option<Document>,
    ) -> Result<Clusters, LabelError> {
        let mut clusters = Clusters::default();
        let mut names: HashMap<&str, u32> = HashMap::new();
        let mut seen = std::collections::HashSet::new();
        for (line, columns) in rows(text) {
            let &[id, name, ..] = columns.as_slice() else {
                return Err(LabelError::Columns {
                    line,
                    columns: columns.len(),
                    expected: "an id and a cluster",
                });
            };
            let Some(document) = find(id) else {
                clusters.left_out += usize::from(line > 1);
                continue;
            };
            if !seen.insert(document) {
                return Err(LabelError::Twice {
                    line,
                    id: id.to_owned(),
                });
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
        let pairs = Pairs::parse(text, find).unwrap();
        let labels: Vec<Label> = pairs.pairs.iter().map(|pair| pair.label).collect();
        use Label::{Apart, Other, Together};
        assert_eq!(
            labels,
            [Together, Apart, Other(0), Other(1), Other(0), Together]
        );
        assert_eq!(pairs.others, ["grey", "event"]);
        assert_eq!(pairs.left_out, 1);
    }

    #[test]
    fn clusters_are_numbered_as_they_come() {
        let clusters = Clusters::parse("id\tgroup\nd5\tx\nd1\ty\nd2\tx\nz\tx\n", find).unwrap();
        assert_eq!(clusters.members, [(5, 0), (1, 1), (2, 0)]);
        assert_eq!(clusters.left_out, 1);
    }

    #[test]
    fn wrong_lines_are_named() {
        let columns = Pairs::parse("d1\td2\t1\nd1\td2\n", find).unwrap_err();
        assert_eq!(
            columns.to_string(),
            "line 2 has 2 columns, separated by tabs: two ids and a label are needed"
        );
        assert_eq!(
            Pairs::parse("a\tb\t1\n", find).err(),
            Some(LabelError::Nothing)
        );
        let twice = Clusters::parse("d1\ta\nd1\tb\n", find).unwrap_err();
        assert_eq!(twice.to_string(), "line 2: `d1` has a cluster already");
        assert_eq!(Clusters::parse("", find).err(), Some(LabelError::Nothing));
    }
}
