//! HTTP building blocks: bodies within the budget, headers, query strings, TLS, and errors in the cluster's shape.
//! Depends on neither the cluster nor the engine.

pub(crate) mod body;
pub(crate) mod browser;
pub(crate) mod budget;
pub(crate) mod caller;
pub(crate) mod canonical;
pub(crate) mod error;
pub(crate) mod headers;
pub(crate) mod json;
pub(crate) mod query;
pub(crate) mod renewed;
pub(crate) mod tls;
mod wire;

pub(crate) use error::ProxyError;
pub(crate) use wire::{Body, BoxError, ClientAddress, ClientBodyError, full};
