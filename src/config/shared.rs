//! Where forests are kept that several processes share.

use std::path::PathBuf;

use super::{ConfigError, RawServeOptions};
use crate::redis::Address;

/// The engine of shared forests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestStore {
    /// Where it is, and who asks.
    pub address: Address,
    /// PEM file of the only authority to trust.
    pub ca: Option<PathBuf>,
    /// What becomes of writes when it is away.
    pub on_loss: OnRedisFailure,
}

/// What becomes of writes when the engine of the shared forests is away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnRedisFailure {
    /// They are refused with 503, and readiness is off.
    #[default]
    Refuse,
    /// Documents get roots of this process alone, marked, until a sweep stamps them again.
    Local,
}

impl OnRedisFailure {
    fn of(text: Option<&str>) -> Result<OnRedisFailure, ConfigError> {
        match text {
            None | Some("refuse") => Ok(OnRedisFailure::Refuse),
            Some("local") => Ok(OnRedisFailure::Local),
            Some(text) => Err(ConfigError::option("on_redis_failure", format!("'{text}' is not one of refuse, local"))),
        }
    }

    /// What the log says of writes then.
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

impl ForestStore {
    /// Validates the options among the raw ones that say where it is; none if there is none.
    ///
    /// # Errors
    /// When the URL is not one of an engine, or another option says that the forests are kept elsewhere.
    pub(super) fn of(raw: &RawServeOptions) -> Result<Option<ForestStore>, ConfigError> {
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
        Ok(Some(ForestStore {
            address,
            ca: raw.forest_store_ca.clone(),
            on_loss: OnRedisFailure::of(raw.on_redis_failure.as_deref())?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawRoute;

    fn store(url: Option<&str>, ca: Option<&str>, data_dir: Option<&str>) -> Result<Option<ForestStore>, String> {
        let raw = RawServeOptions {
            forest_store: url.map(str::to_owned),
            forest_store_ca: ca.map(PathBuf::from),
            data_dir: data_dir.map(PathBuf::from),
            ..RawServeOptions::default()
        };
        ForestStore::of(&raw).map_err(|error| error.to_string())
    }

    #[test]
    fn an_engine_is_chosen_or_refused_in_words() {
        assert_eq!(store(None, None, Some("forests")), Ok(None));
        let chosen = store(Some("rediss://me:secret@a,b:7"), Some("ca.pem"), None);
        let chosen = chosen.unwrap().unwrap();
        assert_eq!(chosen.address.to_string(), "rediss://a:6379,b:7");
        assert_eq!((chosen.ca, chosen.on_loss), (Some("ca.pem".into()), OnRedisFailure::Refuse));
        let lost = |store: Option<&str>, what: &str| {
            let raw = RawServeOptions {
                forest_store: store.map(str::to_owned),
                on_redis_failure: Some(what.to_owned()),
                ..RawServeOptions::default()
            };
            let chosen = ForestStore::of(&raw).map_err(|error| error.to_string());
            chosen.map(|chosen| chosen.unwrap().on_loss)
        };
        assert_eq!(lost(Some("redis://a"), "local"), Ok(OnRedisFailure::Local));
        assert_eq!(lost(Some("redis://a"), "refuse"), Ok(OnRedisFailure::Refuse));
        for (store, what, error) in [
            (Some("redis://a"), "wait", "on_redis_failure: 'wait' is not one of refuse, local"),
            (
                None,
                "local",
                "on_redis_failure: says what is done without the forest store, and forest_store is missing, which says \
                 where that is",
            ),
        ] {
            assert_eq!(lost(store, what), Err(error.to_owned()));
        }
        for (url, ca, data_dir, error) in [
            (
                Some("localhost"),
                None,
                None,
                "forest_store: it begins with none of redis://, rediss:// (TLS), redis+sentinel://, rediss+sentinel://",
            ),
            (
                Some("redis://a"),
                None,
                Some("forests"),
                "forest_store: keeps the forests, and data_dir would too: use one of them",
            ),
            (
                Some("redis://a"),
                Some("ca.pem"),
                None,
                "forest_store_ca: is for connections with TLS: begin forest_store with rediss://",
            ),
            (
                None,
                Some("ca.pem"),
                None,
                "forest_store_ca: says whom to trust, and forest_store is missing, which says where to connect",
            ),
        ] {
            assert_eq!(store(url, ca, data_dir), Err(error.to_owned()));
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
