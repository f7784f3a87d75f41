//! The scores for readers: a table by set and label with a column for each contestant, reasons, and limits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::limits::label_figure;
use super::{ALL, Judgement, LabelScore, Outcome, SetScore, Wanted};
use spinney::text::isolate;

/// Figures that have a line of their own below the labels of a set.
const FIGURES: [&str; 7] = [
    "reprints, worst kind and language",
    "number of wrong pairs of different originals",
    "of them, number sharing no text",
    "joins without the lead",
    "nodes per document",
    "dup apart",
    "wrong together",
];
/// The figure that is printed for all sets, too.
const ERROR: &str = "error";

/// Prints labels and the most important figures, a column for each contestant. Figures of labels are shares together.
///
/// # Errors
/// When `out` cannot be written.
pub fn print_table(scores: &[SetScore], out: &mut dyn Write) -> io::Result<()> {
    let mut methods: Vec<&str> = Vec::new();
    let mut collections: Vec<&str> = Vec::new();
    for score in scores {
        if !methods.contains(&score.method.as_str()) {
            methods.push(&score.method);
        }
        if !collections.contains(&score.collection.as_str()) {
            collections.push(&score.collection);
        }
    }
    let longest = |of: &mut dyn Iterator<Item = usize>, least: usize| of.fold(least, usize::max);
    let wide = longest(&mut collections.iter().map(|name| name.len()), 3);
    let columns: Vec<usize> = methods.iter().map(|method| method.len().max(8)).collect();
    let mut rows = vec![["set".to_owned(), "label or figure".to_owned(), "wanted".to_owned(), "pairs".to_owned()]];
    let mut values = vec![methods.iter().map(|&method| method.to_owned()).collect::<Vec<_>>()];
    for collection in collections {
        let of: Vec<Option<&SetScore>> = methods
            .iter()
            .map(|method| scores.iter().find(|score| score.collection == collection && score.method == *method))
            .collect();
        for label in labels_of(&of) {
            rows.push([collection.to_owned(), label.label.clone(), wanted(label).to_owned(), label.pairs.to_string()]);
            values.push(of.iter().map(|score| number(*score, &label_figure(&label.label))).collect());
        }
        let chrome = ["largest_tree", "other_title", "reprints", "reprints_without", "stream_nodes", "stream_time"];
        let figures = if collection == "page_chrome" { &chrome[..] } else { &FIGURES };
        for &figure in figures.iter().chain([&ERROR]) {
            if of.iter().any(|score| score.is_some_and(|score| score.number(figure).is_some())) {
                rows.push([collection.to_owned(), figure.to_owned(), String::new(), String::new()]);
                values.push(of.iter().map(|score| number(*score, figure)).collect());
            }
        }
    }
    let figure_wide = longest(&mut rows.iter().map(|row| row[1].len()), 0);
    for ([set, figure, wanted, pairs], values) in rows.iter().zip(values) {
        write!(out, "{set:<wide$}  {figure:<figure_wide$}  {wanted:<8}  {pairs:>6}")?;
        for (value, wide) in values.iter().zip(&columns) {
            write!(out, "  {value:>wide$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The labels of a collection; all contestants have the same.
fn labels_of<'s>(of: &[Option<&'s SetScore>]) -> &'s [LabelScore] {
    of.iter().flatten().next().map_or(&[], |score| score.labels.as_slice())
}

fn wanted(label: &LabelScore) -> &'static str {
    match label.wanted {
        Wanted::Together => "together",
        Wanted::Apart => "apart",
        Wanted::Free => "",
    }
}

/// A figure as the tables have it.
pub(super) fn number(score: Option<&SetScore>, figure: &str) -> String {
    let found = score.and_then(|score| score.figures.iter().find(|(name, _)| name == figure));
    found.map_or("--".to_owned(), |(_, value)| match value {
        super::FigureValue::Number(number) => format!("{number:.4}"),
        value => serde_json::json!(value).to_string(),
    })
}

/// Prints the reasons of all wrong pairs by set and label, the most frequent first.
///
/// # Errors
/// When `out` cannot be written.
pub fn print_reasons(scores: &[SetScore], out: &mut dyn Write) -> io::Result<()> {
    for score in scores {
        for label in score.labels.iter().filter(|label| !label.reasons.is_empty()) {
            let side = if label.wanted == Wanted::Together { "apart" } else { "together" };
            writeln!(
                out,
                "{}: {}: {} wrongly {side}: {} of {}",
                score.method,
                score.collection,
                label.label,
                label.wrong(),
                label.pairs
            )?;
            let mut reasons: Vec<(&String, &u64)> = label.reasons.iter().collect();
            reasons.sort_by_key(|(_, pairs)| std::cmp::Reverse(**pairs));
            for (reason, pairs) in reasons {
                writeln!(out, "  {pairs:>6}  {reason}")?;
            }
        }
    }
    Ok(())
}

