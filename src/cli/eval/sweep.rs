//! The settings that `--sweep` tries one after the other.

use anyhow::{Context, bail};

use super::documents::has_clock;
use crate::config::{Route, span};
use crate::fingerprint::Distance;

/// Methods that `--sweep method` compares.
const METHODS: &str = "verified,longest,full,sentences:3";

/// One option and the values to try.
#[derive(Debug, PartialEq, Eq)]
pub struct Sweep {
    pub option: String,
    pub values: Vec<String>,
}

impl Sweep {
    /// Reads `OPTION=VALUE,VALUE,…`; whole numbers also as `FIRST..LAST`, both tried too.
    ///
    /// # Errors
    /// When the option cannot be swept or has no values.
    pub fn parse(text: &str) -> anyhow::Result<Sweep> {
        let (option, values) = match text.split_once('=') {
            Some(parts) => parts,
            None if text == "method" => (text, METHODS),
            None if text == "k" => (text, "0..8"),
            None => bail!(
                "sweep: give values to try, such as k=0..8, method=verified,longest or window=1d,7d"
            ),
        };
        if !matches!(option, "k" | "method" | "window") {
            bail!("sweep: '{option}' is none of k, method, window");
        }
        let values: Vec<String> = match values.split_once("..") {
            Some((first, last)) => {
                let number = |text: &str| -> anyhow::Result<u32> {
                    text.parse()
                        .with_context(|| format!("sweep: '{text}' is no whole number"))
                };
                let (first, last) = (number(first)?, number(last)?);
                if last < first || last - first >= 100 {
                    bail!("sweep: {first}..{last} are not from 1 to 100 values");
                }
                (first..=last).map(|value| value.to_string()).collect()
            }
            None => values.split(',').map(|value| value.trim().into()).collect(),
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
    /// When the value is none of that option.
    pub fn apply(&self, value: &str, route: &Route) -> anyhow::Result<Route> {
        let mut route = route.clone();
        match self.option.as_str() {
            "k" => {
                let bits = value
                    .parse()
                    .with_context(|| format!("sweep: '{value}' is no number of bits"))?;
                route.k = Distance(bits);
            }
            "method" => route.method = value.parse().context("sweep")?,
            _ if !has_clock(&route) => {
                bail!("sweep: without a clock nothing expires: give --clock field:NAME")
            }
            _ if value == "none" => route.window = None,
            _ => {
                let window = span(value).map_err(|reason| anyhow::anyhow!("sweep: {reason}"))?;
                route.window = Some(window);
            }
        }
        Ok(route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RouteOptions;
    use crate::forest::Millis;

    fn values(text: &str) -> Vec<String> {
        Sweep::parse(text).unwrap().values
    }

    fn route(clock: &str) -> Route {
        let options = RouteOptions::default().everything().or_clock(clock);
        options.check("test").unwrap()
    }

    #[test]
    fn values_are_a_list_or_a_range() {
        assert_eq!(values("k=0..3"), ["0", "1", "2", "3"]);
        assert_eq!(values("k=3"), ["3"]);
        assert_eq!(values("method=full, longest"), ["full", "longest"]);
        assert_eq!(values("method").len(), 4);
        for wrong in [
            "",
            "k=",
            "k=5..1",
            "k=0..x",
            "k=1,,2",
            "prefix=a,b",
            "window",
        ] {
            assert!(Sweep::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_changes_the_route() {
        let apply = |text: &str, clock: &str| {
            let sweep = Sweep::parse(text).unwrap();
            sweep.apply(&sweep.values[0], &route(clock))
        };
        assert_eq!(apply("k=5", "none").unwrap().k, Distance(5));
        assert_eq!(
            apply("method=full", "none").unwrap().method.to_string(),
            "full"
        );
        let window = apply("window=1d", "field:at").unwrap().window;
        assert_eq!(window, Some(Millis(86_400_000)));
        assert_eq!(apply("window=none", "field:at").unwrap().window, None);
        for (text, clock) in [
            ("k=x", "none"),
            ("method=magic", "none"),
            ("window=1d", "none"),
            ("window=soon", "field:at"),
        ] {
            assert!(apply(text, clock).is_err(), "{text}");
        }
    }
}
