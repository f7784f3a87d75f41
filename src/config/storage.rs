//! Where the forests are stored, and what an answer waits for.

use std::path::PathBuf;
use std::time::Duration;

use super::{ConfigError, RawServeOptions, units};
use crate::store::Durability;

/// How often is synced where nothing else is said.
const INTERVAL: Duration = Duration::from_secs(1);

/// Where and how the forests are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The directory; of one process alone.
    pub data_dir: PathBuf,
    /// When what was answered is safe.
    pub durability: Durability,
    /// What becomes of writes when the disk fails.
    pub on_failure: OnFailure,
    /// What a start does when a part of what is stored does not read.
    pub on_unreadable: OnUnreadable,
}

/// What a start does when a part of what is stored does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnreadable {
    /// It ends, and says where that part is.
    Refuse,
    /// It goes on with the rest, and with what the index has.
    Recover,
}

/// What becomes of writes when nothing can be stored any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// They are refused with 503, and readiness is off.
    Refuse,
    /// They are stamped from memory; what comes is forgotten at the next restart.
    Continue,
}

impl Storage {
    /// Validates the options among the raw ones that say how to store; none if nothing is to be stored.
    ///
    /// # Errors
    /// When a value is not one of its option, or there is no directory for it.
    pub(super) fn of(raw: &RawServeOptions) -> Result<Option<Storage>, ConfigError> {
        let durability = match raw.durability.as_deref() {
            None | Some("batch") => Durability::Batch,
            Some("none") => Durability::None,
            Some("interval") => Durability::Interval(INTERVAL),
            Some(text) => {
                let every = text.strip_prefix("interval:").map(units::duration);
                let every = every.and_then(Result::ok).map(|every| every.0.unsigned_abs());
                let every = every.filter(|&every| every > 0).map(Duration::from_millis);
                let reason = || format!("'{text}' is not one of batch, interval, interval:DURATION, none");
                let every = every.ok_or_else(|| ConfigError::option("durability", reason()))?;
                Durability::Interval(every)
            }
        };
        let on_failure = match raw.on_store_failure.as_deref() {
            None | Some("refuse") => OnFailure::Refuse,
            Some("continue") => OnFailure::Continue,
            Some(text) => {
                let reason = format!("'{text}' is not one of refuse, continue");
                return Err(ConfigError::option("on_store_failure", reason));
            }
        };
        let on_unreadable = match raw.on_unreadable.as_deref() {
            None | Some("refuse") => OnUnreadable::Refuse,
            Some("recover") => OnUnreadable::Recover,
            Some(text) => {
                let reason = format!("'{text}' is not one of refuse, recover");
                return Err(ConfigError::option("on_unreadable", reason));
            }
        };
        match &raw.data_dir {
            Some(data_dir) => Ok(Some(Storage { data_dir: data_dir.clone(), durability, on_failure, on_unreadable })),
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

    fn storage(
        data_dir: Option<&str>,
        durability: Option<&str>,
        on_failure: Option<&str>,
    ) -> Result<Option<Storage>, String> {
        let raw = RawServeOptions {
            data_dir: data_dir.map(PathBuf::from),
            durability: durability.map(str::to_owned),
            on_store_failure: on_failure.map(str::to_owned),
            ..RawServeOptions::default()
        };
        Storage::of(&raw).map_err(|error| error.to_string())
    }

    #[test]
    fn what_does_not_read_is_refused_or_recovered() {
        let chosen = |text: Option<&str>| {
            let raw = RawServeOptions {
                data_dir: Some("forests".into()),
                on_unreadable: text.map(str::to_owned),
                ..RawServeOptions::default()
            };
            let storage = Storage::of(&raw).map_err(|error| error.to_string());
            storage.map(|storage| storage.map(|storage| storage.on_unreadable))
        };
        assert_eq!(chosen(None), Ok(Some(OnUnreadable::Refuse)));
        assert_eq!(chosen(Some("refuse")), Ok(Some(OnUnreadable::Refuse)));
        assert_eq!(chosen(Some("recover")), Ok(Some(OnUnreadable::Recover)));
        let error = "on_unreadable: 'ignore' is not one of refuse, recover";
        assert_eq!(chosen(Some("ignore")), Err(error.to_owned()));
    }

    #[test]
    fn storage_is_chosen_or_refused_in_words() {
        let chosen = |durability, on_failure| Storage {
            data_dir: "forests".into(),
            durability,
            on_failure,
            on_unreadable: OnUnreadable::Refuse,
        };
        assert_eq!(storage(None, None, None), Ok(None));
        for (durability, expected) in [
            (None, Durability::Batch),
            (Some("batch"), Durability::Batch),
            (Some("none"), Durability::None),
            (Some("interval"), Durability::Interval(INTERVAL)),
            (Some("interval:5s"), Durability::Interval(Duration::from_secs(5))),
        ] {
            let expected = chosen(expected, OnFailure::Refuse);
            assert_eq!(storage(Some("forests"), durability, None), Ok(Some(expected)));
        }
        let continues = storage(Some("forests"), None, Some("continue"));
        assert_eq!(continues, Ok(Some(chosen(Durability::Batch, OnFailure::Continue))));
        for (wrong, error) in [
            (
                storage(Some("forests"), Some("often"), None),
                "durability: 'often' is not one of batch, interval, interval:DURATION, none",
            ),
            (
                storage(Some("forests"), Some("interval:0s"), None),
                "durability: 'interval:0s' is not one of batch, interval, interval:DURATION, none",
            ),
            (
                storage(Some("forests"), None, Some("ignore")),
                "on_store_failure: 'ignore' is not one of refuse, continue",
            ),
            (
                storage(None, Some("batch"), None),
                "durability: says how the forests are stored, and data_dir is missing, which says where",
            ),
        ] {
            assert_eq!(wrong, Err(error.to_owned()));
        }
    }
}
