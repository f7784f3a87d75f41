//! The options of `spinney transfer`: those of `serve` that describe forests, their source and their target.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigError, Flags, RawRoute, RawServeOptions, ServeOptions};

/// The flags of `spinney transfer`.
#[derive(Debug, Clone, Args)]
pub struct RawTransferOptions {
    /// Where the forests are: the directory that serve was given as --data-dir, or the URL that it was given as
    /// --forest-store
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Where they are to go: a URL if they are in a directory, or else a directory
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// TOML file, the one of serve: whatever is given here as well goes before it
    #[arg(long, env = "SPINNEY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// PEM file of the authority that signed the certificates of the forest store; only it is trusted then
    #[arg(long, env = "SPINNEY_FOREST_STORE_CA", value_name = "FILE")]
    forest_store_ca: Option<PathBuf>,
    #[command(flatten)]
    route: Flags<RawRoute>,
}

/// The forests to transfer.
#[derive(Debug, Clone)]
pub struct TransferOptions {
    /// Options of a `serve` that would share the forests.
    pub serve: ServeOptions,
    /// The directory.
    pub dir: PathBuf,
    /// They are in the directory, and not where they are shared.
    pub is_from_dir: bool,
}

impl RawTransferOptions {
    /// Validates the options.
    ///
    /// # Errors
    /// When not exactly one of the two places is a forest store, the file cannot be read, or an option is wrong.
    pub fn validate(self) -> Result<TransferOptions, ConfigError> {
        // A URL may have a secret in it, also one that does not read: it is never taken for a directory, whose name is
        // repeated.
        let is_store = |place: &str| place.contains("://");
        let (url, dir, is_from_dir) = match (is_store(&self.from), is_store(&self.to)) {
            (false, true) => (self.to, self.from, true),
            (true, false) => (self.from, self.to, false),
            (true, true) => {
                return Err(ConfigError::option(
                    "to",
                    "forests are moved between a directory and a forest store, and both places are forest stores",
                ));
            }
            (false, false) => {
                return Err(ConfigError::option(
                    "to",
                    "one of the two places is to be a forest store, such as redis://127.0.0.1:6379",
                ));
            }
        };
        let raw = self.route.over_file(self.config.as_deref())?;
        let forest_store_ca = self.forest_store_ca.or(raw.forest_store_ca);
        // The file describes the place before or after the transfer.
        let serve = RawServeOptions {
            forest_store_ca: forest_store_ca.filter(|_| url.starts_with("rediss")),
            forest_store: Some(url),
            on_redis_failure: None,
            data_dir: None,
            durability: None,
            on_store_failure: None,
            on_unreadable: None,
            recover_at_start: None,
            ..raw
        };
        Ok(TransferOptions { serve: serve.validate()?, dir: dir.into(), is_from_dir })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Transfer {
        #[command(flatten)]
        raw: RawTransferOptions,
    }

    fn options(from: &str, to: &str) -> Result<(PathBuf, bool), String> {
        let args = ["transfer", "--from", from, "--to", to, "--index", "*"];
        let options = Transfer::parse_from(args).raw.validate().map_err(|error| error.to_string())?;
        assert!(options.serve.forest_store.is_some() && options.serve.storage.is_none());
        Ok((options.dir, options.is_from_dir))
    }

    #[test]
    fn one_place_is_a_directory_and_the_other_a_store() {
        assert_eq!(options("data", "redis://a"), Ok(("data".into(), true)));
        assert_eq!(options("redis://a", "data"), Ok(("data".into(), false)));
        let both = options("redis://a", "redis://b").unwrap_err();
        assert!(both.contains("both places are forest stores"), "{both}");
        for (from, to) in [("data", "redis://me:Pa/55@b"), ("redis://a", "redis://me:Pa/55@b")] {
            let error = options(from, to).unwrap_err();
            assert!(!error.contains("Pa") && !error.contains("55"), "{error}");
        }
        let none = options("a", "b").unwrap_err();
        assert!(none.contains("such as redis://127.0.0.1:6379"), "{none}");
    }
}
