//! The settings that `--sweep` tries one after the other.

use spinney::config::{Clock, ConfigError, RawRoute, Route};

/// What `--sweep` of an option tries where no values are given.
const USUAL: [(&str, &str); 3] =
    [("k", "0..8"), ("method", "verified,longest,full,sentences:3"), ("similarity", "0.3..0.6")];
/// Steps of a range, at most.
const MAX_STEPS: u64 = 100;

/// One option and the values to try.
#[derive(Debug, PartialEq, Eq)]
pub struct Sweep {
    option: String,
    values: Vec<String>,
}

/// What is wrong with a sweep, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// An option without usual values.
    #[error(
        "sweep: give values to try, such as k=0..8, similarity=0.3..0.6/0.05, method=verified,longest or window=1d,7d"
    )]
    NoValues,
    /// An option that cannot be swept.
    #[error("sweep: '{0}' is not one of k, method, similarity, window")]
    Option(String),
    /// There is nothing between two commas.
    #[error("sweep: a value is empty")]
    Empty,
    /// An end or the step of a range.
    #[error("sweep: '{0}' is not a number such as 3 or 0.35")]
    Number(String),
    /// A range that goes down, nowhere, or on for too long.
    #[error("sweep: {first}..{last} must go up, in at most {MAX_STEPS} steps of {step}: give FIRST..LAST/STEP")]
    Range {
        /// Where it begins.
        first: String,
        /// Where it ends.
        last: String,
        /// The size of a step.
        step: String,
    },
    /// A number with more decimals than can be counted in.
    #[error("sweep: {first}..{last}/{step} has too many decimals")]
    Decimals {
        /// Where the range begins.
        first: String,
        /// Where it ends.
        last: String,
        /// The size of a step.
        step: String,
    },
    /// A value does not fit its option, or the other options.
    #[error("sweep: {option}={value}")]
    Value {
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        source: ConfigError,
    },
    /// The clock stands still.
    #[error("sweep: without a clock nothing expires: give --clock field:NAME")]
    NoClock,
}

impl Sweep {
    /// Reads `OPTION=VALUE,VALUE,…`; numbers also as `FIRST..LAST` or `FIRST..LAST/STEP`, the first tried and the last
    /// too, where the steps reach it. A step is 1 for k and 0.05 for similarity. An option alone stands for its usual
    /// values.
    ///
    /// # Errors
    /// When the option cannot be swept or its values cannot be read.
    pub fn parse(text: &str) -> Result<Sweep, SweepError> {
        let (option, values) = match text.split_once('=') {
            Some(parts) => parts,
            None => *USUAL.iter().find(|(option, _)| *option == text).ok_or(SweepError::NoValues)?,
        };
        let step = match option {
            "k" => Some("1"),
            "similarity" => Some("0.05"),
            "method" | "window" => None,
            _ => return Err(SweepError::Option(option.into())),
        };
        let values: Vec<String> = match (values.split_once(".."), step) {
            (Some((first, rest)), Some(step)) => {
                let (last, step) = rest.split_once('/').unwrap_or((rest, step));
                range(first, last, step)?
            }
            _ => values.split(',').map(|value| value.trim().into()).collect(),
        };
        if values.iter().any(String::is_empty) {
            return Err(SweepError::Empty);
        }
        Ok(Sweep { option: option.into(), values })
    }

    /// The name of the option.
    pub fn option(&self) -> &str {
        &self.option
    }

    /// The values in the order in which they are tried; at least one.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// The route with one of the values; `name` says in errors which route is meant.
    ///
    /// # Errors
    /// When the value does not fit its option, or the other options.
    pub fn apply(&self, value: &str, options: &RawRoute, name: &str) -> Result<Route, SweepError> {
        let route = options.clone().with(&self.option, value);
        let route = route.and_then(|route| route.validate(name));
        let route =
            route.map_err(|source| SweepError::Value { option: self.option.clone(), value: value.into(), source })?;
        // Without a date of their own all documents arrive at once: no window is better than another.
        if self.option == "window" && !matches!(route.clock, Clock::Field(_)) {
            return Err(SweepError::NoClock);
        }
        Ok(route)
    }
}

