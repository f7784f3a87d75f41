//! `SPINNEY_*` variables of the environment: those that are no option, and values of theirs that clap blames on a flag.

use std::ffi::OsStr;

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// The prefix of all our variables.
const PREFIX: &str = "SPINNEY_";

/// Prefixes of the variables that Kubernetes sets for a service named spinney.
const KUBERNETES: [&str; 3] = ["SPINNEY_SERVICE_HOST", "SPINNEY_SERVICE_PORT", "SPINNEY_PORT"];

/// The least likeness, 0 to 1, at which a name is taken for another one with typing errors.
const LIKELY: f64 = 0.85;

/// The variables that options read, of a command and all below it.
fn variables(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(|argument| Some(argument.get_env()?.to_str()?.to_owned()));
    own.chain(command.get_subcommands().flat_map(variables)).collect()
}

/// A misspelt variable of the environment, and the one that is probably meant.
pub(super) fn misspelt(command: &Command, given: impl Iterator<Item = String>) -> Option<(String, String)> {
    let known = variables(command);
    let is_of_kubernetes = |name: &str| KUBERNETES.iter().any(|begin| name.starts_with(begin));
    let mut given = given.filter(|name| name.starts_with(PREFIX) && !known.contains(name) && !is_of_kubernetes(name));
    given.find_map(|name| {
        let likeness = |other: &String| strsim::normalized_damerau_levenshtein(&name, other);
        let meant = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
        (likeness(meant) >= LIKELY).then(|| (name.clone(), meant.clone()))
    })
}

/// The variable whose value clap refuses as that of its flag: the flag is not among the arguments.
pub(super) fn blamed<'a>(
    command: &Command,
    error: &clap::Error,
    mut arguments: impl Iterator<Item = &'a OsStr>,
    is_set: impl Fn(&str) -> bool,
) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = argument.split([' ', '=']).next()?;
    let is_given = arguments.any(|given| {
        let given = given.to_string_lossy();
        given == flag || given.strip_prefix(flag).is_some_and(|value| value.starts_with('='))
    });
    let long = flag.strip_prefix("--")?;
    let variable = std::iter::once(command).chain(command.get_subcommands()).find_map(|command| {
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(long))?;
        argument.get_env()?.to_str().map(str::to_owned)
    });
    variable.filter(|variable| !is_given && is_set(variable))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::super::Cli;
    use super::*;

    #[test]
    fn a_misspelt_variable_is_told() {
        let found = |names: &[&str]| misspelt(&Cli::command(), names.iter().map(|name| (*name).to_owned()));
        for (given, meant) in [
            ("SPINNEY_UPSTREEM", "SPINNEY_UPSTREAM"),
            ("SPINNEY_WINDOWS", "SPINNEY_WINDOW"),
            ("SPINNEY_DATADIR", "SPINNEY_DATA_DIR"),
            ("SPINNEY_TEXT_FEILD", "SPINNEY_TEXT_FIELD"),
        ] {
            assert_eq!(found(&["HOME", "SPINNEY_LISTEN", given]), Some((given.to_owned(), meant.to_owned())));
        }
        // Of Kubernetes, and for our scripts.
        let others = [
            "SPINNEY_SERVICE_HOST",
            "SPINNEY_SERVICE_PORT",
            "SPINNEY_SERVICE_PORT_HTTP",
            "SPINNEY_PORT",
            "SPINNEY_PORT_9201_TCP",
            "SPINNEY_PORT_9201_TCP_ADDR",
            "SPINNEY_PORT_9201_TCP_PORT",
            "SPINNEY_PORT_9201_TCP_PROTO",
            "SPINNEY_TEST_OPENSEARCH",
            "SPINNEY_TEST_PASSED",
            "SPINNEY_BENCH_NGINX",
            "SPINNEY_SIMULATE_SEEDS",
            "SPINNEY_SIMULATE_THREADS",
            "SPINNEY_SIMULATE_FAULT",
        ];
        assert_eq!(found(&others), None);
        let all = variables(&Cli::command());
        assert!(all.len() > 40, "{all:?}");
        assert_eq!(misspelt(&Cli::command(), all.into_iter()), None);
    }

    #[test]
    fn a_value_of_the_environment_is_blamed_on_its_variable() {
        let of = |arguments: &[&'static str], set: &str| {
            let error = Cli::try_parse_from(["spinney", "serve", "--window", "never ever"]).err().unwrap();
            let arguments = arguments.iter().map(OsStr::new);
            blamed(&Cli::command(), &error, arguments, |name| name == set)
        };
        assert_eq!(of(&["serve"], "SPINNEY_WINDOW").as_deref(), Some("SPINNEY_WINDOW"));
        assert_eq!(of(&["serve"], "SPINNEY_LISTEN"), None);
        assert_eq!(of(&["serve", "--window", "x"], "SPINNEY_WINDOW"), None);
        assert_eq!(of(&["serve", "--window=x"], "SPINNEY_WINDOW"), None);
    }
}
