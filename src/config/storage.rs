//! Storage of the forests, and the durability of answers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

use super::values::{TimeSpan, Timeout, from_text};
use super::{ConfigError, RawServeOptions};
use crate::store::Durability;

/// The default interval of syncs.
const INTERVAL: Duration = Duration::from_secs(1);

/// Where and how the forests are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The directory; of one process alone.
    pub data_dir: PathBuf,
    /// When an answered write is durable.
    pub durability: Durability,
    /// Handling of writes when the disk fails.
    pub on_failure: OnFailure,
    /// Handling of an unreadable part at a start.
    pub on_unreadable: OnUnreadable,
}

/// Handling of an unreadable part at a start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnreadable {
    /// The start fails, and names the part.
    #[default]
    Refuse,
    /// The start continues with the rest and with the index's documents.
    Recover,
}

/// Handling of writes when nothing can be stored any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// They are refused with 503, and readiness is off.
    #[default]
    Refuse,
    /// They are stamped from memory; new documents are forgotten at the next restart.
    Continue,
}

/// The value of `--durability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DurabilityValue(pub(super) Durability);

from_text!(DurabilityValue);

impl fmt::Display for DurabilityValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Durability::Batch => f.write_str("batch"),
            Durability::None => f.write_str("none"),
            Durability::Interval(every) => write!(f, "interval:{}", TimeSpan::from(every)),
        }
    }
}

impl FromStr for DurabilityValue {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<DurabilityValue, &'static str> {
        let durability = match (text, text.strip_prefix("interval:").map(str::parse)) {
            ("batch", _) => Durability::Batch,
            ("none", _) => Durability::None,
            ("interval", _) => Durability::Interval(INTERVAL),
            (_, Some(Ok(Timeout(every)))) => Durability::Interval(every),
            _ => return Err("use batch, interval, interval:DURATION such as interval:5s, or none"),
        };
        Ok(DurabilityValue(durability))
    }
}

impl Storage {
    /// Validates the storage options; `None` if nothing is to be stored.
    ///
    /// # Errors
    /// When they need a directory and none is given.
    pub(super) fn of(raw: &RawServeOptions) -> Result<Option<Storage>, ConfigError> {
        match &raw.data_dir {
            Some(data_dir) => Ok(Some(Storage {
                data_dir: data_dir.clone(),
                durability: raw.durability.map_or(Durability::Batch, |value| value.0),
                on_failure: raw.on_store_failure.unwrap_or_default(),
                on_unreadable: raw.on_unreadable.unwrap_or_default(),
            })),
            None if raw.durability.is_some() => Err(ConfigError::option(
                "durability",
                "says how the forests are stored, and data_dir is missing, which says where",
            )),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(text: &str) -> Result<Option<Storage>, String> {
        let raw = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        Storage::of(&raw).map_err(|error| error.to_string())
    }

    #[test]
    fn storage_has_defaults() {
        assert_eq!(storage(""), Ok(None));
        let default = Storage {
            data_dir: "forests".into(),
            durability: Durability::Batch,
            on_failure: OnFailure::Refuse,
            on_unreadable: OnUnreadable::Refuse,
        };
        assert_eq!(storage("data_dir = 'forests'"), Ok(Some(default.clone())));
        let with = |text: &str| storage(&format!("data_dir = 'forests'\n{text}")).map(Option::unwrap);
        for (text, durability) in [
            ("batch", Durability::Batch),
            ("none", Durability::None),
            ("interval", Durability::Interval(INTERVAL)),
            ("interval:5s", Durability::Interval(Duration::from_secs(5))),
        ] {
            assert_eq!(with(&format!("durability = '{text}'")).unwrap().durability, durability);
        }
        for (text, on_unreadable) in [("refuse", OnUnreadable::Refuse), ("recover", OnUnreadable::Recover)] {
            assert_eq!(with(&format!("on_unreadable = '{text}'")).unwrap().on_unreadable, on_unreadable);
        }
        for (text, on_failure) in [("refuse", OnFailure::Refuse), ("continue", OnFailure::Continue)] {
            assert_eq!(with(&format!("on_store_failure = '{text}'")).unwrap().on_failure, on_failure);
        }
    }

    #[test]
    fn wrong_storage_is_refused() {
        for (text, expected) in [
            ("durability = 'often'", "use batch, interval, interval:DURATION such as interval:5s, or none"),
            ("durability = 'interval:0s'", "use batch, interval, interval:DURATION such as interval:5s, or none"),
            ("on_store_failure = 'ignore'", "unknown variant `ignore`, expected `refuse` or `continue`"),
            ("on_unreadable = 'ignore'", "unknown variant `ignore`, expected `refuse` or `recover`"),
            (
                "durability = 'batch'",
                "durability: says how the forests are stored, and data_dir is missing, which says where",
            ),
        ] {
            assert_eq!(storage(text), Err(expected.to_owned()));
        }
    }
}
