//! TLS towards the cluster and on our side.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::config::Identity;

/// What the process trusts and shows when it calls the cluster: the system's authorities, or `ca` alone.
///
/// # Errors
/// When a file cannot be read or holds no certificate or key.
pub fn client(ca: Option<&Path>, identity: Option<&Identity>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for cert in certificates(path)? {
                roots
                    .add(cert)
                    .with_context(|| format!("{} is not a usable authority", path.display()))?;
            }
        }
        // Systems without a store can still talk http; https then fails with "unknown issuer".
        None => {
            let native = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(native.certs);
        }
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(id) => builder
            .with_client_auth_cert(certificates(&id.cert)?, key(&id.key)?)
            .with_context(|| {
                format!(
                    "{} and {} do not fit together",
                    id.cert.display(),
                    id.key.display()
                )
            }),
    }
}

/// What the process shows to its own callers.
///
/// # Errors
/// When a file cannot be read or holds no certificate or key.
pub fn server(identity: &Identity) -> anyhow::Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates(&identity.cert)?, key(&identity.key)?)
        .with_context(|| {
            format!(
                "{} and {} do not fit together",
                identity.cert.display(),
                identity.key.display()
            )
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let certs = CertificateDer::pem_file_iter(path)
        .and_then(|certs| certs.collect::<Result<Vec<_>, _>>())
        .with_context(|| format!("cannot read certificates from {}", path.display()))?;
    anyhow::ensure!(
        !certs.is_empty(),
        "{} holds no certificate in PEM form",
        path.display()
    );
    Ok(certs)
}

fn key(path: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path)
        .with_context(|| format!("cannot read a private key from {}", path.display()))
}
