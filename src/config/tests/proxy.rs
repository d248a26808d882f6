//! When there is a proxy, and what it may listen on.

use super::*;

const REDIS: (&str, &str) = ("redis.url", "redis://r");
const LISTEN: (&str, &str) = ("proxy.listen", "127.0.0.1:5673");

#[test]
fn there_is_none_unless_it_listens() {
    assert!(load(LEAST, &[], &[]).unwrap().proxy.is_none());
    let proxy = load("", &[], &[REDIS, LISTEN]).unwrap().proxy.expect("a proxy");
    assert_eq!(proxy.exchanges, ["*"]);
    assert_eq!(proxy.max_connections, 10_000);
}

#[test]
fn without_exchanges_of_its_own_it_finds_out_what_to_capture() {
    let config = load("", &[], &[REDIS, LISTEN]).unwrap();
    assert!(config.amqp.exchanges.is_empty());
}

#[test]
fn beyond_loopback_it_takes_an_explicit_word() {
    let open = [REDIS, ("proxy.listen", "0.0.0.0:5673")];
    let lines = refused("", &[], &open);
    assert!(lines.len() == 1 && lines[0].contains("passwords unencrypted"), "{lines:?}");
    let meant = [open[0], open[1], ("proxy.plaintext", "true")];
    assert!(load("", &[], &meant).unwrap().proxy.is_some());
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_write() {
    for (key, value, expected) in [
        ("proxy.listen", "localhost:5673", "write \"127.0.0.1:5673\""),
        ("proxy.listen", "5673", "must be an IP address and a port"),
        ("proxy.exchanges", "!audit", "matches no exchange"),
        ("proxy.exchanges", "", "matches no exchange"),
        ("proxy.exchanges", "xdelay.orders", "never delayed again"),
        ("proxy.allow", "10.0.0.0/8,host", "\"host\" is no network"),
        ("proxy.tls_cert_file", "/c.pem", "needs proxy.tls_key_file too"),
        ("proxy.upstream_key_file", "/k.pem", "needs proxy.upstream_cert_file too"),
        ("proxy.tls_client_ca_file", "/ca.pem", "has no effect without"),
        ("proxy.max_connections", "0", "must be 1 to 1000000"),
        ("proxy.handshake_timeout", "0s", "must be above 0"),
    ] {
        let lines = refused("", &[], &[REDIS, LISTEN, (key, value)]);
        assert!(lines.len() == 1 && lines[0].contains(expected), "{key} = {value}: {lines:?}");
    }
}
