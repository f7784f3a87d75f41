//! As whom spinney asks the cluster in its own name, and whether it counts groups.

use std::fmt;

use super::{ConfigError, RawServeOptions};

/// URL of a node for what spinney asks in its own name. It may contain credentials, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceUrl(pub String);

impl fmt::Debug for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceUrl")
    }
}

/// Whether groups are counted.
///
/// # Errors
/// When the option is neither on nor off.
pub(super) fn counts(raw: &RawServeOptions) -> Result<bool, ConfigError> {
    match raw.counts.as_deref() {
        None | Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => Err(ConfigError::option(
            "counts",
            format!("'{other}' is not one of on, off"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_is_on_unless_it_is_off() {
        let counting = |options: &str| {
            let raw: RawServeOptions = toml::from_str(options).unwrap();
            counts(&raw).map_err(|error| error.to_string())
        };
        assert_eq!(counting(""), Ok(true));
        assert_eq!(counting("counts = 'on'"), Ok(true));
        assert_eq!(counting("counts = 'off'"), Ok(false));
        let wrong = counting("counts = 'no'");
        assert_eq!(wrong, Err("counts: 'no' is not one of on, off".to_owned()));
    }

    #[test]
    fn credentials_are_not_shown() {
        let with = |options: &str| {
            let raw: RawServeOptions = toml::from_str(options).unwrap();
            raw.validate().unwrap().service_url
        };
        let route = "upstream = ['http://es1:9200', 'http://es2:9200']\n[[route]]\nindex = ['a']";
        assert_eq!(with(route), ServiceUrl("http://es1:9200/".into()));
        let url = with(&format!(
            "service_url = 'https://me:secret@es:9200'\n{route}"
        ));
        assert_eq!(url, ServiceUrl("https://me:secret@es:9200".into()));
        assert!(!format!("{url:?}").contains("secret"));
    }
}
