//! Limits of the figures, and which of them are missed.

use serde::Deserialize;

use super::collections::set_of;
use super::{ALL, SetScore};

/// The limits of this repository.
const OURS: &str = include_str!("../../limits.toml");
/// A figure at its limit is within it, whatever the last bit of it says.
const ROUNDING: f64 = 1e-9;

/// What a file of limits says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The method that is judged.
    pub method: String,
    /// The sets whose mean is the error.
    pub sets: Vec<String>,
    limits: Vec<Limit>,
}

/// A bound of one figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// A set, or `all`.
    pub set: String,
    /// The label whose share put together is bounded.
    label: Option<String>,
    /// Any other figure, by its name.
    figure: Option<String>,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

/// What is wrong with a file of limits.
#[derive(Debug, thiserror::Error)]
pub enum LimitsError {
    /// It is not TOML of this form.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A limit bounds nothing, or two things.
    #[error("limit {0}: give a label or a figure, and at_least or at_most")]
    Limit(usize),
    /// A limit of a set that is not among the sets.
    #[error("limit {number}: '{set}' is none of the sets, and not 'all'")]
    Set {
        /// Its number, counted from 1.
        number: usize,
        /// The set.
        set: String,
    },
}

/// What became of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The figure is within it.
    Held(f64),
    /// The figure is beyond it.
    Missed(f64),
    /// There is no such figure: the set or the label was not scored.
    NotJudged,
}

/// A limit, the collection it was judged on, and the outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The limit.
    pub limit: Limit,
    /// The collection; the set where there is none.
    pub collection: String,
    /// What became of it.
    pub outcome: Outcome,
}

impl Limit {
    /// The name of the figure that is bounded.
    pub fn figure(&self) -> String {
        match (&self.label, &self.figure) {
            (Some(label), _) => label_figure(label),
            (None, figure) => figure.clone().unwrap_or_default(),
        }
    }

    /// `at least 0.93`
    pub fn bound(&self) -> String {
        match (self.at_least, self.at_most) {
            (Some(least), _) => format!("at least {least}"),
            (None, most) => format!("at most {}", most.unwrap_or_default()),
        }
    }

    fn is_held_by(&self, figure: f64) -> bool {
        self.at_least.is_none_or(|least| figure >= least - ROUNDING)
            && self.at_most.is_none_or(|most| figure <= most + ROUNDING)
    }
}

/// The figure that is the share of a label put together.
pub(super) fn label_figure(label: &str) -> String {
    format!("label {label}")
}

impl Limits {
    /// The limits of this repository: `eval/limits.toml`.
    ///
    /// # Errors
    /// As [`parse`](Limits::parse).
    pub fn ours() -> Result<Limits, LimitsError> {
        Limits::parse(OURS)
    }

    /// Reads limits.
    ///
    /// # Errors
    /// When the text is no TOML of this form, or a limit bounds nothing.
    pub fn parse(text: &str) -> Result<Limits, LimitsError> {
        let limits: Limits = toml::from_str(text)?;
        for (number, limit) in (1..).zip(&limits.limits) {
            let one_figure = limit.label.is_some() != limit.figure.is_some();
            if !one_figure || limit.at_least.is_some() == limit.at_most.is_some() {
                return Err(LimitsError::Limit(number));
            }
            if limit.set != ALL && !limits.sets.contains(&limit.set) {
                return Err(LimitsError::Set { number, set: limit.set.clone() });
            }
        }
        Ok(limits)
    }

    /// The set that a collection belongs to.
    pub fn set_of(&self, collection: &str) -> Option<&str> {
        set_of(collection, self.sets.iter().map(String::as_str))
    }

    /// Judges the scores of the method that is judged. A limit of several collections of one set is judged on each.
    pub fn judge(&self, scores: &[SetScore]) -> Vec<Judgement> {
        let mut judgements = Vec::new();
        for limit in &self.limits {
            let of_limit = scores
                .iter()
                .filter(|score| score.method == self.method && score.set.as_deref() == Some(limit.set.as_str()));
            let before = judgements.len();
            for score in of_limit {
                let outcome = match score.number(&limit.figure()) {
                    Some(figure) if limit.is_held_by(figure) => Outcome::Held(figure),
                    Some(figure) => Outcome::Missed(figure),
                    None => Outcome::NotJudged,
                };
                judgements.push(Judgement { limit: limit.clone(), collection: score.collection.clone(), outcome });
            }
            if judgements.len() == before {
                let collection = limit.set.clone();
                judgements.push(Judgement { limit: limit.clone(), collection, outcome: Outcome::NotJudged });
            }
        }
        judgements
    }
}

#[cfg(test)]
mod tests {
    use super::super::FigureValue;
    use super::*;

