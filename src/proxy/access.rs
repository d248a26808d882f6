//! Who may connect, from where, and as whom.

use std::net::{IpAddr, SocketAddr};

use super::methods::StartOk;
use crate::config::Network;

/// Which addresses may connect at all.
#[derive(Clone, Debug)]
pub(super) struct Doorman {
    pub(super) allow: Vec<Network>,
    pub(super) deny: Vec<Network>,
}

impl Doorman {
    /// Whether none denies the address and, where any are listed, one allows it.
    pub(super) fn admits(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        let is_in = |networks: &[Network]| networks.iter().any(|network| network.contains(peer));
        !is_in(&self.deny) && (self.allow.is_empty() || is_in(&self.allow))
    }
}

/// As whom a client may log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoginRules {
    /// The broker takes `guest` from its own host only, and to it everybody who comes through here
    /// is on ours.
    pub(super) no_guest: bool,
    /// To the broker the certificate that it sees is xdelay's, whoever the client is.
    pub(super) no_external: bool,
}

impl LoginRules {
    /// Why a client may not log in like this.
    pub(super) fn refusal(self, start_ok: &StartOk<'_>) -> Option<&'static str> {
        if self.no_external && start_ok.mechanism == b"EXTERNAL" {
            return Some("xdelay's own certificate would log you in: EXTERNAL cannot be used here");
        }
        let is_guest = self.no_guest && start_ok.user().is_some_and(|user| user == b"guest");
        is_guest.then_some("user 'guest' can only connect via localhost")
    }
}

/// What a broker with `proxy_protocol` expects first: who is really there.
pub(super) fn proxy_header(client: SocketAddr, here: SocketAddr) -> Vec<u8> {
    const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
    const VERSION_2_PROXY: u8 = 0x21;
    let mut header = SIGNATURE.to_vec();
    header.push(VERSION_2_PROXY);
    match (client.ip().to_canonical(), here.ip().to_canonical()) {
        (IpAddr::V4(client), IpAddr::V4(here)) => {
            header.extend_from_slice(&[0x11, 0, 12]);
            header.extend_from_slice(&client.octets());
            header.extend_from_slice(&here.octets());
        }
        (client, here) => {
            header.extend_from_slice(&[0x21, 0, 36]);
            header.extend_from_slice(&six(client));
            header.extend_from_slice(&six(here));
        }
    }
    header.extend_from_slice(&client.port().to_be_bytes());
    header.extend_from_slice(&here.port().to_be_bytes());
    header
}

fn six(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(list: &[&str]) -> Vec<Network> {
        list.iter().map(|text| Network::parse(text).expect("a network")).collect()
    }

    #[test]
    fn what_is_denied_stays_out_and_what_is_allowed_comes_in() {
        let doorman =
            Doorman { allow: networks(&["10.0.0.0/8", "::1"]), deny: networks(&["10.9.0.0/16"]) };
        for (peer, expected) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("::1", true),
            ("10.9.2.3", false),
            ("192.168.0.1", false),
            ("::2", false),
        ] {
            assert_eq!(doorman.admits(peer.parse().expect("an address")), expected, "{peer}");
        }
        let open = Doorman { allow: Vec::new(), deny: Vec::new() };
        assert!(open.admits("192.168.0.1".parse().expect("an address")));
    }

    #[test]
    fn guest_and_external_are_told_from_others() {
        let rules = LoginRules { no_guest: true, no_external: true };
        let start_ok =
            |mechanism: &'static [u8], response: &'static [u8]| StartOk { mechanism, response };
        for (mechanism, response, refused) in [
            (&b"PLAIN"[..], &b"\0guest\0guest"[..], true),
            (b"PLAIN", b"\0guests\0guest", false),
            (b"PLAIN", b"someone\0guest\0guest", true),
            (b"AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x01a", true),
            (b"AMQPLAIN", b"\x05LOGINS\0\0\0\x04shop\x08PASSWORDS\0\0\0\x01a", false),
            (b"EXTERNAL", b"", true),
            (b"PLAIN", b"", false),
        ] {
            let found = rules.refusal(&start_ok(mechanism, response)).is_some();
            assert_eq!(found, refused, "{mechanism:?} {response:?}");
            let open = LoginRules::default().refusal(&start_ok(mechanism, response));
            assert_eq!(open, None);
        }
    }

    #[test]
    fn a_broker_is_told_who_is_really_there() {
        let client = "10.1.2.3:4660".parse().expect("an address");
        let here = "10.0.0.1:5673".parse().expect("an address");
        let header = proxy_header(client, here);
        assert_eq!(
            &header[12..],
            [0x21, 0x11, 0, 12, 10, 1, 2, 3, 10, 0, 0, 1, 0x12, 0x34, 0x16, 0x29]
        );
        let six = proxy_header("[::1]:1".parse().expect("an address"), here);
        assert_eq!((six[13], six.len()), (0x21, 16 + 36));
    }
}
