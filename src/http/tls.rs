//! TLS towards the cluster and on our side, from PEM files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

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

/// TLS configuration for calls to the cluster: trusts the system's authorities, or `ca` alone.
///
/// # Errors
/// When a file cannot be read or contains no certificate or key.
pub(crate) fn client(ca: Option<&Path>, identity: Option<&Identity>) -> Result<ClientConfig, TlsError> {
    let roots = match ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for cert in certificates(path)? {
                let added = roots.add(cert);
                added.map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
            }
            Arc::new(roots)
        }
        None => system_roots(),
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Provider)?
        .with_root_certificates(roots);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(id) => {
            builder.with_client_auth_cert(certificates(&id.cert)?, key(&id.key)?).map_err(|source| mismatch(id, source))
        }
    }
}

/// TLS configuration for our own listeners.
///
/// # Errors
/// When a file cannot be read or contains no certificate or key.
pub(crate) fn server(identity: &Identity) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Provider)?
        .with_no_client_auth()
        .with_single_cert(certificates(&identity.cert)?, key(&identity.key)?)
        .map_err(|source| mismatch(identity, source))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
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

fn mismatch(identity: &Identity, source: rustls::Error) -> TlsError {
    TlsError::Mismatch { cert: identity.cert.clone(), key: identity.key.clone(), source }
}
