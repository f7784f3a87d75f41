//! Stored forests, read to be looked at.

use std::path::Path;

use super::stored::read;
use crate::fingerprint::Distance;
use crate::forest::local::State;
use crate::forest::{Settings, Summary};
use crate::hash::HashKey;
use crate::method::{Family, Method, Short, Staged, Strict, Verified};
use crate::store::{DataDir, Durability, Identity, Progress, Store, StoreError};

/// Is told which forest is being read, and how far that is.
pub type Told = dyn Fn(&str, Progress);

/// A stored forest.
#[derive(Debug)]
pub struct Inspected {
    /// What it belongs to: name, method and its parameters.
    pub identity: Identity,
    /// How it looks when it is loaded.
    pub summary: Summary,
    /// Sentences that it knows as boilerplate.
    pub boilerplate: usize,
    /// Bytes of its files that a start reads.
    pub bytes: u64,
    /// Bytes of a batch at the end that was not written whole.
    pub torn: u64,
}

/// Why stored forests cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The directory or a file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A method that this version does not have.
    #[error(
        "the forest \"{forest}\" is of the method '{method}', which this version of spinney does not know"
    )]
    Method {
        /// The forest.
        forest: String,
        /// The method.
        method: String,
    },
}

/// Reads all forests of a directory that nobody writes to; nothing is changed. `top`: how many of the largest trees are listed;
/// `told` is told how far the reading is.
///
/// # Errors
/// When the directory is in use, or something in it cannot be read.
pub fn inspect(dir: &Path, top: usize, told: &Told) -> Result<Vec<Inspected>, InspectError> {
    let data_dir = DataDir::lock(dir)?;
    let forests = data_dir.forests()?;
    forests
        .into_iter()
        .map(|identity| one(&data_dir, identity, top, told))
        .collect()
}

fn one(
    data_dir: &DataDir,
    identity: Identity,
    top: usize,
    told: &Told,
) -> Result<Inspected, InspectError> {
    let setting = |name| {
        let found = identity.settings().find(|(key, _)| *key == name);
        found.map(|(_, value)| value).unwrap_or_default()
    };
    let k = Distance(setting("k").parse().unwrap_or_default());
    let unknown = || InspectError::Method {
        forest: identity.forest().to_owned(),
        method: setting("method").to_owned(),
    };
    let method: Method = setting("method").parse().map_err(|_| unknown())?;
    let is_short = identity.forest().ends_with(super::forests::SHORT_TEXTS);
    match method {
        Method::Verified => load::<Verified>(data_dir, identity, k, top, told),
        Method::Staged => load::<Staged>(data_dir, identity, k, top, told),
        Method::Short(_) if is_short => load::<Short>(data_dir, identity, k, top, told),
        _ => load::<Strict>(data_dir, identity, k, top, told),
    }
}

fn load<F: Family>(
    data_dir: &DataDir,
    identity: Identity,
    k: Distance,
    top: usize,
    told: &Told,
) -> Result<Inspected, InspectError> {
    // What is over by now is the window's to say, which is no part of what is stored.
    let settings = Settings {
        k,
        window: None,
        key: HashKey::FIXED,
    };
    let unknown = |_| StoreError::unknown_record(data_dir.path(), identity.forest());
    let empty = State::<F>::new(settings, Default::default(), F::Learned::default());
    let empty = empty.map_err(|_| unknown(()))?;
    let mut replay = Store::open(data_dir, &identity, Durability::None)?;
    let state = read(
        &mut replay,
        identity.forest(),
        empty,
        data_dir.path(),
        |progress| {
            told(identity.forest(), progress);
        },
    )?;
    Ok(Inspected {
        summary: state.forest().summary(top),
        boilerplate: F::known(state.learned()),
        bytes: replay.progress().total,
        torn: replay.torn_end().map_or(0, |torn| torn.bytes),
        identity,
    })
}
