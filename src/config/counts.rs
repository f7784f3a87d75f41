//! Whether groups are counted, and as whom.

use std::fmt;

use super::{ConfigError, RawServeOptions};

/// Whom the cluster knows who counts.
#[derive(Clone, PartialEq, Eq)]
pub struct Counting {
    /// URL of a node, which may contain credentials; `None`: the first of the upstream nodes, without any.
    pub url: Option<String>,
}

/// Without what may be a password.
impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_ref().map(|_| "(not shown)");
        f.debug_struct("Counting").field("url", &url).finish()
    }
}

impl Counting {
    /// Validates the options among the raw ones that say whether to count; none if nothing is counted.
    ///
    /// # Errors
    /// When a value is not one of its option, or there is nothing to count with it.
    pub(super) fn of(raw: &RawServeOptions) -> Result<Option<Counting>, ConfigError> {
        match raw.counts.as_deref() {
            None | Some("on") => Ok(Some(Counting {
                url: raw.counts_url.clone(),
            })),
            Some("off") if raw.counts_url.is_some() => Err(ConfigError::option(
                "counts_url",
                "says as whom groups are counted, and counts is off",
            )),
            Some("off") => Ok(None),
            Some(other) => Err(ConfigError::option(
                "counts",
                format!("'{other}' is not one of on, off"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_is_on_unless_it_is_off() {
        let counting = |options: &str| {
            let raw: RawServeOptions = toml::from_str(options).unwrap();
            Counting::of(&raw).map_err(|error| error.to_string())
        };
        let by = |url: Option<&str>| {
            Ok(Some(Counting {
                url: url.map(str::to_owned),
            }))
        };
        assert_eq!(counting(""), by(None));
        assert_eq!(counting("counts = 'on'"), by(None));
        let url = "https://me:secret@es:9200";
        let with_url = format!("counts_url = '{url}'");
        assert_eq!(counting(&with_url), by(Some(url)));
        assert!(!format!("{:?}", counting(&with_url)).contains("secret"));
        assert_eq!(counting("counts = 'off'"), Ok(None));
        let wrong = counting("counts = 'no'");
        assert_eq!(wrong, Err("counts: 'no' is not one of on, off".to_owned()));
        let useless = counting(&format!("counts = 'off'\n{with_url}"));
        let reason = "counts_url: says as whom groups are counted, and counts is off";
        assert_eq!(useless, Err(reason.to_owned()));
    }
}
