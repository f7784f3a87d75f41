//! Errors of a configuration file.

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

/// Beginnings of messages that repeat a value; what was expected instead follows.
const WITH_VALUE: [&str; 4] = ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant "];

impl FileFault {
    /// Of the text of a file, and the error that reading it gave.
    pub(super) fn of(text: &str, error: &toml::de::Error) -> FileFault {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or(text);
        let last_line = before.rsplit('\n').next().unwrap_or(before);
        let message = error.message();
        let has_value = WITH_VALUE.iter().any(|begin| message.starts_with(begin));
        let reason = match (has_value, message.rsplit_once(", expected ")) {
            (false, _) => message.to_owned(),
            (true, Some((_, expected))) => format!("expected {expected}"),
            (true, None) => "the value is none of this option".to_owned(),
        };
        FileFault { line: before.matches('\n').count() + 1, column: last_line.chars().count() + 1, reason }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::RawServeOptions;

    fn fault(text: &str) -> Option<String> {
        let error = toml::from_str::<RawServeOptions>(text).err()?;
        Some(FileFault::of(text, &error).to_string())
    }

    #[test]
    fn a_fault_says_where_and_what() {
        let unknown = fault("listen = '127.0.0.1:0'\nservice-url = 'http://svc:Pa55@es'").unwrap();
        let begin = "TOML parse error at line 2, column 1: unknown field `service-url`, expected one of";
        assert!(unknown.starts_with(begin), "{unknown}");
        assert_eq!(
            fault("upstream = 'http://svc:Pa55@es'").unwrap(),
            "TOML parse error at line 1, column 12: expected a sequence"
        );
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
