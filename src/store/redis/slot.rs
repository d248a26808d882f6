//! Which of a cluster's 16 384 slots a key lies in.
//!
//! By the specification of Redis Cluster: CRC16 (XMODEM) of what stands between the first brace
//! that opens and the first that closes behind it, or of the whole key where that is empty.

/// One of 16 384.
pub(super) type Slot = u16;

/// How many there are.
pub(super) const SLOTS: Slot = 16_384;

/// The slot of a key, below 16 384.
pub fn slot_of(key: &str) -> u16 {
    crc16(hash_tag(key).as_bytes()) % SLOTS
}

fn hash_tag(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_the_one_that_redis_names() {
        // What `CLUSTER KEYSLOT` of Redis 7.0.15 answers.
        for (key, slot) in [
            ("foo", 12_182),
            ("123456789", 12_739),
            ("a{b}c", 3_300),
            ("{}a", 10_875),
            ("xdelay:{amqp:orders:0}:due", 4_720),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
    }
}
