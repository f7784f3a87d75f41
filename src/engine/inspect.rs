//! Inspection of stored forests without opening them for writes.

use std::path::Path;
use std::sync::Arc;

use futures_executor::block_on;

use super::Unavailable;
use super::open_forests::DATED;
use super::salvage::{empty_of, listed};
use super::stored::read;
use super::threads::Inline;
use crate::fingerprint::Distance;
use crate::forest::Summary;
use crate::forest::shared::keys::{RedisClient, RedisUnavailable};
use crate::forest::shared::{DistanceTooLarge, ForestSetup, SharedDistance, SharedForest, SharedSettings, Transfer};
use crate::method::{Method, MethodKind, Short, Staged, Strict, Verified};
use crate::progress::ReportProgress;
use crate::store::{DataDir, ForestIdentity, ReplayProgress, Store, StoreError};
use crate::text_fields::FieldRecord;
use crate::time::Millis;

/// Progress callback: identity and progress of the forest being read.
pub type ReportInspection = dyn Fn(&str, ReplayProgress);

/// A stored forest.
#[derive(Debug)]
pub struct InspectedForest {
    /// Identity: name, method and parameters.
    pub identity: ForestIdentity,
    /// Its summary.
    pub summary: Summary,
    /// Number of its boilerplate sentences.
    pub boilerplate: usize,
    /// Bytes of its files that a start reads.
    pub bytes: u64,
    /// Bytes of a batch at the end that was not written whole.
    pub torn: u64,
    /// Unreadable ranges, which the other figures exclude: file, offset and kind.
    pub unreadable: Vec<String>,
    /// Which fields its texts were read from.
    pub fields: FieldRecord,
    /// It is kept by an engine, and its memory is that of all that the engine has.
    pub is_shared: bool,
}

/// Why stored forests cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The directory or a file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine that keeps forests for several processes.
    #[error("the forest store cannot be asked: {0}")]
    Away(RedisUnavailable),
    /// A forest in it.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A distance that shared forests do not support.
    #[error("a forest {0}")]
    Distance(#[from] DistanceTooLarge),
    /// A method that this version does not have.
    #[error("the forest \"{forest}\" is of the method '{method}', which this version of spinney does not know")]
    Method {
        /// The forest.
        forest: String,
        /// The method.
        method: String,
    },
}

/// Reads all forests of an unused directory without changing it. `top`: number of largest trees to list; `report`:
/// progress callback.
///
/// # Errors
/// When the directory is in use, or a forest cannot be read.
pub fn inspect(dir: &Path, top: usize, report: &ReportInspection) -> Result<Vec<InspectedForest>, InspectError> {
    let data_dir = DataDir::lock_to_read(dir)?;
    let forests = data_dir.forests()?;
    forests.into_iter().map(|identity| one(&data_dir, identity, top, report)).collect()
}

fn one(
    data_dir: &DataDir,
    identity: ForestIdentity,
    top: usize,
    report: &ReportInspection,
) -> Result<InspectedForest, InspectError> {
    let setting = |name| {
        let found = identity.settings().find(|(key, _)| *key == name);
        found.map(|(_, value)| value).unwrap_or_default()
    };
    let unknown =
        || InspectError::Method { forest: identity.forest().to_owned(), method: setting("method").to_owned() };
    let method: Method = setting("method").parse().map_err(|_| unknown())?;
    let is_short = identity.forest().ends_with(super::forests::SHORT_TEXTS);
    match method {
        Method::Verified => load::<Verified>(data_dir, identity, top, report),
        Method::Staged => load::<Staged>(data_dir, identity, top, report),
        Method::Short(_) if is_short => load::<Short>(data_dir, identity, top, report),
        _ => load::<Strict>(data_dir, identity, top, report),
    }
}

fn load<F: MethodKind>(
    data_dir: &DataDir,
    identity: ForestIdentity,
    top: usize,
    report: &ReportInspection,
) -> Result<InspectedForest, InspectError> {
    let report = |progress: ReplayProgress| report(identity.forest(), progress);
    let mut replay = Store::salvage(data_dir, &identity)?;
    let (state, gaps) = read::<F>(&mut replay, empty_of(&identity)?, true, report)?;
    let mut unreadable = listed(&gaps);
    let fields = data_dir.fields(identity.forest());
    unreadable.extend(fields.as_ref().err().map(ToString::to_string));
    Ok(InspectedForest {
        summary: state.forest().summary(top),
        boilerplate: F::known(state.learned()),
        bytes: replay.progress().total,
        torn: replay.torn_end().map_or(0, |torn| torn.bytes),
        unreadable,
        fields: fields.unwrap_or_default(),
        is_shared: false,
        identity,
    })
}

/// Reads all forests of a shared store while they are in use, without changing them. `top` and `report` as in
/// [`inspect`].
///
/// # Errors
/// When the store is not available.
pub fn inspect_shared(
    keys: &Arc<dyn RedisClient>,
    top: usize,
    report: &Arc<ReportProgress<'static>>,
) -> Result<Vec<InspectedForest>, InspectError> {
    let away = |away| InspectError::Away(away);
    let forests = block_on(keys.forests()).map_err(away)?;
    let inspect = |(name, _, of): (String, u8, String)| -> Result<InspectedForest, InspectError> {
        let settings = of.split(' ').filter_map(|setting| setting.split_once('='));
        let identity = settings.fold(ForestIdentity::new(name), |identity, (key, value)| identity.with(key, value));
        let setting = |name| {
            let found = identity.settings().find(|(key, _)| *key == name);
            found.map(|(_, value)| value).unwrap_or_default()
        };
        let window = setting("window").strip_suffix("ms").and_then(|ms| ms.parse().ok());
        let settings =
            SharedSettings { window: window.filter(|&ms| ms > 0).map(Millis), max_tree: None, founder_token_bytes: 0 };
        let method: Method = setting("method").parse().map_err(|_| InspectError::Method {
            forest: identity.forest().to_owned(),
            method: setting("method").to_owned(),
        })?;
        let k = SharedDistance::new(Distance(setting("k").parse().unwrap_or_default()))?;
        let is_dated = of.split(' ').any(|setting| setting == DATED);
        let kept = (identity.forest(), of.as_str());
        let port: Box<dyn Transfer> = match method {
            Method::Verified => Box::new(shared::<Verified>(kept, settings, (k, is_dated), keys)),
            Method::Staged => Box::new(shared::<Staged>(kept, settings, (k, is_dated), keys)),
            _ => Box::new(shared::<Strict>(kept, settings, (k, is_dated), keys)),
        };
        let summary = block_on(port.summary(top, report.clone()))?;
        Ok(InspectedForest {
            bytes: summary.memory_bytes as u64,
            summary,
            boilerplate: block_on(port.known())? as usize,
            torn: 0,
            unreadable: Vec::new(),
            fields: block_on(keys.fields(identity.forest())).map_err(away)?,
            is_shared: true,
            identity,
        })
    };
    forests.into_iter().map(inspect).collect()
}

fn shared<F: MethodKind>(
    of: (&str, &str),
    settings: SharedSettings,
    (k, is_dated): (SharedDistance, bool),
    keys: &Arc<dyn RedisClient>,
) -> SharedForest<F> {
    let learned = F::Learned::default();
    let thresholds = Default::default();
    let inline = Arc::new(Inline);
    let keys = keys.clone();
    let shared =
        SharedForest::new(ForestSetup { name: of.0, identity: of.1, settings, thresholds, learned }, inline, keys, 0)
            .with_distance(k);
    if is_dated { shared.dated() } else { shared }
}
