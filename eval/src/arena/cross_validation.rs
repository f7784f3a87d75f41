//! Leave-one-out cross-validation of the weights of `verified`: how much of what they reach they owe to having been
//! chosen on the sets that they are judged by.
//!
//! Each set has three errors, of the same pairs and by the same differences: by the weights as they are, by weights
//! that were fitted on the other sets alone, and by weights that were fitted on all. The fit is a coordinate descent
//! over a grid, which begins at the weights as they are; it depends on nothing but the pairs.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::pair_decisions::{Factors, PairDecisions, TABLE};
use super::table::number;
use super::{ALL, FigureValue, SetScore, error};
use spinney::method::Differences;

/// Factors of a weight that are tried. Of equally good ones the first is taken: the nearest to the weight as it is.
const GRID: [f32; 13] = [1.0, 1.2, 0.83, 1.4, 0.7, 1.7, 0.6, 2.0, 0.5, 2.8, 0.35, 4.0, 0.25];
/// A smaller gain is none: a sum in another order.
const GAIN: f64 = 1e-9;

/// Width of a figure in the table.
const NARROW: usize = 6;

const PAIRS: &str = "pairs one by one";
const WEIGHED: &str = "pairs one by one that the weights decide";
const ERROR: &str = "error of pairs one by one";
const ERROR_BY_OTHERS: &str = "error of pairs one by one, weights fitted on the other sets";
const ERROR_BY_ALL: &str = "error of pairs one by one, weights fitted on all sets";

/// The kinds of difference, in the order of the factors.
fn kinds() -> impl Iterator<Item = &'static str> {
    Differences::default().costs().into_iter().map(|(kind, _)| kind.as_str())
}

fn factor_of(kind: &str) -> String {
    format!("fitted factor of the weight of {kind}")
}

/// The mean over the sets of these collections, which must have errors.
fn mean_error(decisions: &[&PairDecisions], factors: &Factors) -> f64 {
    let errors = decisions.iter().filter_map(|one| Some((one.set.as_str(), one.error(factors)?)));
    error::mean(errors).map_or(0.0, |(mean, _)| mean)
}

/// The factors with the least mean error of these collections.
fn fit(decisions: &[&PairDecisions]) -> Factors {
    let mut best = TABLE;
    let mut least = mean_error(decisions, &best);
    loop {
        let before = least;
        for at in 0..best.len() {
            for factor in GRID {
                let mut tried = best;
                if let Some(place) = tried.get_mut(at) {
                    *place = factor;
                }
                let error = mean_error(decisions, &tried);
                if error < least - GAIN {
                    (best, least) = (tried, error);
                }
            }
        }
        if least >= before {
            return best;
        }
    }
}

/// The figures of each set, and their means as those of `all`, last; none if there are fewer than two sets. The factors
/// are those of the fit on the other sets, of `all` those of the fit on all.
pub(super) fn scores(method: &str, mut decisions: Vec<PairDecisions>) -> Vec<SetScore> {
    decisions.retain(|one| one.error(&TABLE).is_some());
    let sets: BTreeSet<&str> = decisions.iter().map(|one| one.set.as_str()).collect();
    if sets.len() < 2 {
        return Vec::new();
    }
    let of_all = fit(&decisions.iter().collect::<Vec<_>>());
    let mut means = [0.0; 3];
    let score = |set: &str, errors: [f64; 3], factors: Factors| {
        let mut score = SetScore::new(set, method);
        let of = decisions.iter().filter(|one| set == ALL || one.set == set).map(PairDecisions::counts);
        let (pairs, weighed) = of.fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1));
        score.figure(PAIRS, FigureValue::Count(pairs));
        score.figure(WEIGHED, FigureValue::Count(weighed));
        for (name, error) in [ERROR, ERROR_BY_OTHERS, ERROR_BY_ALL].into_iter().zip(errors) {
            score.figure(name, FigureValue::Number(error));
        }
        for (kind, factor) in kinds().zip(factors) {
            score.figure(factor_of(kind), FigureValue::Number(factor.into()));
        }
        score
    };
    let mut scores = Vec::new();
    for &set in &sets {
        let (own, others): (Vec<_>, Vec<_>) = decisions.iter().partition(|one| one.set == set);
        let of_others = fit(&others);
        let errors = [TABLE, of_others, of_all].map(|factors| mean_error(&own, &factors));
        for (mean, error) in means.iter_mut().zip(errors) {
            *mean += error / sets.len() as f64;
        }
        scores.push(score(set, errors, of_others));
    }
    scores.push(score(ALL, means, of_all));
    scores
}

