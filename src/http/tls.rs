//! TLS towards the cluster and on our side, from PEM files.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};

use super::renewed::Renewed;
use crate::config::Identity;

/// Errors of TLS material.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// The file of certificates cannot be read, or is not PEM.
    #[error("cannot read certificates from {path}")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// The file holds something, but no certificate.
    #[error("{0} holds no certificate in PEM form")]
    NoCertificate(PathBuf),
    /// The file of a key cannot be read, or is not PEM.
    #[error("cannot read a private key from {path}")]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// The authority cannot be used.
    #[error("{path} is not a usable authority")]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The key is another one than the certificate's.
    #[error("{cert} and {key} do not fit together")]
    Mismatch {
        /// The file of the certificates.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The authority of clients cannot be used.
    #[error("{path} is not a usable authority of clients")]
    Verifier {
        /// The file.
        path: PathBuf,
        /// Why.
        source: VerifierBuilderError,
    },
    /// The provider of cryptography cannot be used.
    #[error(transparent)]
    Provider(rustls::Error),
}

/// The authorities of the system, read once. Systems without a store can still talk http; https then fails with
/// "unknown issuer".
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}

/// The authorities of a file.
fn authorities(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(path)? {
        let added = roots.add(cert);
        added.map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
    }
    Ok(Arc::new(roots))
}

/// TLS configuration for calls to the cluster: trusts the system's authorities, or `ca` alone.
///
/// # Errors
/// When a file cannot be read or contains no certificate or key.
pub(crate) fn client(ca: Option<&Path>, identity: Option<&Identity>) -> Result<ClientConfig, TlsError> {
    let roots = match ca {
        Some(path) => authorities(path)?,
        None => system_roots(),
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Provider)?
        .with_root_certificates(roots);
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder.with_client_cert_resolver(Arc::new(RenewedKey::load(identity)?)),
    })
}

/// TLS configuration for our own listeners. Clients have to show a certificate of `client_ca`, if it is given.
///
/// # Errors
/// When a file cannot be read or contains no certificate or key.
pub(crate) fn server(identity: &Identity, client_ca: Option<&Path>) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Provider)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities(path)?, provider()).build();
            let verifier = verifier.map_err(|source| TlsError::Verifier { path: path.to_owned(), source })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(RenewedKey::load(identity)?));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if client_ca.is_some() {
        // A session that is resumed shows no certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certs = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| TlsError::Certificates { path: path.to_owned(), source })?;
    if certs.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(certs)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::Key { path: path.to_owned(), source })
}

/// A certificate chain with its key, which are read again at the first handshake after their files have changed.
#[derive(Debug)]
struct RenewedKey(Renewed<CertifiedKey>);

impl RenewedKey {
    fn load(identity: &Identity) -> Result<RenewedKey, TlsError> {
        let read = {
            let identity = identity.clone();
            move || certified_key(&identity)
        };
        Renewed::load("the certificate and its key", &[&identity.cert, &identity.key], read).map(RenewedKey)
    }
}

impl ResolvesServerCert for RenewedKey {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current())
    }
}

impl ResolvesClientCert for RenewedKey {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn certified_key(identity: &Identity) -> Result<CertifiedKey, TlsError> {
    CertifiedKey::from_der(certificates(&identity.cert)?, key(&identity.key)?, &provider())
        .map_err(|source| TlsError::Mismatch { cert: identity.cert.clone(), key: identity.key.clone(), source })
}

/// The error of TLS that caused another one.
pub(crate) fn error_in<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    // The source of an I/O error is that of the error that it holds, which it does not name itself.
    let held = |error: &'e (dyn Error + 'static)| -> Option<&'e (dyn Error + 'static)> {
        Some(error.downcast_ref::<std::io::Error>()?.get_ref()?)
    };
    let mut causes = std::iter::successors(Some(error), |&error| held(error).or_else(|| error.source()));
    causes.find_map(|error| error.downcast_ref())
}

/// The remedy for a TLS error on the connection to a node.
pub(crate) fn remedy(error: &rustls::Error) -> Option<&'static str> {
    use rustls::{CertificateError, Error as Tls};
    Some(match error {
        // The second where an authority of the same name has signed it.
        Tls::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "give the authority that signed the node's certificate with --upstream-ca, as a PEM file"
        }
        Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "the node's certificate has to name the host of the URL",
        Tls::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the node's certificate is over: renew it, or set the clock"
        }
        // The checker of certificates is another crate, whose errors have no variants here.
        Tls::InvalidCertificate(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the node shows the certificate of an authority as its own: give it one that the authority has signed"
        }
        Tls::InvalidMessage(_) => "if the node has no TLS, begin the URL with http://",
        Tls::AlertReceived(_) => "if the node wants a certificate, give one with --upstream-cert and --upstream-key",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustls::CertificateError;

    use super::*;

    #[test]
    fn errors_of_tls_say_what_to_do() {
        #[derive(Debug, thiserror::Error)]
        #[error("it broke")]
        struct Broken(#[source] io::Error);
        let told = |error: rustls::Error| {
            // A connector wraps what the handshake has wrapped already.
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            let error = Broken(io::Error::other(io::Error::other(error)));
            error_in(&error).and_then(remedy).unwrap_or_default()
        };
        assert!(told(CertificateError::UnknownIssuer.into()).contains("--upstream-ca"));
        assert!(told(CertificateError::NotValidForName.into()).contains("name the host"));
        assert!(told(CertificateError::Expired.into()).contains("renew"));
        assert_eq!(told(rustls::Error::DecryptError), "");
        assert!(error_in(&Broken(io::Error::other("nothing of TLS"))).is_none());
    }
}
