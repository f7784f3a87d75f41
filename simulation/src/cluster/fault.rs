//! Refusals in the servers' shape.

use serde_json::{Value, json};

/// Why a request, or an item of it, is refused.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) reason: String,
    /// The servers can do what is asked for, and this cluster cannot.
    pub(super) is_unknown: bool,
}

/// A status and an answer.
pub(super) type Reply = Result<(u16, Value), Fault>;

impl Fault {
    pub(super) fn new(status: u16, kind: &'static str, reason: impl Into<String>) -> Fault {
        Fault { status, kind, reason: reason.into(), is_unknown: false }
    }

    pub(super) fn bad(reason: impl Into<String>) -> Fault {
        Fault::new(400, "illegal_argument_exception", reason)
    }

    /// Something that this cluster does not model.
    pub(super) fn unknown(reason: impl Into<String>) -> Fault {
        Fault { is_unknown: true, ..Fault::new(400, "parsing_exception", reason) }
    }

    pub(super) fn no_index(name: &str) -> Fault {
        Fault::new(404, "index_not_found_exception", format!("no such index [{name}]"))
    }

    pub(super) fn conflict(id: &str, reason: &str) -> Fault {
        Fault::new(409, "version_conflict_engine_exception", format!("[{id}]: version conflict, {reason}"))
    }

    /// An item that is refused with this status for no reason of its own.
    pub(super) fn injected(status: u16) -> Fault {
        let kind = match status {
            400 => "mapper_parsing_exception",
            403 => "cluster_block_exception",
            404 => "index_not_found_exception",
            409 => "version_conflict_engine_exception",
            429 => "es_rejected_execution_exception",
            503 => "unavailable_shards_exception",
            _ => "exception",
        };
        Fault::new(status, kind, "refused by the simulation")
    }

    /// The `error` member.
    pub(super) fn error(&self) -> Value {
        json!({"type": self.kind, "reason": self.reason})
    }

    pub(super) fn answer(&self) -> Value {
        let error = json!({"root_cause": [self.error()], "type": self.kind, "reason": self.reason});
        json!({"error": error, "status": self.status})
    }
}
