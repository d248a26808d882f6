//! TLS towards clients and towards the broker, with certificates on either side where they are
//! asked for.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::config::{Identity, ProxyTls, UpstreamTls};

/// What clients are greeted with.
///
/// # Errors
/// Which file cannot be used, and why.
pub(super) fn acceptor(settings: &ProxyTls) -> anyhow::Result<TlsAcceptor> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .context("TLS cannot be had")?;
    let builder = match &settings.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path).context("proxy.tls_client_ca_file")?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            builder.with_client_cert_verifier(verifier.context("proxy.tls_client_ca_file")?)
        }
    };
    let (chain, key) = identity(&settings.identity).context("proxy.tls_cert_file and its key")?;
    let config = builder.with_single_cert(chain, key);
    Ok(TlsAcceptor::from(Arc::new(config.context("proxy.tls_cert_file and its key")?)))
}

/// How the broker is checked, and what it is shown.
///
/// # Errors
/// Which file cannot be used, and why.
pub(super) fn connector(settings: &UpstreamTls) -> anyhow::Result<TlsConnector> {
    let roots = match &settings.ca {
        Some(path) => roots(path).context("proxy.upstream_ca_file")?,
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .context("TLS cannot be had")?
        .with_root_certificates(roots);
    let config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(ours) => {
            let (chain, key) = identity(ours).context("proxy.upstream_cert_file and its key")?;
            let config = builder.with_client_auth_cert(chain, key);
            config.context("proxy.upstream_cert_file and its key")?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).with_context(|| format!("{}", path.display()))?;
    }
    Ok(roots)
}

fn identity(
    files: &Identity,
) -> anyhow::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key);
    // The library's words may hold some of the file, and the file holds a key.
    let key = key.map_err(|_| anyhow::anyhow!("{} holds no private key", files.key.display()))?;
    Ok((chain, key))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let name = || format!("{}", path.display());
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).with_context(name)?.collect();
    let found = found.with_context(name)?;
    ensure!(!found.is_empty(), "{} holds no certificate", path.display());
    Ok(found)
}
