//! Reads what a captured record is and what its producer asked for.
//!
//! A value that steers a delay is text, or eight bytes big-endian as `LongSerializer` and
//! `ByteBuffer.putLong` write them; of several headers of one name the last counts, as in
//! `Headers.lastHeader`. A delay counts from the record's own timestamp, so that the time a record
//! waited to be read adds nothing; a timestamp that lies ahead counts as now. What asks for no delay
//! is due at its timestamp, so that it goes out first.
//!
//! rdkafka panics on a header whose name is not UTF-8, and offers no other way to read it. Such a
//! record is buried with what can be read of it; its topic still has it whole.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Header, Headers, Timestamp};

use crate::clock::{StoreClock, UnixMs};
use crate::delay::{self, Value, When, Wish};
use crate::message::{Content, KafkaContent, Reason, RecordHeaders};

thread_local! {
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread is caught right where it begins: no bug, and nothing to end for.
pub fn panic_is_expected() -> bool {
    EXPECTED.get()
}

/// Reads captured records.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// The store's clock.
    pub clock: Arc<StoreClock>,
    /// `delay.max`
    pub max_ms: u64,
}

/// A captured record, read.
pub(super) struct Captured {
    pub content: Content,
    pub wish: Result<Wish, Reason>,
    pub delay_ms: Option<u64>,
}

/// A record's timestamp, if it has one.
pub(super) fn stamp(record: &BorrowedMessage<'_>) -> Option<i64> {
    match record.timestamp() {
        Timestamp::NotAvailable => None,
        Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => (ms >= 0).then_some(ms),
    }
}

impl Reader {
    /// Reads one record.
    pub(super) fn read(&self, record: &BorrowedMessage<'_>) -> Captured {
        let now = self.clock.now();
        let timestamp_ms = stamp(record);
        let (headers, unreadable) = headers(record);
        let wish = if unreadable > 0 {
            Err(undecodable(record, unreadable))
        } else {
            delay::read(&steering(&headers), now, self.max_ms)
        };
        let (wish, delay_ms) = match wish {
            Ok(wish) => {
                let (wish, delay_ms) = counted_from(wish, timestamp_ms, now);
                (Ok(wish), delay_ms)
            }
            Err(reason) => (Err(reason), None),
        };
        let content = Content::Kafka(KafkaContent {
            key: record.key().map(Bytes::copy_from_slice),
            value: record.payload().map(Bytes::copy_from_slice),
            headers,
            partition: u32::try_from(record.partition()).unwrap_or(0),
            timestamp_ms,
        });
        Captured { content, wish, delay_ms }
    }
}

/// A delay counts from the record's timestamp. Also says the delay that a consumer is told.
fn counted_from(wish: Wish, stamp: Option<i64>, now: UnixMs) -> (Wish, Option<u64>) {
    let stamp = stamp.and_then(|stamp| UnixMs::try_from(stamp).ok());
    let since = |ms| stamp.map(|stamp| When::Since { stamp, ms });
    match wish {
        Wish::Hold(When::In(ms), id) => {
            (Wish::Hold(since(ms).unwrap_or(When::In(ms)), id), Some(ms))
        }
        Wish::Hold(When::At(due), id) => {
            (Wish::Hold(When::At(due), id), Some(due.saturating_sub(now).max(1)))
        }
        // Due since it was written: it goes before what was delayed beyond that.
        Wish::Hold(when, id) => (Wish::Hold(since(0).unwrap_or(when), id), None),
        Wish::Cancel(id) => (Wish::Cancel(id), None),
    }
}

/// All headers that can be read, and how many cannot.
fn headers(record: &BorrowedMessage<'_>) -> (RecordHeaders, usize) {
    let Some(headers) = record.headers() else {
        return (RecordHeaders::default(), 0);
    };
    let mut unreadable = 0;
    let readable = (0..headers.count()).filter_map(|index| match caught(headers, index) {
        Ok(header) => header.map(|Header { key, value }| (key, value)),
        Err(Unreadable) => {
            unreadable += 1;
            None
        }
    });
    let packed = RecordHeaders::pack(readable);
    (packed, unreadable)
}

/// A header's name is not UTF-8.
struct Unreadable;

