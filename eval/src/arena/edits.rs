//! Reprints made by script: which kinds of edit are found, and which documents of different originals are together.

use std::collections::{BTreeMap, HashMap};

use super::ArenaError;

/// Which edit of which original each document is, by id. The file has a header and the columns id, original, kind,
/// class and language.
#[derive(Debug, Default)]
pub(super) struct Edits(HashMap<String, Edit>);

#[derive(Debug)]
struct Edit {
    original: String,
    kind: String,
    language: String,
}

/// How many pairs there are, and how many of them are together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ratio {
    together: u64,
    pairs: u64,
}

/// How well the reprints were found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct EditScore {
    /// By name: `reprints`, `reprints LANGUAGE`, `reprints LANGUAGE KIND`, `reprints in traditional script`,
    /// `excerpts`, `wrong: LABEL`.
    ratios: BTreeMap<String, Ratio>,
    /// The lowest share of a kind and language.
    pub worst: Option<f64>,
    /// Pairs that are together though their documents come from different originals, labelled or not.
    pub wrong_pairs: u64,
}

impl EditScore {
    /// The shares put together, by name.
    pub(super) fn shares(&self) -> impl Iterator<Item = (&str, f64)> {
        let ratios = self.ratios.iter();
        ratios.map(|(name, ratio)| (name.as_str(), ratio.together as f64 / ratio.pairs as f64))
    }

    /// The share of all reprints put together.
    pub(super) fn reprints(&self) -> Option<f64> {
        self.shares().find(|(name, _)| *name == "reprints").map(|(_, share)| share)
    }
}

impl Edits {
    /// Reads the file; `name` is what errors call it.
    ///
    /// # Errors
    /// When a line has fewer than five columns.
    pub(super) fn parse(text: &str, name: &str) -> Result<Edits, ArenaError> {
        let mut edits = HashMap::new();
        for (line, text) in (1..).zip(text.lines()).skip(1).filter(|(_, text)| !text.is_empty()) {
            let columns: Vec<&str> = text.split('\t').collect();
            let &[id, original, kind, _, language, ..] = columns.as_slice() else {
                return Err(ArenaError::Columns { name: name.to_owned(), line, expected: "5" });
            };
            let owned = [original, kind, language].map(str::to_owned);
            let [original, kind, language] = owned;
            edits.insert(id.to_owned(), Edit { original, kind, language });
        }
        Ok(Edits(edits))
    }

    /// Scores labelled pairs, lines of `id <tab> id <tab> label`, and all clusters. `root` gives the root of an id;
    /// `roots` are the ids with their roots. A pair of ids that are no edits does not count.
    pub(super) fn score<'r>(
        &self,
        pairs: &str,
        root: &dyn Fn(&str) -> Option<u64>,
        roots: impl Iterator<Item = (&'r str, u64)>,
    ) -> EditScore {
        let mut score = EditScore::default();
        // The names of a kind and language, among which the worst is looked for.
        let mut kinds: BTreeMap<String, ()> = BTreeMap::new();
        for row in pairs.lines() {
            let columns: Vec<&str> = row.trim_end().split('\t').collect();
            let &[one, other, label, ..] = columns.as_slice() else { continue };
            let (Some(first), Some(second)) = (self.0.get(one), self.0.get(other)) else { continue };
            let Edit { kind, language, .. } = if second.kind == "original" { first } else { second };
            let together = one == other || root(one).is_some_and(|root_of_one| Some(root_of_one) == root(other));
            let names = match label {
                "1" => {
                    let of_kind = format!("reprints {language} {kind}");
                    kinds.insert(of_kind.clone(), ());
                    let mut names = vec!["reprints".to_owned(), format!("reprints {language}"), of_kind];
                    if kind.starts_with("traditional") {
                        names.push("reprints in traditional script".to_owned());
                    }
                    names
                }
                "grey" => vec!["excerpts".to_owned()],
                _ => vec![format!("wrong: {}", label.trim_start_matches("0-"))],
            };
            for name in names {
                let ratio = score.ratios.entry(name).or_default();
                ratio.pairs += 1;
                ratio.together += u64::from(together);
            }
        }
        score.worst =
            score.shares().filter(|(name, _)| kinds.contains_key(*name)).map(|(_, share)| share).reduce(f64::min);
        let mut clusters: HashMap<u64, HashMap<&str, u64>> = HashMap::new();
        for (id, root) in roots {
            let original = self.0.get(id).map_or(id, |edit| edit.original.as_str());
            *clusters.entry(root).or_default().entry(original).or_default() += 1;
        }
        let within = |count: u64| count * count.saturating_sub(1) / 2;
        let wrong = clusters
            .values()
            .map(|originals| within(originals.values().sum()) - originals.values().copied().map(within).sum::<u64>());
        score.wrong_pairs = wrong.sum();
        score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDITS: &str = "id\torig\tkind\tclass\tlang\n\
        a\ta\toriginal\toriginal\ten\nb\ta\tbyline\tpositive\ten\nc\ta\tfooter\tpositive\ten\td\n\
        x\tx\toriginal\toriginal\tzh\ny\tx\ttraditional_tw\tpositive\tzh\n";

    #[test]
    fn reprints_are_scored_by_kind_and_language() {
        let edits = Edits::parse(EDITS, "e").unwrap();
        let roots = HashMap::from([("a", 1), ("b", 1), ("c", 2), ("x", 1), ("y", 1), ("z", 1)]);
        let pairs = "a\tb\t1\nc\ta\t1\nx\ty\t1\na\tc\tgrey\na\tx\t0-footer\na\tnobody\t1\nx\tx\t1\n";
        let score = edits.score(pairs, &|id| roots.get(id).copied(), roots.iter().map(|(&id, &root)| (id, root)));
        let shares: Vec<(&str, f64)> = score.shares().collect();
        assert_eq!(
            shares,
            [
                ("excerpts", 0.0),
                ("reprints", 0.75),
                ("reprints en", 0.5),
                ("reprints en byline", 1.0),
                ("reprints en footer", 0.0),
                ("reprints in traditional script", 1.0),
                ("reprints zh", 1.0),
                ("reprints zh original", 1.0),
                ("reprints zh traditional_tw", 1.0),
                ("wrong: footer", 1.0),
            ]
        );
        assert_eq!((score.reprints(), score.worst), (Some(0.75), Some(0.0)));
        // Of a, b, x, y and z all pairs but a-b and x-y.
        assert_eq!(score.wrong_pairs, 8);
    }

    #[test]
    fn a_line_without_its_columns_is_named() {
        let error = Edits::parse("id\n\na\tb\tc\td\n", "x.edits.tsv").unwrap_err().to_string();
        assert_eq!(error, "x.edits.tsv: line 3 has fewer than 5 columns, separated by tabs");
        assert!(Edits::parse("", "x").unwrap().0.is_empty());
    }
}