/// Prints the worst pairs by their ids, as many as were kept.
///
/// # Errors
/// When `out` cannot be written.
pub fn print_worst(scores: &[SetScore], out: &mut dyn Write) -> io::Result<()> {
    for score in scores {
        for label in &score.labels {
            for pair in &label.worst {
                let (one, other) = (isolate(&pair.one), isolate(&pair.other));
                write!(out, "{}: {}: {}: {one} {other}", score.method, score.collection, label.label)?;
                match pair.reason.as_str() {
                    "" => writeln!(out, " ({} pairs)", pair.pairs)?,
                    reason => writeln!(out, " ({} pairs) {reason}", pair.pairs)?,
                }
            }
        }
    }
    Ok(())
}

/// Prints the limits that are missed and those that could not be judged, and says how many are held.
///
/// # Errors
/// When `out` cannot be written.
pub fn print_judgements(judgements: &[Judgement], out: &mut dyn Write) -> io::Result<()> {
    let mut unjudged: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let (mut held, mut missed) = (0, 0);
    for Judgement { limit, collection, outcome } in judgements {
        match outcome {
            Outcome::Held(_) => held += 1,
            Outcome::Missed(figure) => {
                missed += 1;
                writeln!(out, "missed: {collection}: {}: {figure:.4}, {} is wanted", limit.figure(), limit.bound())?;
            }
            Outcome::NotJudged => {
                unjudged.entry(collection).or_default().insert(limit.figure());
            }
        }
    }
    for (collection, figures) in unjudged {
        let figures: Vec<String> = figures.into_iter().collect();
        let why = if collection == ALL { ": not all sets were scored" } else { "" };
        writeln!(out, "not judged: {collection}: {}{why}", figures.join(", "))?;
    }
    writeln!(out, "limits: {held} held, {missed} missed")
}

#[cfg(test)]
mod tests {
    use super::super::{FigureValue, Limits};
    use super::*;

    fn printed(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn contestants_stand_side_by_side() {
        let mut verified = SetScore::new("press_tune", "verified");
        verified.set_labels(vec![
            LabelScore::counted("dup", 9, 10),
            LabelScore::counted("partial", 1, 2),
            LabelScore::counted("template", 1, 4),
        ]);
        let mut peer = SetScore::new("press_tune", "minhash:0.5");
        peer.set_labels(vec![
            LabelScore::counted("dup", 5, 10),
            LabelScore::counted("partial", 1, 2),
            LabelScore::counted("template", 4, 4),
        ]);
        let mut all = SetScore::new(ALL, "verified");
        all.figure("error", FigureValue::Number(0.175));
        let text = printed(|out| print_table(&[verified, peer, all], out));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..], ["set", "label", "or", "figure", "wanted", "pairs", "verified", "minhash:0.5"]);
        assert_eq!(lines[1][..], ["press_tune", "dup", "together", "10", "0.9000", "0.5000"]);
        assert_eq!(lines[2][..], ["press_tune", "partial", "2", "0.5000", "0.5000"]);
        assert_eq!(lines[3][..], ["press_tune", "template", "apart", "4", "0.2500", "1.0000"]);
        assert_eq!(lines[6][..], ["press_tune", "error", "0.1750", "0.7500"]);
        assert_eq!(lines[7][..], ["all", "error", "0.1750", "--"]);
    }

    #[test]
    fn missed_limits_are_printed_with_their_figure() {
        let limits = "method = \"verified\"\nsets = [\"press\", \"court\"]\nlimits = [\
            { set = \"press\", label = \"dup\", at_least = 0.95 },\
            { set = \"press\", label = \"template\", at_most = 0.25 },\
            { set = \"court\", label = \"dup\", at_least = 1 },\
            { set = \"all\", figure = \"error\", at_most = 0.07 }]";
        let mut score = SetScore::new("press_tune", "verified");
        score.set = Some("press".into());
        score.set_labels(vec![LabelScore::counted("dup", 9, 10), LabelScore::counted("template", 1, 4)]);
        let judgements = Limits::parse(limits).unwrap().judge(&[score]);
        let text = printed(|out| print_judgements(&judgements, out));
        assert_eq!(
            text,
            "missed: press_tune: label dup: 0.9000, at least 0.95 is wanted\n\
             not judged: all: error: not all sets were scored\n\
             not judged: court: label dup\n\
             limits: 1 held, 1 missed\n"
        );
    }
}
