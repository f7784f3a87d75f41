//! Hints for the operator: causes of Redis errors and what to do.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};
use rustls::CertificateError;

use crate::forest::shared::keys::RedisUnavailable;

/// Error code of a server without memory.
pub(super) const FULL: &str = "OOM";

const LOGIN: &str = "write user and password into the URL of the forest store, redis://user:password@host, with %40 for @, %3A for : and %2F for /";

#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is mapped")]
pub(super) fn away(error: RedisError) -> RedisUnavailable {
    match error.code() {
        Some(FULL) => RedisUnavailable::full(explain(&error)),
        _ => RedisUnavailable::of(explain(&error)),
    }
}

fn explain(error: &RedisError) -> String {
    if error.kind() == ErrorKind::AuthenticationFailed {
        return format!("it does not let in this user with this password: {LOGIN}");
    }
    if error.kind() == ErrorKind::MasterNameNotFoundBySentinel {
        return "no Sentinel knows a master of this name that answers: the name stands at the end of the URL of the forest store".into();
    }
    if let Some(why) = tls_error(error).and_then(of_tls) {
        return why;
    }
    match error.code() {
        Some(code) => refused(code, error.detail().unwrap_or_default()),
        None => error.to_string(),
    }
}

/// Splits a command's error into code and details.
pub(super) fn refused(code: &str, details: &str) -> String {
    match code {
        "NOAUTH" | "WRONGPASS" => {
            format!("it lets nobody in without user and password: {LOGIN}")
        }
        "NOPERM" => format!(
            "its user may not do what spinney does there ({details}): docs/shared-forest.md says which rights it needs"
        ),
        FULL => format!(
            "it has as much memory as it may use (OOM {details}): raise its maxmemory, or give the forest a shorter \
             --window"
        ),
        _ => format!("{code} {details}"),
    }
}

/// The error of TLS in one of a connection.
fn tls_error(error: &RedisError) -> Option<&rustls::Error> {
    let shared = error.source()?;
    let shared = shared.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
    let io = shared.downcast_ref::<io::Error>()?;
    io.get_ref()?.downcast_ref()
}

fn of_tls(error: &rustls::Error) -> Option<String> {
    use rustls::Error as Tls;
    let what = match error {
        // The second where an authority of the same name has signed it.
        Tls::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "give the authority that signed it with --forest-store-ca, as a PEM file"
        }
        Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            "it has to name the host of the URL, and in a cluster or behind Sentinels the addresses by which the nodes \
             know each other"
        }
        Tls::InvalidMessage(_) => "if it has no TLS, begin the URL with redis://",
        Tls::AlertReceived(_) => "if it wants certificates of its clients, tell it not to: tls-auth-clients no",
        _ => return None,
    };
    Some(format!("no connection with TLS can be made ({error}): {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_tls(error: rustls::Error) -> String {
        explain(&io::Error::new(io::ErrorKind::InvalidData, error).into())
    }

    #[test]
    fn refusals_say_what_is_to_be_done() {
        let unknown = of_tls(CertificateError::UnknownIssuer.into());
        assert!(unknown.contains("UnknownIssuer") && unknown.contains("--forest-store-ca"));
        let namesake = of_tls(CertificateError::BadSignature.into());
        assert!(namesake.contains("--forest-store-ca"), "{namesake}");
        let other = of_tls(CertificateError::NotValidForName.into());
        assert!(other.contains("has to name the host"), "{other}");
        let login = explain(&(ErrorKind::AuthenticationFailed, "no").into());
        assert!(login.contains("%40 for @"), "{login}");
        assert!(refused("NOAUTH", "Authentication required.").contains("user:password@host"));
        let rights = refused("NOPERM", "this user has no permissions to run the 'scan' command");
        assert!(rights.contains("'scan'") && rights.contains("which rights"), "{rights}");
    }

    #[test]
    fn other_errors_are_told_as_they_are() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "nobody is there");
        assert!(explain(&refused.into()).contains("nobody is there"));
        assert_eq!(super::refused("ERR", "there are 100 forests"), "ERR there are 100 forests");
        assert!(super::of_tls(&rustls::Error::DecryptError).is_none());
    }
}
