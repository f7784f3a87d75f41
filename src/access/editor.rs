//! Authorisation to change the groups of a forest.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{Access, AccessError, ForestReader};
use crate::cluster::operator::in_path;
use crate::http::ProxyError;

/// Most bytes of the cluster's response.
const ANSWER_BYTES: usize = 1 << 20;

/// An id without a document: an update of it requires the privilege to write and changes nothing.
const NOBODYS_ID: &str = "spinney-may-this-be-written";

/// A caller who may change the groups of a forest: add and undo overrides.
///
/// In addition to the guarantees of a [`ForestReader`], the caller may write every index behind the name: each that a
/// search sees, and each that the service user knows.
#[derive(Debug)]
pub(crate) struct ForestEditor<'a> {
    /// Headers of the caller's request: the cluster finds the credentials in them.
    caller: &'a HeaderMap,
    reader: ForestReader,
    /// The cluster's responses for indices with a write block.
    blocked: BTreeMap<String, Response<Bytes>>,
}

/// The result of the check of the write privilege.
enum Right {
    Granted,
    /// It has no objection to the caller, and takes no writes.
    Blocked(Response<Bytes>),
}

impl<'a> ForestEditor<'a> {
    /// Asks the cluster. `raw_index`: a segment of the caller's path.
    ///
    /// # Errors
    /// As [`ForestReader::admit`], and when the caller may not write one of the indices, or none of them takes writes.
    pub(crate) async fn admit(
        access: Access<'_>,
        caller: &'a HeaderMap,
        raw_index: &str,
    ) -> Result<ForestEditor<'a>, AccessError> {
        if !access.overrides {
            return Err(ProxyError::NoOverrides.into());
        }
        let (reader, behind) = ForestReader::admit_behind(access, caller, raw_index).await?;
        let mut indices: BTreeSet<String> = reader.indices().map(str::to_owned).collect();
        indices.extend(behind.into_indices());
        let mut blocked = BTreeMap::new();
        for index in &indices {
            if let Right::Blocked(answer) = ask_to_write(access, caller, index).await? {
                blocked.insert(index.clone(), answer);
            }
        }
        if blocked.len() == indices.len()
            && let Some((_, answer)) = blocked.pop_first()
        {
            return Err(AccessError::Refused(Box::new(answer)));
        }
        Ok(ForestEditor { caller, reader, blocked })
    }

    /// The caller's headers.
    pub(crate) fn caller(&self) -> &'a HeaderMap {
        self.caller
    }

    /// The caller's read access.
    pub(crate) fn reader(&self) -> &ForestReader {
        &self.reader
    }

    /// The name by which a route matches the index of a document in the request.
    ///
    /// # Errors
    /// When access was not given to it, or it takes no writes.
    pub(crate) fn route_name_of(&self, index: &str) -> Result<&str, AccessError> {
        if let Some(answer) = self.blocked.get(index) {
            return Err(AccessError::Refused(Box::new(answer.clone())));
        }
        self.reader.route_name_of(index).ok_or_else(|| {
            let name = self.reader.name().as_str();
            let reason = format!("what stands behind [{name}] changes right now: send it again in a moment");
            ProxyError::PartialSearch(reason).into()
        })
    }
}

/// Sends an empty update of a missing document: the cluster returns 404 to a caller who may write, and refuses others.
async fn ask_to_write(access: Access<'_>, caller: &HeaderMap, index: &str) -> Result<Right, AccessError> {
    // Where documents must have a routing, this one has.
    let path = format!("/{}/_update/{NOBODYS_ID}?routing={NOBODYS_ID}", in_path(index));
    let body = json!({"doc": {}});
    let asked = access.cluster.ask_as(caller, Method::POST, &path, Some(&body), ANSWER_BYTES);
    let answer = asked.await.map_err(ProxyError::from)?;
    let parsed: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let kind = parsed.pointer("/error/type").and_then(Value::as_str);
    match (answer.status(), kind) {
        (StatusCode::NOT_FOUND, Some("document_missing_exception")) => Ok(Right::Granted),
        // A document of this id exists.
        (status, _) if status.is_success() && parsed["result"] == "noop" => Ok(Right::Granted),
        (status, _) if status.is_success() => Err(ProxyError::NotTheCluster("POST /INDEX/_update/ID").into()),
        // The right to write is looked at before this.
        (_, Some("cluster_block_exception")) => Ok(Right::Blocked(answer)),
        _ => Err(AccessError::Refused(Box::new(answer))),
    }
}
