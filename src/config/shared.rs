//! Where forests are kept that several processes share.

use std::path::PathBuf;

use super::{ConfigError, RawServeOptions};
use crate::keystore::Address;

/// The engine of shared forests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestStore {
    /// Where it is, and who asks.
    pub address: Address,
    /// PEM file of the only authority to trust.
    pub ca: Option<PathBuf>,
}

impl ForestStore {
    /// Validates the options among the raw ones that say where it is; none if there is none.
    ///
    /// # Errors
    /// When the URL is not one of an engine, or another option says that the forests are kept elsewhere.
    pub(super) fn of(raw: &RawServeOptions) -> Result<Option<ForestStore>, ConfigError> {
        let Some(url) = &raw.forest_store else {
            return match raw.forest_store_ca {
                Some(_) => Err(ConfigError::option(
                    "forest_store_ca",
                    "says whom to trust, and forest_store is missing, which says where to connect",
                )),
                None => Ok(None),
            };
        };
        let address = Address::parse(url);
        let address =
            address.map_err(|error| ConfigError::option("forest_store", error.to_string()))?;
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
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(
        url: Option<&str>,
        ca: Option<&str>,
        data_dir: Option<&str>,
    ) -> Result<Option<ForestStore>, String> {
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
        assert_eq!(chosen.ca, Some("ca.pem".into()));
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
}
