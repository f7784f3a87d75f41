//! Diagnoses obstacles of `spinney serve`, before its start or beside a running one. Nothing is changed: a right is
//! tested by a request that can do nothing, such as an update of a document that is not there.

mod cluster;
mod next_index;
mod store;

use std::fmt;

use crate::config::ServeOptions;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// As it should be.
    Good,
    /// Something will not work as it could.
    Warning,
    /// spinney does not start, or documents get no stamps.
    Error,
}

/// A finding: the subject, its state, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// The subject.
    of: String,
    /// How it is.
    state: String,
    /// The remedy; empty if none is needed.
    remedy: String,
}

impl Finding {
    fn good(of: impl Into<String>, state: impl Into<String>) -> Finding {
        Finding { severity: Severity::Good, of: of.into(), state: state.into(), remedy: String::new() }
    }

    fn warning(of: impl Into<String>, state: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, of: of.into(), state: state.into(), remedy: remedy.into() }
    }

    fn error(of: impl Into<String>, state: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { severity: Severity::Error, ..Finding::warning(of, state, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.severity {
            Severity::Good => "ok   ",
            Severity::Warning => "warn ",
            Severity::Error => "ERROR",
        };
        write!(f, "{mark} {}: {}", self.of, self.state)?;
        match self.remedy.as_str() {
            "" => Ok(()),
            remedy => write!(f, "\n      -> {remedy}"),
        }
    }
}

/// Examines everything that spinney needs with these options; `tell` gets each finding at once.
pub(crate) async fn examine(options: &ServeOptions, mut tell: impl FnMut(&Finding)) -> Severity {
    let mut worst = Severity::Good;
    let mut take = |findings: Vec<Finding>| {
        for finding in findings {
            tell(&finding);
            worst = worst.max(finding.severity);
        }
    };
    take(store::directory(options));
    take(store::redis(options).await);
    take(cluster::examine(options).await);
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_what_to_do() {
        assert_eq!(Finding::good("cluster", "green").to_string(), "ok    cluster: green");
        assert_eq!(Finding::error("cluster", "red", "mend it").to_string(), "ERROR cluster: red\n      -> mend it");
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Good);
    }
}
