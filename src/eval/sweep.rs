//! The settings that `--sweep` tries one after the other.

use anyhow::{Context, bail};

use crate::config::{Clock, Route, RouteOptions};

/// What `--sweep` of an option tries where no values are given.
const USUAL: [(&str, &str); 3] = [
    ("k", "0..8"),
    ("method", "verified,longest,full,sentences:3"),
    ("similarity", "0.3..0.6"),
];
/// Steps of a range, at most.
const MOST: u64 = 100;

/// One option and the values to try.
#[derive(Debug, PartialEq, Eq)]
pub struct Sweep {
    pub option: String,
    pub values: Vec<String>,
}

impl Sweep {
    /// Reads `OPTION=VALUE,VALUE,…`; numbers also as `FIRST..LAST` or `FIRST..LAST/STEP`, the first tried and the last
    /// too, where the steps meet it. A step is 1 for k and 0.05 for similarity.
    ///
    /// # Errors
    /// When the option cannot be swept or has no values.
    pub fn parse(text: &str) -> anyhow::Result<Sweep> {
        let usual = || USUAL.iter().find(|(option, _)| *option == text);
        let (option, values) = match text.split_once('=') {
            Some(parts) => parts,
            None => *usual().context(
                "sweep: give values to try, such as k=0..8, similarity=0.3..0.6/0.05, method=verified,longest or \
                 window=1d,7d",
            )?,
        };
        let step = match option {
            "k" => Some("1"),
            "similarity" => Some("0.05"),
            "method" | "window" => None,
            _ => bail!("sweep: '{option}' is none of k, method, similarity, window"),
        };
        let values: Vec<String> = match (values.split_once(".."), step) {
            (Some((first, rest)), Some(step)) => {
                let (last, step) = rest.split_once('/').unwrap_or((rest, step));
                range(first, last, step)?
            }
            _ => values.split(',').map(|value| value.trim().into()).collect(),
        };
        if values.iter().any(String::is_empty) {
            bail!("sweep: a value is empty");
        }
        Ok(Sweep {
            option: option.into(),
            values,
        })
    }

    /// The route with one of the values.
    ///
    /// # Errors
    /// When the value is none of that option, or does not go with the others.
    pub fn apply(&self, value: &str, options: &RouteOptions) -> anyhow::Result<Route> {
        let route = options.clone().with(&self.option, value);
        let route = route.context("sweep")?.check("sweep")?;
        // Told by the option: what a field of dates says is of no use to a clock that stands still.
        if self.option == "window" && !matches!(route.clock, Clock::Field(_)) {
            bail!("sweep: without a clock nothing expires: give --clock field:NAME");
        }
        Ok(route)
    }
}

/// The numbers from `first` to `last`, all with the decimals of the finest of the three: counted in whole steps, so that
/// 0.3 + 0.05 is 0.35.
fn range(first: &str, last: &str, step: &str) -> anyhow::Result<Vec<String>> {
    let places = |text: &str| text.split_once('.').map_or(0, |(_, after)| after.len());
    let decimals = places(first).max(places(last)).max(places(step));
    let number = |text: &str| -> anyhow::Result<u64> {
        let (whole, after) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{after:0<decimals$}");
        let written = !whole.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| written);
        number.with_context(|| format!("sweep: '{text}' is no number such as 3 or 0.35"))
    };
    let (from, to, by) = (number(first)?, number(last)?, number(step)?);
    if by == 0 || to < from || (to - from) / by > MOST {
        bail!("sweep: {first}..{last} is no way up of at most {MOST} steps of {step}");
    }
    let unit = u32::try_from(decimals)
        .ok()
        .and_then(|decimals| 10u64.checked_pow(decimals));
    let unit = unit.with_context(|| format!("sweep: '{step}' has too many decimals"))?;
    let written = |value: u64| match decimals {
        0 => value.to_string(),
        _ => format!("{}.{:0decimals$}", value / unit, value % unit),
    };
    Ok((0..=(to - from) / by)
        .map(|n| written(from + n * by))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Distance;
    use crate::method::Similarity;
    use crate::time::Millis;

    fn values(text: &str) -> Vec<String> {
        Sweep::parse(text).unwrap().values
    }

    fn apply(text: &str, clock: &str) -> anyhow::Result<Route> {
        let options = RouteOptions::default().everything().or_clock(clock);
        let sweep = Sweep::parse(text)?;
        sweep.apply(&sweep.values[0], &options)
    }

    #[test]
    fn values_are_a_list_or_a_range() {
        assert_eq!(values("k=0..3"), ["0", "1", "2", "3"]);
        assert_eq!(values("k=0..16/8"), ["0", "8", "16"]);
        assert_eq!(values("k=3"), ["3"]);
        assert_eq!(values("similarity=0..1/0.01").len(), 101);
        assert_eq!(
            values("similarity=0.3..0.45"),
            ["0.30", "0.35", "0.40", "0.45"]
        );
        assert_eq!(values("similarity=0.9..1/0.05"), ["0.90", "0.95", "1.00"]);
        assert_eq!(
            values("similarity=0.40..0.45/0.02"),
            ["0.40", "0.42", "0.44"]
        );
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
        assert_eq!(
            apply("similarity=0.5", "none").unwrap().similarity,
            Similarity::new(0.5).unwrap()
        );
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
            let options = RouteOptions::default().everything().or_clock("none");
            let options = options.with("similarity", "0.5").unwrap();
            let sweep = Sweep::parse("method").unwrap();
            sweep.apply(method, &options).unwrap()
        });
        assert_eq!(
            (full.k, full.similarity),
            (Distance(3), Similarity::default())
        );
        assert_eq!(verified.k, Distance(0));
        assert_eq!(verified.similarity, Similarity::new(0.5).unwrap());
    }
}
