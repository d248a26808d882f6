//! From a parked record to what is released: as it was sent, but for the few headers that tell a
//! consumer what happened to it.

use rdkafka::message::{Header, OwnedHeaders};

use crate::delay;
use crate::message::{KafkaContent, Message};

const DELAYED_UID: &str = "x-delayed-uid";
const DELAYED_DUE: &str = "x-delayed-due";
const DELAYED_ID: &str = "x-delayed-id";

/// Not passed on: a consumer that copies headers into a retry must not replace or re-time by
/// accident, nor pass on what was said of the first record.
const DROPPED: [&str; 6] =
    [delay::DELIVER_AT, delay::DELAY_CANCEL, delay::DELAY_ID, DELAYED_UID, DELAYED_DUE, DELAYED_ID];

/// The headers of a record on release: those that were sent in their order, then ours.
pub(super) fn headers(message: &Message, record: &KafkaContent, due: u64) -> OwnedHeaders {
    let mut out = OwnedHeaders::new_with_capacity(record.headers.iter().count() + 4);
    let delayed = message.delay_ms.is_some();
    for (key, value) in record.headers.iter() {
        let replaced = delayed && key == delay::DELAY;
        if !replaced && !DROPPED.contains(&key) {
            out = out.insert(Header { key, value });
        }
    }
    let uid = message.uid.to_string();
    out = out.insert(Header { key: DELAYED_UID, value: Some(&uid) });
    out = out.insert(Header { key: DELAYED_DUE, value: Some(&due.to_string()) });
    if let Some(id) = &message.id {
        out = out.insert(Header { key: DELAYED_ID, value: Some(id.as_str()) });
    }
    if let Some(delay_ms) = message.delay_ms {
        // At most -1, so that it is never delayed again.
        let negated = format!("-{}", delay_ms.max(1));
        out = out.insert(Header { key: delay::DELAY, value: Some(&negated) });
    }
    out
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers;

    use super::*;
    use crate::message::{Content, ProducerId, RecordHeaders, Uid};

    #[test]
    fn headers_are_as_sent_then_ours() {
        let sent: [(&str, Option<&[u8]>); 6] = [
            ("b", Some(b"\xff")),
            ("x-delay", Some(b"10")),
            ("a", None),
            ("x-deliver-at", Some(b"1")),
            ("b", Some(b"")),
            ("x-delayed-uid", Some(b"of an earlier life")),
        ];
        let record = KafkaContent {
            key: None,
            value: None,
            headers: RecordHeaders::pack(sent),
            partition: 0,
            timestamp_ms: None,
        };
        let message = Message {
            uid: Uid::parse("orders/0/7").expect("printable"),
            id: ProducerId::new(b"me"),
            delay_ms: Some(10),
            content: Content::Kafka(record.clone()),
        };
        let out = headers(&message, &record, 77);
        let seen: Vec<_> = out.iter().map(|header| (header.key, header.value)).collect();
        let expected: [(&str, Option<&[u8]>); 7] = [
            ("b", Some(b"\xff")),
            ("a", None),
            ("b", Some(b"")),
            ("x-delayed-uid", Some(b"orders/0/7")),
            ("x-delayed-due", Some(b"77")),
            ("x-delayed-id", Some(b"me")),
            ("x-delay", Some(b"-10")),
        ];
        assert_eq!(seen, expected);
    }
}
