//! Ranges of addresses: `10.0.0.0/8`, `::1`.

use std::net::IpAddr;

/// All addresses that begin like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Bits that count.
    prefix: u8,
}

impl Network {
    /// Reads an address, or an address and the number of its bits that count.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(bits), |prefix| prefix.trim().parse().ok())?;
        (prefix <= bits).then_some(Self { address, prefix })
    }

    /// Whether an address begins like this one.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differs = u32::from(ours) ^ u32::from(theirs);
                differs.checked_shr(32 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differs = u128::from(ours) ^ u128::from(theirs);
                differs.checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_networks_it_begins_like() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("192.168.1.7", "192.168.1.7", true),
            ("192.168.1.7", "192.168.1.8", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fd12::1", true),
            ("::/0", "fd12::1", true),
        ] {
            let network = Network::parse(network).expect("a network");
            assert_eq!(network.contains(address.parse().expect("one")), expected, "{address}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/", "host", "::/129", "10.0.0.0/-1"] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }
}
