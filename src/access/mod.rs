//! Authorisation: who may see the content of a forest, and who may change its groups. The only place that decides it:
//! [`ForestReader`] and [`ForestEditor`] have no other constructors.
//!
//! ```text
//! segment of a path --IndexName--> one name --search, in the caller's name--> the indices behind it
//!                                                  |
//!                                                  +-- each belongs to one forest?      ForestReader
//!                                                  +-- may the caller write each?       ForestEditor
//! ```
//!
//! An index belongs to the forest of the route that matches its own name. An index that matches none belongs to that
//! of a data stream or alias in front of it, if the *service user* resolves it so; an alias only if a route names it
//! literally, because anybody who may change an index may give it an alias that matches another team's pattern.

mod door;
mod editor;
mod index_name;
mod reader;

use bytes::Bytes;
use hyper::{HeaderMap, Response};

use crate::cluster::{Client, IndicesBehind};
use crate::engine::Engine;
use crate::http::{Body, ProxyError, full};

pub(crate) use door::{Door, DoorError};
pub(crate) use editor::ForestEditor;
pub(crate) use index_name::IndexName;
pub(crate) use reader::ForestReader;

/// Dependencies of the decision.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) cluster: &'a Client,
    /// The credentials of the service user.
    pub(crate) service: &'a HeaderMap,
    /// Whether groups may be changed by hand.
    pub(crate) overrides: bool,
}

/// Why access is denied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    /// The cluster's refusal.
    #[error("the cluster refuses it with {}", .0.status())]
    Refused(Box<Response<Bytes>>),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] ProxyError),
}

impl AccessError {
    /// The response for the caller: the cluster's own where there is one.
    ///
    /// # Errors
    /// When the error is spinney's own.
    pub(crate) fn into_response(self) -> Result<Response<Body>, ProxyError> {
        match self {
            AccessError::Refused(answer) => Ok(answer.map(full)),
            AccessError::Other(error) => Err(error),
        }
    }
}

impl Access<'_> {
    /// The name by which a route matches an index of the cluster; `None`: it belongs to no forest. `asked`: the name
    /// that the caller has asked for, if it is one.
    pub(crate) async fn route_name(&self, index: &str, asked: Option<&IndexName>) -> Option<String> {
        if self.engine.routes().has(index) {
            return Some(index.to_owned());
        }
        let asked = asked.filter(|asked| self.engine.routes().has(asked.as_str()))?;
        let behind = self.behind(asked).await;
        let is_behind = self.belongs_as(&behind, asked, index);
        is_behind.then(|| asked.as_str().to_owned())
    }

    /// Resolves a name as the service user.
    async fn behind(&self, asked: &IndexName) -> IndicesBehind {
        let behind = self.cluster.indices_behind(self.service, asked.as_str());
        behind.await.unwrap_or_default()
    }

    /// Whether an index without a route belongs to that of the name before it.
    fn belongs_as(&self, behind: &IndicesBehind, asked: &IndexName, index: &str) -> bool {
        let among = |indices: &[String]| indices.iter().any(|other| other == index);
        let by_alias = among(&behind.alias) && self.engine.routes().is_named_literally(asked.as_str());
        among(&behind.data_stream) || by_alias
    }
}
