//! `[proxy]`: where producers may connect instead of to the broker, and what is delayed for them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::check::Check;
use super::origin::quoted;
use super::schema;
use super::{Identity, Network, Proxy, ProxyTls, TlsFiles};

const LISTEN: &str = "proxy.listen";
const EXCHANGES: &str = "proxy.exchanges";
/// What xdelay declares itself begins like this, and is never delayed again.
const RESERVED: &str = "xdelay.";
/// More than one process has file descriptors for.
const MAX_CONNECTIONS: i64 = 1_000_000;
/// A handshake takes a few round trips; an hour is a slip.
const MAX_HANDSHAKE: Duration = Duration::from_secs(3_600);

/// Checks the section; `Some(None)` where there is to be no proxy.
pub(super) fn check(check: &mut Check, raw: &schema::Proxy) -> Option<Option<Proxy>> {
    let listen = match raw.listen.as_str() {
        "" => check.holds(LISTEN, None, true, ""),
        text => listen(check, text).map(Some),
    };
    let exchanges = exchanges(check, &raw.exchanges);
    let connections =
        check.number("proxy.max_connections", raw.max_connections, 1..=MAX_CONNECTIONS);
    let handshake = raw.handshake_timeout.0;
    let possible = handshake > Duration::ZERO && handshake <= MAX_HANDSHAKE;
    let says = "must be above 0 and at most 1h; write \"10s\"";
    let handshake = check.holds("proxy.handshake_timeout", handshake, possible, says);
    let allow = networks(check, "proxy.allow", &raw.allow);
    let deny = networks(check, "proxy.deny", &raw.deny);
    let flags = [
        check.holds("proxy.plaintext", raw.plaintext, true, ""),
        check.holds("proxy.remote_guest", raw.remote_guest, true, ""),
        check.holds("proxy.proxy_protocol", raw.proxy_protocol, true, ""),
    ];
    let tls = tls(check, raw);
    let identity =
        identity(check, "proxy.upstream_", &raw.upstream_cert_file, &raw.upstream_key_file);
    let [plaintext, remote_guest, proxy_protocol] = flags;
    let proxy = Proxy {
        exchanges: exchanges?,
        max_connections: connections?,
        handshake_timeout: handshake?,
        allow: allow?,
        deny: deny?,
        remote_guest: remote_guest?,
        tls: tls?,
        upstream: TlsFiles { ca: path(&raw.upstream_ca_file), identity: identity? },
        proxy_protocol: proxy_protocol?,
        listen: match listen? {
            Some(listen) => listen,
            None => return Some(None),
        },
    };
    let (listen, plaintext) = (proxy.listen, plaintext?);
    if proxy.tls.is_none() && !plaintext && !listen.ip().to_canonical().is_loopback() {
        let says = "can be reached by others, who would send their passwords unencrypted; \
                    name proxy.tls_cert_file and proxy.tls_key_file, listen on \
                    \"127.0.0.1:5673\", or set proxy.plaintext = true where the network itself is \
                    trusted";
        check.refuse(LISTEN, says);
        return None;
    }
    Some(Some(proxy))
}

fn tls(check: &mut Check, raw: &schema::Proxy) -> Option<Option<ProxyTls>> {
    let identity = identity(check, "proxy.tls_", &raw.tls_cert_file, &raw.tls_key_file)?;
    let client_ca = path(&raw.tls_client_ca_file);
    if identity.is_none() && client_ca.is_some() {
        let says = "has no effect without proxy.tls_cert_file and proxy.tls_key_file; name them";
        check.refuse("proxy.tls_client_ca_file", says);
        return None;
    }
    Some(identity.map(|identity| ProxyTls { identity, client_ca }))
}

/// A certificate and its key: both or neither.
fn identity(
    check: &mut Check,
    keys: &str,
    certificate: &str,
    key: &str,
) -> Option<Option<Identity>> {
    match (path(certificate), path(key)) {
        (Some(certificate), Some(key)) => Some(Some(Identity { certificate, key })),
        (None, None) => Some(None),
        (certificate, _) => {
            let (given, other) = match certificate {
                Some(_) => ("cert_file", "key_file"),
                None => ("key_file", "cert_file"),
            };
            check.refuse(&format!("{keys}{given}"), format!("needs {keys}{other} too; name it"));
            None
        }
    }
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

fn networks(check: &mut Check, key: &str, texts: &[String]) -> Option<Vec<Network>> {
    let networks: Vec<_> = texts.iter().map(|text| Network::parse(text)).collect();
    let wrong = texts.iter().zip(&networks).find(|(_, network)| network.is_none());
    if let Some((text, _)) = wrong {
        check.refuse(key, format!("{} is no network; write \"10.0.0.0/8\"", quoted(text)));
    }
    let networks: Option<Vec<_>> = networks.into_iter().collect();
    check.holds(key, networks?, true, "")
}

fn listen(check: &mut Check, text: &str) -> Option<SocketAddr> {
    let listen = text.parse::<SocketAddr>();
    if listen.is_err() {
        let local = text.strip_prefix("localhost").unwrap_or(text);
        let near = format!("127.0.0.1{local}");
        let near = near.parse::<SocketAddr>().map_or("127.0.0.1:5673".to_owned(), |_| near);
        check.refuse(LISTEN, format!("must be an IP address and a port; write \"{near}\""));
    }
    check.holds(LISTEN, listen.ok()?, true, "")
}

fn exchanges(check: &mut Check, patterns: &[String]) -> Option<Vec<String>> {
    let mut well = !check.is_broken(EXCHANGES);
    if patterns.iter().all(|pattern| pattern.starts_with('!')) {
        check.refuse(EXCHANGES, "matches no exchange, so nothing is delayed; write [\"*\"]");
        well = false;
    }
    for pattern in patterns {
        if pattern.trim_start_matches('!').starts_with(RESERVED) {
            let says = "begins with the reserved `xdelay.`, which is never delayed again; \
                        name the destination itself";
            check.refuse(EXCHANGES, format!("{} {says}", quoted(pattern)));
            well = false;
        }
    }
    well.then(|| patterns.to_vec())
}
