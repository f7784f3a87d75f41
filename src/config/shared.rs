//! Where forests are kept that several processes share.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;

use super::{ConfigError, RawServeOptions};
use crate::redis::Address;

/// The Redis of shared forests, as the options name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// Address and credentials.
    pub address: Address,
    /// PEM file of the only authority to trust.
    pub ca: Option<PathBuf>,
    /// Handling of writes while it is away.
    pub on_loss: OnRedisFailure,
}

/// Handling of writes while Redis is away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRedisFailure {
    /// They are refused with 503, and readiness is off.
    #[default]
    Refuse,
    /// Documents get roots of this process alone, marked, until a sweep stamps them again.
    Local,
}

impl OnRedisFailure {
    /// The part of the log line about writes.
    pub(crate) fn told(self) -> &'static str {
        match self {
            OnRedisFailure::Refuse => "writes are refused",
            OnRedisFailure::Local => {
                "documents get roots of this process alone, and are found and put right by a sweep (--sweep) when it \
                 is back"
            }
        }
    }
}

impl RedisOptions {
    /// Validates the options of a shared store; `None` if there is none.
    ///
    /// # Errors
    /// When the URL is not Redis', or another option places the forests elsewhere.
    pub(super) fn of(raw: &RawServeOptions) -> Result<Option<RedisOptions>, ConfigError> {
        let Some(url) = &raw.forest_store else {
            return match (&raw.forest_store_ca, &raw.on_redis_failure) {
                (Some(_), _) => Err(ConfigError::option(
                    "forest_store_ca",
                    "says whom to trust, and forest_store is missing, which says where to connect",
                )),
                (None, Some(_)) => Err(ConfigError::option(
                    "on_redis_failure",
                    "says what is done without the forest store, and forest_store is missing, which says where that is",
                )),
                (None, None) => Ok(None),
            };
        };
        let address = Address::parse(url);
        let address = address.map_err(|error| ConfigError::option("forest_store", error.to_string()))?;
        if raw.data_dir.is_some() {
            return Err(ConfigError::option(
                "forest_store",
                "keeps the forests, and data_dir would too: use one of them",
            ));
        }
        if raw.forest_store_ca.is_some() && !address.is_tls {
            return Err(ConfigError::option(
                "forest_store_ca",
                "is for connections with TLS: begin forest_store with rediss://",
            ));
        }
        let on_loss = raw.on_redis_failure.unwrap_or_default();
        Ok(Some(RedisOptions { address, ca: raw.forest_store_ca.clone(), on_loss }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawRoute;

    fn store(text: &str) -> Result<Option<RedisOptions>, String> {
        let raw = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        RedisOptions::of(&raw).map_err(|error| error.to_string())
    }

    #[test]
    fn a_store_is_chosen() {
        assert_eq!(store("data_dir = 'forests'"), Ok(None));
        let chosen = store("forest_store = 'rediss://me:secret@a,b:7'\nforest_store_ca = 'ca.pem'").unwrap().unwrap();
        assert_eq!(chosen.address.to_string(), "rediss://a:6379,b:7");
        assert_eq!((chosen.ca, chosen.on_loss), (Some("ca.pem".into()), OnRedisFailure::Refuse));
        for (text, expected) in [("local", OnRedisFailure::Local), ("refuse", OnRedisFailure::Refuse)] {
            let chosen = store(&format!("forest_store = 'redis://a'\non_redis_failure = '{text}'"));
            assert_eq!(chosen.unwrap().unwrap().on_loss, expected);
        }
    }

    #[test]
    fn wrong_stores_are_refused() {
        for (text, error) in [
            (
                "forest_store = 'redis://a'\non_redis_failure = 'wait'",
                "unknown variant `wait`, expected `refuse` or `local`",
            ),
            (
                "on_redis_failure = 'local'",
                "on_redis_failure: says what is done without the forest store, and forest_store is missing, which says \
                 where that is",
            ),
            (
                "forest_store = 'localhost'",
                "forest_store: it begins with none of redis://, rediss:// (TLS), redis+sentinel://, rediss+sentinel://",
            ),
            (
                "forest_store = 'redis://a'\ndata_dir = 'forests'",
                "forest_store: keeps the forests, and data_dir would too: use one of them",
            ),
            (
                "forest_store = 'redis://a'\nforest_store_ca = 'ca.pem'",
                "forest_store_ca: is for connections with TLS: begin forest_store with rediss://",
            ),
            (
                "forest_store_ca = 'ca.pem'",
                "forest_store_ca: says whom to trust, and forest_store is missing, which says where to connect",
            ),
        ] {
            assert_eq!(store(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn a_method_with_a_wide_distance_is_refused() {
        let options = |method: &str, k: &str, is_shared: bool| {
            let single = RawRoute::default().any_index().with("method", method).unwrap().with("k", k).unwrap();
            let forest_store = is_shared.then(|| "redis://a".to_owned());
            let raw = RawServeOptions { single, forest_store, ..RawServeOptions::default() };
            raw.validate().map(drop).map_err(|error| error.to_string())
        };
        for (method, k) in [("full", "4"), ("longest", "4"), ("staged", "3"), ("verified", "0"), ("field:url", "4")] {
            assert_eq!(options(method, k, true), Ok(()), "{method}");
        }
        let of = |what: &str, bits: u32| {
            format!(
                "forest_store: the method {what} looks for texts up to {bits} bits apart, and a forest on Redis finds \
                 up to 4: keep its forest in this process with --data-dir, or choose another method"
            )
        };
        for (method, k, refused) in [
            ("short", "3", of("short", 10)),
            ("short:longest", "3", of("short:longest", 10)),
            ("short", "12", of("short", 12)),
            ("full", "5", of("full", 5) + ", or a k of at most 4"),
        ] {
            assert_eq!(options(method, k, true), Err(refused));
            assert_eq!(options(method, k, false), Ok(()), "{method}");
        }
    }
}
