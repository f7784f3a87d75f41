//! What the rooms that speak HTTP share: bodies within the budget, headers, query strings, TLS, and errors in the
//! cluster's shape. It knows neither the cluster nor the engine.

pub mod body;
pub mod budget;
pub mod error;
pub mod headers;
pub mod json;
pub mod query;
pub mod tls;

pub use body::{Body, BoxError, full};
pub use error::ProxyError;
