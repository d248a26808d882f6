//! `[proxy]`: where producers may connect instead of to the broker, and what is delayed for them.

use std::net::SocketAddr;
use std::time::Duration;

use super::Proxy;
use super::check::Check;
use super::origin::quoted;
use super::schema;

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
    let plaintext = check.holds("proxy.plaintext", raw.plaintext, true, "");
    let (exchanges, max_connections, handshake_timeout, plaintext) =
        (exchanges?, connections?, handshake?, plaintext?);
    let Some(listen) = listen? else { return Some(None) };
    if !plaintext && !listen.ip().to_canonical().is_loopback() {
        let says = "can be reached by others, who would send their passwords unencrypted; \
                    listen on \"127.0.0.1:5673\", or set proxy.plaintext = true where the \
                    network itself is trusted";
        check.refuse(LISTEN, says);
        return None;
    }
    Some(Some(Proxy { listen, exchanges, max_connections, handshake_timeout }))
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
