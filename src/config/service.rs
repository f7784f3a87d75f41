//! As whom spinney asks the cluster in its own name, and whether it counts groups.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderValue;
use opensearch::http::Url;
use percent_encoding::percent_decode_str;

use super::{ConfigError, RawServeOptions, units};
use crate::time::Millis;

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

impl ServiceUrl {
    /// The credentials in it, as a header has them.
    pub(crate) fn credentials(&self) -> Option<HeaderValue> {
        let url = Url::parse(&self.0).ok()?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (user, password) = (url.username(), url.password());
        if user.is_empty() && password.is_none() {
            return None;
        }
        let both = format!(
            "{}:{}",
            decoded(user),
            decoded(password.unwrap_or_default())
        );
        let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(both))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// How often documents without a stamp are looked for.
///
/// # Errors
/// When the option is neither a duration nor off.
pub(super) fn sweep(raw: &RawServeOptions) -> Result<Option<Duration>, ConfigError> {
    match raw.sweep.as_deref() {
        None | Some("off") => Ok(None),
        Some(text) => {
            let every = units::duration(text).map_err(|e| ConfigError::option("sweep", e))?;
            if every == Millis(0) {
                let reason = "gives the cluster no rest: use a duration such as 10m, or off";
                return Err(ConfigError::option("sweep", reason));
            }
            Ok(Some(Duration::from_millis(every.0.unsigned_abs())))
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
        let header = url.credentials().unwrap();
        assert_eq!(header, "Basic bWU6c2VjcmV0");
        assert!(!format!("{header:?}").contains("bWU6"));
        assert_eq!(ServiceUrl("http://es:9200".into()).credentials(), None);
        let odd = ServiceUrl("http://a%40b:c%3Ad@es:9200".into());
        assert_eq!(odd.credentials().unwrap(), "Basic YUBiOmM6ZA==");
    }

    #[test]
    fn sweeping_is_off_unless_somebody_wants_it() {
        let sweeping = |options: &str| {
            let raw: RawServeOptions = toml::from_str(options).unwrap();
            sweep(&raw).map_err(|error| error.to_string())
        };
        assert_eq!(sweeping(""), Ok(None));
        assert_eq!(sweeping("sweep = 'off'"), Ok(None));
        assert_eq!(
            sweeping("sweep = '10m'"),
            Ok(Some(Duration::from_secs(600)))
        );
        for wrong in ["sweep = 'often'", "sweep = '0s'"] {
            assert!(sweeping(wrong).unwrap_err().starts_with("sweep: "));
        }
    }
}
