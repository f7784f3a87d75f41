//! Attempts at forests whose indices cannot all be read yet.

use std::collections::HashSet;

use tracing::warn;

use super::RecoveryError;
use crate::cluster::scan::UnreadableIndex;
use crate::engine::RecoverySource;

/// Decides what is read again, and warns once of each index and of each forest.
pub(crate) struct Retries {
    /// The warning of an error that may pass, and of one that does not.
    later: &'static str,
    never: &'static str,
    /// Whether a cluster that is away is worth a warning.
    warns_while_away: bool,
    /// Forest and index; no index: the forest as a whole.
    warned: HashSet<(String, String)>,
}

impl Retries {
    pub(crate) fn new(later: &'static str, never: &'static str, warns_while_away: bool) -> Retries {
        Retries { later, never, warns_while_away, warned: HashSet::new() }
    }

    /// Whether a forest is to be read again, after an attempt that ended so: then its source has only the indices that
    /// could not be read.
    pub(crate) fn is_left(
        &mut self,
        source: &mut RecoverySource,
        outcome: Result<Vec<UnreadableIndex>, RecoveryError>,
    ) -> bool {
        let forest = source.forest.as_str();
        match outcome {
            Ok(unreadable) if unreadable.is_empty() => false,
            Ok(unreadable) => {
                for UnreadableIndex { name, reason } in &unreadable {
                    if self.warned.insert((forest.to_owned(), name.clone())) {
                        let reason = reason.with_advice();
                        warn!(
                            forest,
                            index = name,
                            reason,
                            "an index cannot be read, and is tried again: until then its documents may be unknown. \
                             The others are read"
                        );
                    }
                }
                source.indices = unreadable.into_iter().map(|index| index.name).collect();
                true
            }
            Err(error) if error.may_pass() => {
                let is_told = self.warns_while_away || !error.is_away();
                if is_told && self.warned.insert((forest.to_owned(), String::new())) {
                    warn!(forest, error = %error.with_advice(), "{}", self.later);
                }
                true
            }
            Err(error) => {
                warn!(forest, error = %error.with_advice(), "{}", self.never);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;
    use serde_json::json;

    use super::*;
    use crate::cluster::operator::OperatorError;
    use crate::cluster::scan::ScanError;
    use crate::config::{RawRoute, Route};
    use crate::engine::Engine;
    use crate::hash::HashKey;

    fn refused(status: u16) -> ScanError {
        OperatorError::Refused { status, request: "GET /".into(), answer: String::new() }.into()
    }

    #[test]
    fn what_is_read_again() {
        let raw: RawRoute = serde_json::from_value(json!({"index": ["news-*", "wire"]})).unwrap();
        let route: Route = raw.validate("route").unwrap();
        let engine = Engine::new(&[route], "cluster_", 1, HashKey::FIXED).unwrap();
        let all = block_on(engine.sources()).unwrap().remove(0);
        let mut retries = Retries::new("later", "never", false);
        let unreadable = |name: &str| UnreadableIndex { name: name.into(), reason: refused(403) };
        let (forest, whole) = (all.forest.clone(), ["news-*", "wire"].as_slice());
        for (outcome, is_left, indices, warned) in [
            (Ok(vec![]), false, whole, None),
            (Ok(vec![unreadable("news-1")]), true, &["news-1"], Some("news-1")),
            (Err(RecoveryError::Scan(refused(503))), true, whole, None),
            (Err(RecoveryError::Scan(refused(403))), true, whole, Some("")),
            (Err(RecoveryError::NoRoute), false, whole, None),
        ] {
            let (mut source, before) = (all.clone(), retries.warned.len());
            assert_eq!(retries.is_left(&mut source, outcome), is_left);
            assert_eq!(source.indices, indices);
            assert_eq!(retries.warned.len(), before + usize::from(warned.is_some()));
            assert!(warned.is_none_or(|index| retries.warned.contains(&(forest.clone(), index.to_owned()))));
        }
    }
}
