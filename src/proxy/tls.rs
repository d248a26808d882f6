//! TLS towards clients and towards the broker, with certificates on either side where they are
//! asked for.

use std::sync::Arc;

use anyhow::Context;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::config::{ProxyTls, TlsFiles};
use crate::tls::{client, identity, provider, roots};

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
pub(super) fn connector(files: &TlsFiles) -> anyhow::Result<TlsConnector> {
    let config = client(files).context("proxy.upstream_*_file, or the cacertfile of amqp.url")?;
    Ok(TlsConnector::from(Arc::new(config)))
}