    fn scores(figures: &[(&str, f64)]) -> Vec<SetScore> {
        let figures = figures.iter().map(|&(name, value)| (name.to_owned(), FigureValue::Number(value)));
        vec![SetScore {
            set: Some("press".into()),
            figures: figures.collect(),
            ..SetScore::new("press_tune", "verified")
        }]
    }

    fn outcomes(limits: &str, scores: &[SetScore]) -> Vec<Outcome> {
        let limits = format!("method = \"verified\"\nsets = [\"press\", \"court\"]\nlimits = [{limits}]");
        let judgements = Limits::parse(&limits).unwrap().judge(scores);
        judgements.into_iter().map(|judgement| judgement.outcome).collect()
    }

    #[test]
    fn a_figure_at_its_limit_is_within_it_and_one_beyond_is_not() {
        let least = "{ set = \"press\", label = \"dup\", at_least = 0.93 }";
        let most = "{ set = \"press\", figure = \"joins without the lead\", at_most = 0.05 }";
        for pairs in [100u32, 200, 700] {
            let share = |wrong: u32| f64::from(pairs - wrong) / f64::from(pairs);
            let at = pairs * 7 / 100;
            let dup = |wrong| outcomes(least, &scores(&[("label dup", share(wrong))]));
            assert_eq!(dup(at), [Outcome::Held(share(at))]);
            assert_eq!(dup(at + 1), [Outcome::Missed(share(at + 1))]);
            let at = pairs / 20;
            let lead = |wrong: u32| f64::from(wrong) / f64::from(pairs);
            let of = |wrong| outcomes(most, &scores(&[("joins without the lead", lead(wrong))]));
            assert_eq!(of(at), [Outcome::Held(lead(at))]);
            assert_eq!(of(at + 1), [Outcome::Missed(lead(at + 1))]);
        }
    }

    #[test]
    fn what_was_not_scored_is_not_judged() {
        let scores = scores(&[("label dup", 0.0)]);
        for (limit, expected) in [
            ("{ set = \"press\", label = \"event\", at_most = 0.1 }", Outcome::NotJudged),
            ("{ set = \"court\", label = \"dup\", at_least = 1.0 }", Outcome::NotJudged),
            ("{ set = \"all\", figure = \"error\", at_most = 0.07 }", Outcome::NotJudged),
            ("{ set = \"press\", label = \"dup\", at_least = 1.0 }", Outcome::Missed(0.0)),
        ] {
            assert_eq!(outcomes(limit, &scores), [expected], "{limit}");
        }
        let other_method = [SetScore { method: "longest".into(), ..scores.into_iter().next().unwrap() }];
        assert_eq!(
            outcomes("{ set = \"press\", label = \"dup\", at_least = 1.0 }", &other_method),
            [Outcome::NotJudged]
        );
    }

    #[test]
    fn both_halves_of_a_set_are_judged() {
        let mut both = scores(&[("label dup", 1.0)]);
        both.push(SetScore { collection: "press_kept".into(), ..scores(&[("label dup", 0.5)]).remove(0) });
        let found = outcomes("{ set = \"press\", label = \"dup\", at_least = 0.9 }", &both);
        assert_eq!(found, [Outcome::Held(1.0), Outcome::Missed(0.5)]);
    }

    #[test]
    fn a_limit_without_a_bound_is_named() {
        let with = |limit: &str| {
            let text = format!("method = \"verified\"\nsets = [\"press\"]\nlimits = [{limit}]");
            Limits::parse(&text).map(|_| ()).unwrap_err().to_string()
        };
        for limit in [
            "{ set = \"press\", label = \"dup\" }",
            "{ set = \"press\", at_most = 1 }",
            "{ set = \"press\", label = \"dup\", figure = \"error\", at_most = 1 }",
            "{ set = \"press\", label = \"dup\", at_least = 0, at_most = 1 }",
        ] {
            assert_eq!(with(limit), "limit 1: give a label or a figure, and at_least or at_most", "{limit}");
        }
        let unknown = with("{ set = \"weibo\", label = \"dup\", at_most = 1 }");
        assert_eq!(unknown, "limit 1: 'weibo' is none of the sets, and not 'all'");
        assert!(with("{ set = \"press\", lable = \"dup\", at_most = 1 }").contains("lable"));
    }

    #[test]
    fn our_own_limits_can_be_read() {
        let limits = Limits::ours().unwrap();
        assert_eq!(limits.sets.len(), 10);
        assert_eq!(limits.set_of("natural_ar_kept"), Some("natural_ar"));
        let bounds: Vec<String> = limits.limits.iter().map(Limit::bound).collect();
        assert!(bounds.contains(&"at least 0.93".to_owned()) && bounds.contains(&"at most 0.07".to_owned()));
    }
}
