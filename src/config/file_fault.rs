//! Errors of a configuration file.

use serde::de::DeserializeOwned;

use super::{RawRoute, RawServeOptions};

/// An error of a configuration file, with its place. It repeats option names only: any value may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("TOML parse error at line {line}, column {column}: {reason}")]
pub struct FileFault {
    /// From 1.
    line: usize,
    /// From 1, in characters.
    column: usize,
    reason: String,
}

/// Prefixes of messages that repeat a value; the expectation follows.
const WITH_VALUE: [&str; 4] = ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant "];

impl FileFault {
    /// Of the text of a file, and the error that reading it gave.
    pub(super) fn of(text: &str, error: &toml::de::Error) -> FileFault {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or(text);
        let last_line = before.rsplit('\n').next().unwrap_or(before);
        let message = error.message();
        let has_value = WITH_VALUE.iter().any(|begin| message.starts_with(begin));
        let is_route = text.get(start..).is_some_and(|rest| rest.starts_with("[route]"));
        let reason = match (has_value, message.rsplit_once(", expected ")) {
            (true, Some((_, "a sequence"))) if is_route => "write [[route]]: there may be several".to_owned(),
            (true, Some((_, "a sequence"))) => "expected a list, such as [\"…\"]".to_owned(),
            (true, Some((_, expected))) => format!("expected {expected}"),
            (true, None) => "the value is none of this option".to_owned(),
            (false, _) => unknown(message).unwrap_or_else(|| message.to_owned()),
        };
        FileFault { line: before.matches('\n').count() + 1, column: last_line.chars().count() + 1, reason }
    }
}

/// The message about an unknown option, with the nearest option instead of all of them.
fn unknown(message: &str) -> Option<String> {
    let (given, here) = unknown_of(message)?;
    if let Some(meant) = like(given, &here) {
        return Some(format!("there is no option `{given}`: is `{meant}` meant?"));
    }
    // It may stand in the wrong part of the file.
    let of_route = options::<RawRoute>();
    let (place, elsewhere) = match here == of_route {
        true => ("above the first [[route]]", options::<RawServeOptions>()),
        false => ("below [[route]]", of_route),
    };
    Some(match like(given, &elsewhere) {
        Some(meant) => format!("there is no option `{given}` here: is `{meant}` {place} meant?"),
        None => format!("there is no option `{given}`: docs/options.md lists them, and spinney serve --help"),
    })
}

/// The unknown name, and the known ones.
fn unknown_of(message: &str) -> Option<(&str, Vec<String>)> {
    let (given, known) = message.strip_prefix("unknown field `")?.split_once('`')?;
    Some((given, known.split('`').skip(1).step_by(2).map(str::to_owned).collect()))
}

/// The names of all options of a part of the file, as the error about one that does not exist has them.
fn options<T: DeserializeOwned>() -> Vec<String> {
    let nameless = toml::Table::from_iter([(String::new(), true.into())]);
    let error = nameless.try_into::<T>().err();
    error.and_then(|error| Some(unknown_of(error.message())?.1)).unwrap_or_default()
}

/// The name that is most like one with typing errors.
fn like<'n>(given: &str, names: &'n [String]) -> Option<&'n String> {
    /// The least likeness, 0 to 1.
    const LIKELY: f64 = 0.7;
    let given = given.replace('-', "_");
    let likeness = |name: &String| strsim::normalized_damerau_levenshtein(&given, name);
    let meant = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    meant.filter(|name| likeness(name) >= LIKELY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(text: &str) -> Option<String> {
        let error = toml::from_str::<RawServeOptions>(text).err()?;
        Some(FileFault::of(text, &error).to_string())
    }

    #[test]
    fn a_fault_says_where_and_what() {
        for (text, expected) in [
            (
                "listen = '127.0.0.1:0'\nservice-url = 'http://svc:Pa55@es'",
                "2, column 1: there is no option `service-url`: is `service_url` meant?",
            ),
            ("upstreem = ['http://svc:Pa55@es']", "1, column 1: there is no option `upstreem`: is `upstream` meant?"),
            ("[[route]]\nindxe = ['a']", "2, column 1: there is no option `indxe`: is `index` meant?"),
            (
                "colour = 'red'",
                "1, column 1: there is no option `colour`: docs/options.md lists them, and spinney serve --help",
            ),
            ("window = '3d'", "1, column 1: there is no option `window` here: is `window` below [[route]] meant?"),
            (
                "text-fields = ['a']",
                "1, column 1: there is no option `text-fields` here: is `text_field` below [[route]] meant?",
            ),
            (
                "[[route]]\nindex = ['a']\nservice-ur = 'http://:Pa55@es'",
                "3, column 1: there is no option `service-ur` here: is `service_url` above the first [[route]] meant?",
            ),
            ("upstream = 'http://svc:Pa55@es'", "1, column 12: expected a list, such as [\"…\"]"),
            ("threads = 2\n[route]\nindex = ['a']", "2, column 1: write [[route]]: there may be several"),
        ] {
            assert_eq!(fault(text).unwrap(), format!("TOML parse error at line {expected}"));
        }
    }

    proptest! {
        /// No value is shown, wherever a character is mistyped.
        #[test]
        fn no_value_is_repeated(
            option in prop::sample::select(vec![
                "upstream", "service_url", "service-url", "forest_store", "grace", "threads",
            ]),
            quote in prop::sample::select(vec!["'", "\"", "'''"]),
            typed in prop::option::of("[-a-z0-9'\"#=,.\n\\[\\]{}\\\\]"), removes: bool, at: prop::sample::Index,
        ) {
            let mut text = format!("{option} = {quote}http://svc:Pa55wArd@es{quote}\n");
            let at = at.index(text.len());
            text.replace_range(at..at + usize::from(removes), &typed.unwrap_or_default());
            if let Some(fault) = fault(&text) {
                prop_assert!(!fault.contains("Pa55") && !fault.contains("wArd"), "{}\n{}", text, fault);
            }
        }
    }
}