/// The numbers from `first` to `last`, all with the decimals of the finest of the three: counted in whole steps, so
/// that 0.3 + 0.05 is 0.35.
fn range(first: &str, last: &str, step: &str) -> Result<Vec<String>, SweepError> {
    let places = |text: &str| text.split_once('.').map_or(0, |(_, after)| after.len());
    let decimals = places(first).max(places(last)).max(places(step));
    let number = |text: &str| -> Result<u64, SweepError> {
        let (whole, after) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{after:0<decimals$}");
        let written = !whole.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| written);
        number.ok_or_else(|| SweepError::Number(text.into()))
    };
    let (from, to, by) = (number(first)?, number(last)?, number(step)?);
    let owned = || (first.to_owned(), last.to_owned(), step.to_owned());
    if by == 0 || to < from || (to - from) / by > MAX_STEPS {
        let (first, last, step) = owned();
        return Err(SweepError::Range { first, last, step });
    }
    let unit = u32::try_from(decimals).ok().and_then(|decimals| 10u64.checked_pow(decimals));
    let unit = unit.ok_or_else(|| {
        let (first, last, step) = owned();
        SweepError::Decimals { first, last, step }
    })?;
    let written = |value: u64| match decimals {
        0 => value.to_string(),
        _ => format!("{}.{:0decimals$}", value / unit, value % unit),
    };
    Ok((0..=(to - from) / by).map(|n| written(from + n * by)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney::fingerprint::Distance;
    use spinney::method::Similarity;
    use spinney::time::Millis;

    fn values(text: &str) -> Vec<String> {
        Sweep::parse(text).unwrap().values
    }

    fn apply(text: &str, clock: &str) -> Result<Route, SweepError> {
        let options = RawRoute::default().any_index().or_clock(clock.parse().unwrap());
        let sweep = Sweep::parse(text)?;
        sweep.apply(&sweep.values[0], &options, "test")
    }

    #[test]
    fn values_are_a_list_or_a_range() {
        assert_eq!(values("k=0..3"), ["0", "1", "2", "3"]);
        assert_eq!(values("k=0..16/8"), ["0", "8", "16"]);
        assert_eq!(values("k=3"), ["3"]);
        assert_eq!(values("similarity=0..1/0.01").len(), 101);
        assert_eq!(values("similarity=0.3..0.45"), ["0.30", "0.35", "0.40", "0.45"]);
        assert_eq!(values("similarity=0.9..1/0.05"), ["0.90", "0.95", "1.00"]);
        assert_eq!(values("similarity=0.40..0.45/0.02"), ["0.40", "0.42", "0.44"]);
        assert_eq!(values("similarity=0.43,0.5"), ["0.43", "0.5"]);
        assert_eq!(values("similarity").len(), 7);
        assert_eq!(values("k").len(), 9);
        assert_eq!(values("method=full, longest"), ["full", "longest"]);
        assert_eq!(values("method").len(), 4);
        for wrong in [
            "",
            "k=",
            "k=5..1",
            "k=0..x",
            "k=0..200",
            "k=..5",
            "k=1,,2",
            "similarity=0.3..0.6/0",
            "similarity=0.3..0.6/0.001",
            "similarity=0.3..-0.6",
            "similarity=0.3..1e9",
            "similarity=0.00000000000000000000000001..1",
            "prefix=a,b",
            "window",
        ] {
            assert!(Sweep::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_changes_the_route() {
        assert_eq!(apply("k=5", "none").unwrap().k, Distance(5));
        assert_eq!(apply("similarity=0.5", "none").unwrap().similarity, Similarity::new(0.5).unwrap());
        let window = apply("window=1d", "field:at").unwrap().window;
        assert_eq!(window, Some(Millis(86_400_000)));
        assert_eq!(apply("window=none", "field:at").unwrap().window, None);
        for (text, clock) in [
            ("k=x", "none"),
            ("k=99", "none"),
            ("similarity=2", "none"),
            ("method=magic", "none"),
            ("window=1d", "none"),
            ("window=soon", "field:at"),
            ("window=1d..7d", "field:at"),
        ] {
            assert!(apply(text, clock).is_err(), "{text}");
        }
    }

    #[test]
    fn methods_are_compared_with_their_own_defaults() {
        let [full, verified] = ["full", "verified"].map(|method| {
            let options = RawRoute::default().any_index().or_clock(Clock::None);
            let options = options.with("similarity", "0.5").unwrap();
            let sweep = Sweep::parse("method").unwrap();
            sweep.apply(method, &options, "test").unwrap()
        });
        assert_eq!((full.k, full.similarity), (Distance(3), Similarity::default()));
        assert_eq!(verified.k, Distance(0));
        assert_eq!(verified.similarity, Similarity::new(0.5).unwrap());
    }
}