/// Prints the errors of each set by the weights as they are, by those of the other sets and by those of all, and the
/// factors of the fit. Nothing if there are no such figures.
///
/// # Errors
/// When `out` cannot be written.
pub fn print_cross_validation(scores: &[SetScore], out: &mut dyn Write) -> io::Result<()> {
    let scores: Vec<&SetScore> = scores.iter().filter(|score| score.number(ERROR).is_some()).collect();
    let Some(wide) = scores.iter().map(|score| score.collection.len()).max() else { return Ok(()) };
    let columns = [
        ("pairs", PAIRS),
        ("weighed", WEIGHED),
        ("as is", ERROR),
        ("others", ERROR_BY_OTHERS),
        ("all sets", ERROR_BY_ALL),
    ];
    let columns = columns.map(|(heading, figure)| (heading, figure.to_owned()));
    let columns: Vec<(&str, String)> = columns.into_iter().chain(kinds().map(|kind| (kind, factor_of(kind)))).collect();
    writeln!(
        out,
        "pairs one by one: error by the weights as is, fitted on the others and on all sets; fitted factors:"
    )?;
    write!(out, "{:<wide$}", "set")?;
    for (heading, _) in &columns {
        write!(out, "  {heading:>NARROW$}")?;
    }
    writeln!(out)?;
    for score in scores {
        write!(out, "{:<wide$}", score.collection)?;
        for (heading, figure) in &columns {
            write!(out, "  {:>1$}", number(Some(score), figure), heading.len().max(NARROW))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::pair_decisions::Verdict;
    use super::*;

    /// A set of which the pairs of one text cost `dup` by numbers, the others `wrong`.
    fn set(name: &str, dup: f32, wrong: f32) -> PairDecisions {
        let costs = |numbers| Verdict::Costs([0.0, 0.0, numbers, 0.0, 0.0]);
        PairDecisions::counted(name, &["dup", "template"], &[(0, costs(dup)), (1, costs(wrong))])
    }

    fn errors(scores: &[SetScore], set: &str) -> [f64; 3] {
        let of = scores.iter().find(|score| score.collection == set).unwrap();
        [ERROR, ERROR_BY_OTHERS, ERROR_BY_ALL].map(|figure| of.number(figure).unwrap())
    }

    fn numbers(scores: &[SetScore], set: &str) -> f64 {
        let of = scores.iter().find(|score| score.collection == set).unwrap();
        of.number(&factor_of("numbers")).unwrap()
    }

    #[test]
    fn a_set_that_needs_another_weight_gets_it() {
        assert_eq!(fit(&[&set("a", 0.5, 0.9)]), [1.0, 1.0, 1.2, 1.0, 1.0]);
        assert_eq!(fit(&[&set("a", 1.9, 3.0)]), [1.0, 1.0, 0.5, 1.0, 1.0]);
        // Nothing is better than the weights as they are, or nothing helps.
        for (dup, wrong) in [(0.9, 1.1), (0.5, 0.5), (9.0, 0.1)] {
            assert_eq!(fit(&[&set("a", dup, wrong)]), TABLE);
        }
    }

    #[test]
    fn what_no_weight_decides_stays() {
        let fixed = [(0, Verdict::Fixed(false)), (0, Verdict::Fixed(true)), (1, Verdict::Fixed(false))];
        let decisions = PairDecisions::counted("a", &["dup", "template"], &fixed);
        assert_eq!(fit(&[&decisions]), TABLE);
        assert_eq!(decisions.error(&TABLE).map(|error| error.error()), Some(0.25));
    }

    #[test]
    fn a_set_does_not_influence_its_own_weights() {
        // Three sets that the weights suit, and one that needs half of that of numbers.
        let odd = |dup, wrong| {
            scores("verified", vec![set("a", 0.9, 1.1), set("b", 0.9, 1.1), set("c", 0.9, 1.1), set("odd", dup, wrong)])
        };
        let found = odd(1.9, 3.0);
        assert_eq!(errors(&found, "odd"), [0.5, 0.5, 0.5]);
        for (dup, wrong) in [(1.9, 3.0), (0.1, 0.9), (0.0, 9.0), (9.0, 0.0)] {
            assert_eq!(numbers(&odd(dup, wrong), "odd"), 1.0);
        }
        // The other way round: what the one set asks for, the others would not.
        let found = scores("verified", vec![set("a", 1.9, 3.0), set("b", 1.9, 3.0), set("c", 0.9, 1.1)]);
        assert_eq!((numbers(&found, "c"), numbers(&found, ALL)), (0.5, 0.5));
        assert_eq!(errors(&found, "c"), [0.0, 0.5, 0.5]);
        assert_eq!(errors(&found, "a"), [0.5, 0.5, 0.0]);
        let means = errors(&found, ALL);
        assert!(means.iter().zip([1.0 / 3.0, 0.5, 0.5 / 3.0]).all(|(mean, is)| (mean - is).abs() < 1e-9), "{means:?}");
    }

    #[test]
    fn collections_of_one_set_are_left_out_together() {
        let found = scores("verified", vec![set("a", 1.9, 3.0), set("a", 1.9, 3.0), set("b", 0.9, 1.1)]);
        assert_eq!(found.len(), 3);
        assert_eq!((numbers(&found, "a"), numbers(&found, "b")), (1.0, 0.5));
        assert_eq!(found[0].number(PAIRS), Some(4.0));
        let one = scores("verified", vec![set("a", 1.9, 3.0), set("a", 0.9, 1.1)]);
        assert!(one.is_empty());
        let unjudged = PairDecisions::counted("b", &["dup"], &[(0, Verdict::Fixed(true))]);
        assert!(scores("verified", vec![set("a", 0.9, 1.1), unjudged]).is_empty());
    }

    #[test]
    fn the_table_has_a_line_for_each_set_and_one_for_all() {
        let found = scores("verified", vec![set("a", 1.9, 3.0), set("natural_ar", 0.9, 1.1)]);
        let mut out = Vec::new();
        print_cross_validation(&found, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..8], ["set", "pairs", "weighed", "as", "is", "others", "all", "sets"]);
        assert_eq!(lines[0][8..], ["own_matter", "replaced", "numbers", "facts", "titles"]);
        assert_eq!(lines[1][..6], ["a", "2", "2", "0.5000", "0.5000", "0.5000"]);
        assert_eq!(lines[2][..6], ["natural_ar", "2", "2", "0.0000", "0.5000", "0.0000"]);
        assert_eq!(lines[2][6..], ["1.0000", "1.0000", "0.5000", "1.0000", "1.0000"]);
        assert_eq!(lines[3][..3], ["all", "4", "4"]);
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        assert_eq!(text.lines().skip(1).map(str::len).collect::<BTreeSet<_>>().len(), 1, "{text}");
        let mut out = Vec::new();
        print_cross_validation(&[], &mut out).unwrap();
        assert!(out.is_empty());
    }
}
