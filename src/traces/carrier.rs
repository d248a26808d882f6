//! A message as the carrier of a trace's context: its headers, as far as they are text.

use opentelemetry::propagation::Extractor;

use crate::delay::Value;
use crate::message::amqp::property_list::PropertyList;
use crate::message::amqp::table::{fields, value};
use crate::message::{AmqpContent, Content, KafkaContent};

/// The headers of this message.
pub(super) struct Carrier<'a>(pub(super) &'a Content);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let text = match self.0 {
            Content::Amqp(amqp) => of_amqp(amqp, key),
            Content::Kafka(record) => of_kafka(record, key),
        };
        std::str::from_utf8(text?).ok()
    }

    /// Nobody asks: a context is looked up under its names.
    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}

fn of_amqp<'a>(amqp: &'a AmqpContent, key: &str) -> Option<&'a [u8]> {
    let headers = PropertyList::read(&amqp.properties).ok()?.headers();
    let mut known = fields(headers).map_while(Result::ok);
    let field = known.find(|field| &headers[field.name.clone()] == key.as_bytes())?;
    match value(field.kind, &headers[field.value]) {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The last one counts, as with all headers that xdelay reads.
fn of_kafka<'a>(record: &'a KafkaContent, key: &str) -> Option<&'a [u8]> {
    record.headers.iter().filter(|(name, _)| *name == key).last()?.1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::RecordHeaders;
    use crate::message::amqp::table::{push_integer, push_text};

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// An AMQP message with these headers.
    fn amqp(headers: &[u8]) -> Content {
        let mut properties = vec![0x20, 0];
        properties.extend_from_slice(&(headers.len() as u32).to_be_bytes());
        properties.extend_from_slice(headers);
        Content::Amqp(AmqpContent { properties: properties.into(), ..AmqpContent::default() })
    }

    fn kafka(headers: &[(&str, Option<&[u8]>)]) -> Content {
        let headers = RecordHeaders::pack(headers.iter().copied());
        let (partition, timestamp_ms) = (0, None);
        Content::Kafka(KafkaContent { key: None, value: None, headers, partition, timestamp_ms })
    }

    #[test]
    fn the_context_is_found_among_other_headers_of_either_broker() {
        let mut headers = Vec::new();
        push_integer(&mut headers, "x-delay", 5);
        push_text(&mut headers, "traceparent", PARENT.as_bytes());
        push_text(&mut headers, "tracestate", b"congo=1");
        let content = amqp(&headers);
        assert_eq!(Carrier(&content).get("traceparent"), Some(PARENT));
        assert_eq!(Carrier(&content).get("tracestate"), Some("congo=1"));
        assert_eq!(Carrier(&content).get("baggage"), None);
        let older: (&str, Option<&[u8]>) = ("traceparent", Some(b"of an earlier hop"));
        let content =
            kafka(&[older, ("x-delay", Some(b"5")), ("traceparent", Some(PARENT.as_bytes()))]);
        assert_eq!(Carrier(&content).get("traceparent"), Some(PARENT));
        assert_eq!(Carrier(&kafka(&[("traceparent", None)])).get("traceparent"), None);
    }

    #[test]
    fn what_is_no_text_is_none() {
        let mut headers = Vec::new();
        push_integer(&mut headers, "traceparent", 5);
        assert_eq!(Carrier(&amqp(&headers)).get("traceparent"), None);
        assert_eq!(Carrier(&amqp(&[])).get("traceparent"), None);
        let content = kafka(&[("traceparent", Some(&[0xff]))]);
        assert_eq!(Carrier(&content).get("traceparent"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(properties: Vec<u8>) {
            let content = AmqpContent { properties: properties.into(), ..AmqpContent::default() };
            let _ = Carrier(&Content::Amqp(content)).get("traceparent");
        }
    }
}
