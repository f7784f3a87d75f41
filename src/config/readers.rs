//! Readers who may not see every document of an index.

use super::ConfigError;

/// How groups are sorted by the documents that they have in the whole index. The index of roots knows all of them: its
/// order tells something of documents that a reader may not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RestrictedReaders {
    /// Who may search an index may see all of it: the index of roots gives the order.
    #[default]
    None,
    /// The order is found anew for each reader, from what they may see.
    Exact,
    /// This order is refused.
    Refuse,
}

impl RestrictedReaders {
    pub(super) fn of(text: Option<&str>) -> Result<RestrictedReaders, ConfigError> {
        match text {
            None | Some("none") => Ok(RestrictedReaders::None),
            Some("exact") => Ok(RestrictedReaders::Exact),
            Some("refuse") => Ok(RestrictedReaders::Refuse),
            Some(other) => {
                Err(ConfigError::option("restricted_readers", format!("'{other}' is not one of none, exact, refuse")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, expected) in [
            (None, RestrictedReaders::None),
            (Some("none"), RestrictedReaders::None),
            (Some("exact"), RestrictedReaders::Exact),
            (Some("refuse"), RestrictedReaders::Refuse),
        ] {
            assert_eq!(RestrictedReaders::of(text).unwrap(), expected);
        }
        assert_eq!(
            RestrictedReaders::of(Some("all")).unwrap_err().to_string(),
            "restricted_readers: 'all' is not one of none, exact, refuse"
        );
    }
}
