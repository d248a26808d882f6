//! A record of Kafka, with what most clients' types would lose: null against empty, and headers
//! whose names repeat or whose values are null.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// What stands for the length of a value that is null.
const NULL: u32 = u32::MAX;

/// A record as Kafka carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct KafkaContent {
    /// `None` where the key is null, which is another thing than empty.
    pub key: Option<Bytes>,
    /// `None` for a tombstone.
    pub value: Option<Bytes>,
    /// All of them, those included that steer the delay.
    pub headers: RecordHeaders,
    /// The partition it was captured on.
    pub partition: u32,
    /// The record's own timestamp in Unix milliseconds; `None` where it has none.
    pub timestamp_ms: Option<i64>,
}

impl KafkaContent {
    /// Bytes it holds in memory, near enough to bound a batch by.
    pub fn size(&self) -> usize {
        let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        length(&self.key) + length(&self.value) + self.headers.0.len()
    }
}

/// Headers in the order they were sent, repetition included, packed one after the other:
/// 4 bytes of length and a name, 4 bytes of length (all ones for null) and a value. Numbers are
/// big-endian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordHeaders(Bytes);

impl RecordHeaders {
    /// Packs headers.
    pub fn pack<'a>(headers: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>) -> Self {
        let mut out = BytesMut::new();
        for (name, value) in headers {
            out.put_u32(name.len() as u32);
            out.put_slice(name.as_bytes());
            out.put_u32(value.map_or(NULL, |value| value.len() as u32));
            out.put_slice(value.unwrap_or_default());
        }
        Self(out.freeze())
    }

    /// Takes packed headers; `None` for bytes that [`pack`](Self::pack) never made.
    pub fn from_packed(packed: Bytes) -> Option<Self> {
        let mut rest = &packed[..];
        while !rest.is_empty() {
            next(&mut rest)?;
        }
        Some(Self(packed))
    }

    /// As packed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Each name with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || next(&mut rest))
    }
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, Option<&'a [u8]>)> {
    let length = rest.try_get_u32().ok()?;
    let name = std::str::from_utf8(take(rest, length)?).ok()?;
    let length = rest.try_get_u32().ok()?;
    let value = if length == NULL { None } else { Some(take(rest, length)?) };
    Some((name, value))
}

fn take<'a>(rest: &mut &'a [u8], length: u32) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length as usize)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn order_repetition_null_and_empty_are_kept() {
        let sent: [(&str, Option<&[u8]>); 5] =
            [("b", Some(b"1")), ("a", None), ("b", Some(b"")), ("", Some(b"\xff\0")), ("b", None)];
        let packed = RecordHeaders::pack(sent);
        assert_eq!(packed.iter().collect::<Vec<_>>(), sent);
        assert_eq!(RecordHeaders::default().iter().count(), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            if let Some(headers) = RecordHeaders::from_packed(bytes.clone().into()) {
                let again = RecordHeaders::pack(headers.iter());
                prop_assert_eq!(again.as_bytes(), &bytes[..]);
            }
        }
    }
}
