//! The name of one parked message.

use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

/// Names one parked message, the same on every copy of it: what a consumer drops duplicates by.
///
/// It is either a version 7 UUID or a position in a log, `topic/partition/offset`. People and
/// headers see the text; stores keep bytes, which sort as the messages came: sixteen of a UUID,
/// which begin with a byte below `0x20` until the year 3085, or the text of a position with a
/// letter in front of the offset that tells how many digits follow, since `10` sorts before `9`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Bytes);

impl Uid {
    /// A new uid, greater than every one this process has made before.
    pub fn fresh() -> Self {
        Self(Bytes::copy_from_slice(Uuid::now_v7().as_bytes()))
    }

    /// The uid of a record: however often it is read, it has the same. `life` counts the topics
    /// that went by this name before.
    pub fn position(topic: &str, partition: u32, life: u32, offset: u64) -> Self {
        let life = if life == 0 { String::new() } else { format!(".{life}") };
        Self::sorting(&format!("{topic}/{partition}{life}/"), &offset.to_string())
    }

    /// The uid that a store kept as `bytes`.
    pub fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The bytes a store keeps.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads what [`Display`](fmt::Display) wrote; `None` for text that cannot be a uid.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() == 32
            && let Ok(uuid) = Uuid::try_parse(text)
        {
            return Some(Self(Bytes::copy_from_slice(uuid.as_bytes())));
        }
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        match text.rfind('/').map(|slash| text.split_at(slash + 1)) {
            Some((place, offset)) if is_number(offset) => Some(Self::sorting(place, offset)),
            _ => Some(Self(Bytes::copy_from_slice(text.as_bytes()))),
        }
    }

    fn sorting(place: &str, offset: &str) -> Self {
        let mut bytes = Vec::with_capacity(place.len() + 1 + offset.len());
        bytes.extend_from_slice(place.as_bytes());
        bytes.push(letter(offset.len()));
        bytes.extend_from_slice(offset.as_bytes());
        Self(bytes.into())
    }
}

/// The most digits of an offset, which has 64 bits.
const DIGITS_MAX: usize = 20;

/// `a` for one digit, `b` for two, and so on.
fn letter(digits: usize) -> u8 {
    (b'a'..=b'z').nth(digits - 1).unwrap_or(b'z')
}

fn is_number(text: &str) -> bool {
    (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(uuid) = Uuid::from_slice(&self.0)
            && self.0[0] < 0x20
        {
            return write!(f, "{}", uuid.as_simple());
        }
        let text = String::from_utf8_lossy(&self.0);
        let Some((place, sorted)) = text.rfind('/').map(|slash| text.split_at(slash + 1)) else {
            return f.write_str(&text);
        };
        let offset = sorted.get(1..).filter(|offset| is_number(offset));
        match offset.filter(|offset| sorted.as_bytes()[0] == letter(offset.len())) {
            Some(offset) => write!(f, "{place}{offset}"),
            None => f.write_str(&text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_uid_is_greater_than_the_last_and_survives_its_text() {
        let uids: Vec<Uid> = (0..2_000).map(|_| Uid::fresh()).collect();
        assert!(uids.is_sorted());
        assert_eq!(Uid::parse(&uids[0].to_string()), Some(uids[0].clone()));
        assert_eq!(uids[0].to_string().len(), 32);
    }

    #[test]
    fn positions_sort_as_numbers_and_survive_their_text() {
        let offsets = [0, 9, 10, 99, 100, 1_234_567, u64::from(u32::MAX), u64::MAX];
        let uids = offsets.map(|offset| Uid::position("orders", 3, 0, offset));
        assert!(uids.is_sorted());
        for (uid, offset) in uids.iter().zip(offsets) {
            assert_eq!(uid.to_string(), format!("orders/3/{offset}"));
            assert_eq!(Uid::parse(&uid.to_string()).as_ref(), Some(uid));
        }
        assert_eq!(Uid::position("orders", 3, 2, 7).to_string(), "orders/3.2/7");
        assert_eq!(format!("{:?}", uids[1]), "Uid(orders/3/9)");
    }

    #[test]
    fn any_other_text_is_its_own_text() {
        for text in ["orders", "orders/", "orders/3/x7", "orders/3/b7", "sixteen/bytes/b7"] {
            let uid = Uid::parse(text).expect("printable");
            assert_eq!((uid.as_bytes(), uid.to_string().as_str()), (text.as_bytes(), text));
        }
        assert_eq!(Uid::parse(""), None);
        assert_eq!(Uid::parse("with blank"), None);
    }
}
