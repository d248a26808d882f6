//! The reading of a delay, open to `fuzz/`.

use bytes::{Buf, Bytes};

use super::{Headers, Value, When, Wish, read};

const NOW: u64 = 1_700_000_000_000;

/// Reads four headers made of any bytes: for each a byte that says its type, and what it holds.
///
/// # Panics
/// When a wish is one that must never be granted: that is what is looked for.
pub fn wish(mut bytes: &[u8]) {
    let max_ms = u64::from(bytes.try_get_u32().unwrap_or(u32::MAX)) * 1_000;
    let held: [Option<Held>; 4] = std::array::from_fn(|_| Held::take(&mut bytes));
    let [delay, deliver_at, id, cancel] = held.each_ref().map(|it| it.as_ref().map(Held::value));
    let headers = Headers { delay, deliver_at, id, cancel };
    let wish = read(&headers, NOW, max_ms);
    assert_eq!(wish, read(&headers, NOW, max_ms), "what is read twice is the same");
    match wish {
        Ok(Wish::Cancel(_)) => assert!(cancel.is_some(), "nobody asked for a cancel"),
        Ok(Wish::Hold(when, known_as)) => {
            assert!(cancel.is_none(), "a cancel is not delivered");
            assert_eq!(known_as.is_some(), id.is_some(), "an id is neither lost nor made up");
            match when {
                When::In(ms) => assert!((1..=max_ms).contains(&ms), "beyond the longest delay"),
                When::At(due) => assert!(due <= NOW + max_ms, "beyond the longest delay"),
                When::AtOnce => {}
                When::Since { .. } => panic!("headers hold no time of writing"),
            }
        }
        Err(reason) => assert!(!reason.as_str().is_empty(), "a refusal says why"),
    }
}

/// A value with bytes of its own.
enum Held {
    Integer(i64),
    Float(f64),
    Text(Bytes),
    Seconds(u64),
    Other,
}

impl Held {
    fn take(from: &mut &[u8]) -> Option<Self> {
        match from.try_get_u8().ok()? % 8 {
            0 => Some(Self::Integer(from.try_get_i64().ok()?)),
            1 => Some(Self::Integer(from.try_get_i16().ok()?.into())),
            2 => Some(Self::Float(from.try_get_f64().ok()?)),
            3 | 4 => {
                let length = usize::from(from.try_get_u8().ok()?).min(from.len());
                Some(Self::Text(from.copy_to_bytes(length)))
            }
            5 => Some(Self::Seconds(from.try_get_u64().ok()?)),
            6 => Some(Self::Other),
            _ => None,
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Integer(it) => Value::Integer(*it),
            Self::Float(it) => Value::Float(*it),
            Self::Text(it) => Value::Text(it),
            Self::Seconds(it) => Value::Seconds(*it),
            Self::Other => Value::Other("table"),
        }
    }
}
