//! The files of TLS that an address names in its query, as RabbitMQ's own clients read them:
//! `cacertfile`, `certfile` and `keyfile`, each the path of a file of PEM.

use std::path::PathBuf;

use super::url::{Url, percent_decode};

const CA: &str = "cacertfile";
const CERTIFICATE: &str = "certfile";
const KEY: &str = "keyfile";

/// A certificate with its chain, and its key: two files of PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then those that lead to its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Whom a connection trusts, and who it says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Who vouches for the server; `None`: whom this host trusts.
    pub ca: Option<PathBuf>,
    /// What the server is shown, if anything.
    pub identity: Option<Identity>,
}

impl TlsFiles {
    /// Those that an address names.
    #[must_use]
    pub fn named_in(url: &str) -> Self {
        let path = |name| parameter(url, name).map(PathBuf::from);
        let identity = path(CERTIFICATE).zip(path(KEY));
        let identity = identity.map(|(certificate, key)| Identity { certificate, key });
        Self { ca: path(CA), identity }
    }
}

/// Whether the files that an address names can have an effect. `secure` is the scheme with TLS.
pub(super) fn check(url: &Url, secure: &str) -> Result<(), String> {
    let text = url.expose();
    let named = [CA, CERTIFICATE, KEY].map(|name| parameter(&text, name).is_some());
    match named {
        [false, false, false] => Ok(()),
        _ if !url.scheme().starts_with(secure) => {
            let plain = secure.strip_suffix('s').unwrap_or(secure);
            let kind = url.scheme().strip_prefix(plain).unwrap_or_default();
            Err(format!("names certificates but is not encrypted; write {secure}{kind}://"))
        }
        [_, true, false] => Err("names a certfile and no keyfile; add &keyfile=<path>".to_owned()),
        [_, false, true] => Err("names a keyfile and no certfile; add &certfile=<path>".to_owned()),
        _ => Ok(()),
    }
}

/// The value of a query parameter that is not empty.
fn parameter(url: &str, name: &str) -> Option<String> {
    let url = url.split_once('#').map_or(url, |(before, _)| before);
    let (_, query) = url.split_once('?')?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, value)| *key == name && !value.is_empty())?;
    Some(percent_decode(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_files() {
        let files = TlsFiles::named_in(
            "amqps://u:p@h/v?heartbeat=5&cacertfile=/a%20b/ca.pem&certfile=c&keyfile=k#x",
        );
        let identity = Identity { certificate: "c".into(), key: "k".into() };
        assert_eq!(files, TlsFiles { ca: Some("/a b/ca.pem".into()), identity: Some(identity) });
        assert_eq!(TlsFiles::named_in("rediss://h/0?cacertfile="), TlsFiles::default());
    }

    #[test]
    fn what_could_have_no_effect_is_refused() {
        for (url, hint) in [
            ("amqp://h?cacertfile=/c", "write amqps://"),
            ("amqp-x://h?cacertfile=/c", "write amqps-x://"),
            ("amqps://h?certfile=/c", "add &keyfile="),
            ("amqps://h?cacertfile=/c&keyfile=/k", "add &certfile="),
        ] {
            let says = check(&Url::parse(url).unwrap(), "amqps").unwrap_err();
            assert!(says.contains(hint), "{url}: {says}");
        }
        let whole = Url::parse("amqps://h?certfile=/c&keyfile=/k").unwrap();
        assert_eq!(check(&whole, "amqps"), Ok(()));
    }
}
