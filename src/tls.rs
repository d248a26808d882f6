//! TLS, as a client of Redis and RabbitMQ and as a server of producers: whom to trust, who we are,
//! and what to do when it fails.
//!
//! A server's chain and host name are always verified. Files are read whenever a connection is made,
//! so that a certificate which was renewed is taken up with the next one.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::config::{Identity, TlsFiles};

/// How a server is checked, and what it is shown.
///
/// # Errors
/// Which file cannot be used, and why.
pub(crate) fn client(files: &TlsFiles) -> anyhow::Result<ClientConfig> {
    let roots = match &files.ca {
        Some(path) => roots(path)?,
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
    match &files.identity {
        None => Ok(builder.with_no_client_auth()),
        Some(ours) => {
            let (chain, key) = identity(ours)?;
            let config = builder.with_client_auth_cert(chain, key);
            config.with_context(|| format!("{} and its key", ours.certificate.display()))
        }
    }
}

/// The implementation of all cryptography. Libraries that choose by themselves find it as well.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    if CryptoProvider::get_default().is_none() {
        // Another thread may have been quicker, with the same.
        let _ = aws_lc_rs::default_provider().install_default();
    }
    Arc::new(aws_lc_rs::default_provider())
}

/// The certificates of a file, as those that vouch for others.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn roots(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).with_context(|| format!("{}", path.display()))?;
    }
    Ok(roots)
}

/// Those that this host trusts, as PEM; `None` where it knows nobody.
pub(crate) fn trusted_here() -> Option<Vec<u8>> {
    let known = rustls_native_certs::load_native_certs().certs.into_iter();
    let usable = known.filter(|it| RootCertStore::empty().add(it.clone()).is_ok());
    let pem = usable.fold(String::new(), |pem, certificate| {
        let text = BASE64_STANDARD.encode(certificate);
        pem + &format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    });
    (!pem.is_empty()).then(|| pem.into_bytes())
}

/// A certificate with its chain, and its key.
///
/// # Errors
/// Which file cannot be used.
pub(crate) fn identity(
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

const NOT_SIGNED: &str = "whom we trust has not signed its certificate; name the file of its CA, \
                          ?cacertfile=/path/ca.pem, or add that to those this host trusts";

/// What rustls says of a failure, and what there is to do about it.
const ADVICE: [(&str, &str); 10] = [
    ("UnknownIssuer", NOT_SIGNED),
    // A CA of the same name, but with another key.
    ("BadSignature", NOT_SIGNED),
    (
        "not valid for name",
        "its certificate is for other names; connect by one of those, or have it issued anew",
    ),
    ("certificate expired", "have its certificate renewed, or set this host's clock right"),
    (
        "CertificateRequired",
        "it asks who we are; name a certificate that it knows, \
         ?certfile=/path/client.pem&keyfile=/path/client.key",
    ),
    (
        "HandshakeFailure",
        "it may ask who we are: then name a certificate that it knows, \
         ?certfile=/path/client.pem&keyfile=/path/client.key",
    ),
    ("UnknownCA", "it does not trust our certificate; name one that its CA has signed"),
    ("BadCertificate", "it does not take our certificate; name one that its CA has signed"),
    ("CertificateExpired", "our certificate has expired; have it renewed"),
    ("InvalidContentType", "what listens there speaks no TLS; name its port for TLS"),
];

/// Adds what to do to the words of a connection that failed, where TLS is why. `key` is the setting
/// that names the server.
pub(crate) fn advise(why: String, key: &str) -> String {
    match ADVICE.iter().find(|(said, _)| why.contains(said)) {
        Some((_, advice)) => format!("{why} ({key}: {advice})"),
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

    use super::*;

    #[test]
    fn what_rustls_says_is_known() {
        let at = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(1));
        let name = "there".try_into().unwrap();
        for (error, hint) in [
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "?cacertfile="),
            (Error::InvalidCertificate(CertificateError::BadSignature), "?cacertfile="),
            (
                Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                    expected: name,
                    presented: vec!["here".to_owned()],
                }),
                "connect by one",
            ),
            (
                Error::InvalidCertificate(CertificateError::ExpiredContext {
                    time: at,
                    not_after: at,
                }),
                "clock",
            ),
            (Error::AlertReceived(AlertDescription::CertificateRequired), "?certfile="),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), "?certfile="),
            (Error::AlertReceived(AlertDescription::UnknownCA), "its CA has signed"),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "port for TLS"),
        ] {
            let says = advise(error.to_string(), "redis.url");
            assert!(says.contains("redis.url: ") && says.contains(hint), "{says}");
        }
        assert_eq!(advise("connection refused".to_owned(), "x"), "connection refused");
    }
}