fn caught<H: Headers>(headers: &H, index: usize) -> Result<Option<Header<'_, &[u8]>>, Unreadable> {
    EXPECTED.set(true);
    let read = catch_unwind(AssertUnwindSafe(|| headers.try_get(index)));
    EXPECTED.set(false);
    read.map_err(|_| Unreadable)
}

fn undecodable(record: &BorrowedMessage<'_>, unreadable: usize) -> Reason {
    let (topic, partition, offset) = (record.topic(), record.partition(), record.offset());
    let text = format!(
        "{unreadable} of its headers have a name that is not UTF-8 and are missing here; the whole \
         record is at {topic}/{partition}/{offset} as long as the topic keeps it"
    );
    Reason::new("undecodable", text)
}

/// The headers that steer a delay: the last of each name.
fn steering(headers: &RecordHeaders) -> delay::Headers<'_> {
    let mut steering = delay::Headers::default();
    for (name, value) in headers.iter() {
        match name {
            delay::DELAY => steering.delay = Some(number(value)),
            delay::DELIVER_AT => steering.deliver_at = Some(number(value)),
            delay::DELAY_ID => steering.id = Some(text(value)),
            delay::DELAY_CANCEL => steering.cancel = Some(text(value)),
            _ => {}
        }
    }
    steering
}

fn text(value: Option<&[u8]>) -> Value<'_> {
    value.map_or(Value::Other("null"), Value::Text)
}

/// Text where it reads as a number. Eight digits of text would as a binary number be 10^11 years.
fn number(value: Option<&[u8]>) -> Value<'_> {
    let Some(bytes) = value else { return Value::Other("null") };
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    match <[u8; 8]>::try_from(bytes) {
        Ok(binary) if !digits.iter().all(u8::is_ascii_digit) => {
            Value::Integer(i64::from_be_bytes(binary))
        }
        _ => Value::Text(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(headers: &[(&str, Option<&[u8]>)]) -> Result<Wish, Reason> {
        let headers = RecordHeaders::pack(headers.iter().copied());
        delay::read(&steering(&headers), 1_000_000, 60_000)
    }

    fn held(when: When) -> Result<Wish, Reason> {
        Ok(Wish::Hold(when, None))
    }

    #[test]
    fn a_number_is_text_or_eight_bytes() {
        assert_eq!(wish(&[("x-delay", Some(b"5000"))]), held(When::In(5_000)));
        assert_eq!(wish(&[("x-delay", Some(b"00005000"))]), held(When::In(5_000)));
        assert_eq!(wish(&[("x-delay", Some(b"-0005000"))]), held(When::AtOnce));
        assert_eq!(wish(&[("x-delay", Some(&5_000_i64.to_be_bytes()))]), held(When::In(5_000)));
        assert_eq!(wish(&[("x-delay", Some(&(-1_i64).to_be_bytes()))]), held(When::AtOnce));
        let at = 1_030_000_i64.to_be_bytes();
        assert_eq!(wish(&[("x-deliver-at", Some(&at))]), held(When::At(1_030_000)));
        for odd in [&b" 5"[..], b"5 ", b"", b"\0\0\0\x05", b"5.0", b"soon", b"60001"] {
            assert!(wish(&[("x-delay", Some(odd))]).is_err(), "{odd:?}");
        }
        assert!(wish(&[("x-delay", None)]).is_err(), "null is no number");
    }

    #[test]
    fn the_last_header_of_a_name_counts() {
        let twice = [("x-delay", Some(&b"1"[..])), ("a", None), ("x-delay", Some(b"2"))];
        assert_eq!(wish(&twice), held(When::In(2)));
        assert_eq!(wish(&[("X-Delay", Some(b"1"))]), held(When::AtOnce), "names are as they are");
    }

    #[test]
    fn a_delay_counts_from_the_timestamp_where_there_is_one() {
        let hold = |when| Wish::Hold(when, None);
        let counted = |when, stamp| counted_from(hold(when), stamp, 10_000);
        let since = |ms| hold(When::Since { stamp: 9_000, ms });
        assert_eq!(counted(When::In(500), Some(9_000)), (since(500), Some(500)));
        assert_eq!(counted(When::AtOnce, Some(9_000)), (since(0), None));
        assert_eq!(counted(When::In(500), None), (hold(When::In(500)), Some(500)));
        assert_eq!(counted(When::AtOnce, None), (hold(When::AtOnce), None));
        assert_eq!(counted(When::At(12_000), Some(9_000)).1, Some(2_000));
    }
}
