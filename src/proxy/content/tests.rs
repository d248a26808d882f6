//! Content headers as clients write them, and as the capture reads them.

use amq_protocol::frame::WriteContext;
use amq_protocol::protocol::basic::{AMQPProperties, gen_properties, parse_properties};
use amq_protocol::types::{AMQPValue, FieldArray, FieldTable};

use super::*;

const NOW: UnixMs = 1_700_000_000_000;
const MAX_MS: u64 = 1_000_000;

fn payload(properties: &AMQPProperties) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];
    let written = gen_properties(properties)(WriteContext::from(Vec::new())).unwrap();
    payload.extend(written.into_inner().0);
    payload
}

fn read_back(payload: &[u8]) -> AMQPProperties {
    let (rest, properties) = parse_properties(&payload[CONTENT_FIXED..]).unwrap();
    assert!(rest.is_empty());
    properties
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn with(headers: &[(&str, AMQPValue)]) -> AMQPProperties {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert((*name).into(), value.clone());
    }
    AMQPProperties::default().with_headers(table)
}

fn asks(headers: &[(&str, AMQPValue)]) -> bool {
    let payload = payload(&with(headers));
    assert!(Content::has_headers(&payload));
    Content::read(&payload).unwrap().asks_for_delay(|| NOW, MAX_MS).unwrap()
}

#[test]
fn what_is_to_be_delayed_is_told_from_what_is_not() {
    let int = AMQPValue::LongInt;
    let at = |ms: i64| AMQPValue::LongLongInt(NOW as i64 + ms);
    for delay in [int(1), text("300"), text("soon"), AMQPValue::Void, AMQPValue::Double(0.1)] {
        assert!(asks(&[("x-delay", delay.clone())]), "{delay:?}");
    }
    for delay in [int(0), int(-300), text("-5"), text("0"), AMQPValue::Float(-0.5)] {
        assert!(!asks(&[("x-delay", delay.clone())]), "{delay:?}");
    }
    for due in [at(1), at(MAX_MS as i64 + 1), text("tomorrow"), AMQPValue::Boolean(true)] {
        assert!(asks(&[("x-deliver-at", due.clone())]), "{due:?}");
    }
    for due in [at(0), at(-1), text("2020-01-01T00:00:00Z")] {
        assert!(!asks(&[("x-deliver-at", due.clone())]), "{due:?}");
    }
    assert!(asks(&[("x-delay-cancel", AMQPValue::Void)]));
    assert!(!asks(&[("x-delay-id", text("7")), ("X-Delay", int(5)), ("x-delay-x", int(5))]));
    assert!(!asks(&[]));
}

#[test]
fn a_message_without_headers_asks_for_nothing() {
    let bare = AMQPProperties::default().with_content_type("text/plain".into()).with_priority(9);
    assert!(!Content::has_headers(&payload(&bare)));
    assert!(!Content::has_headers(b"short"));
}

#[test]
fn a_stamp_carries_what_the_capture_queue_would_act_upon() {
    let copies = AMQPValue::FieldArray(FieldArray::from(vec![text("copy")]));
    let sent = with(&[
        ("x-delay", AMQPValue::LongInt(5_000)),
        ("BCC", copies.clone()),
        (STAMP, text("forged")),
        ("other", AMQPValue::FieldTable(FieldTable::default())),
    ]);
    let sent = sent
        .with_content_type("text/plain".into())
        .with_content_encoding("gzip".into())
        .with_delivery_mode(2)
        .with_priority(7)
        .with_correlation_id("correlation".into())
        .with_reply_to("reply".into())
        .with_expiration("60000".into())
        .with_message_id("message".into())
        .with_timestamp(1_700_000_000)
        .with_type("kind".into())
        .with_user_id("guest".into())
        .with_app_id("app".into())
        .with_cluster_id("cluster".into());
    let bytes = payload(&sent);
    let content = Content::read(&bytes).unwrap();
    let mut stamp = Stamp::new(NOW);
    stamp.due = content.due(NOW, MAX_MS);
    assert_eq!(stamp.due, Some(NOW + 5_000));
    let got = read_back(&content.stamped(stamp.clone()).unwrap());
    stamp.priority = Some(7);
    stamp.expiration = Some("60000".into());
    let mut headers = got.headers().clone().unwrap().inner().clone();
    assert_eq!(headers.remove(STAMP), Some(text(&stamp.encode())));
    assert_eq!(headers.remove(BCC_CARRIED), Some(copies));
    let left: Vec<_> = headers.keys().map(|name| name.as_str()).collect();
    assert_eq!(left, ["other", "x-delay"]);
    assert_eq!((got.priority(), got.expiration()), (&None, &None));
    let like_sent = got.with_headers(sent.headers().clone().unwrap()).with_priority(7);
    assert_eq!(like_sent.with_expiration("60000".into()), sent);
}

#[test]
fn what_the_broker_would_refuse_is_left_for_it_to_refuse() {
    let sent = with(&[("x-delay", AMQPValue::LongInt(5)), ("BCC", text("no list"))]);
    let bytes = payload(&sent.with_expiration("soon".into()));
    let got = read_back(&Content::read(&bytes).unwrap().stamped(Stamp::new(NOW)).unwrap());
    assert_eq!(got.expiration(), &Some("soon".into()));
    assert!(got.headers().as_ref().unwrap().inner().contains_key("BCC"));
}

#[test]
fn only_a_delay_has_a_due_of_its_own() {
    let due = |headers: &[(&str, AMQPValue)]| {
        Content::read(&payload(&with(headers))).unwrap().due(NOW, MAX_MS)
    };
    let delay = ("x-delay", AMQPValue::LongInt(9));
    assert_eq!(due(std::slice::from_ref(&delay)), Some(NOW + 9));
    assert_eq!(due(&[delay.clone(), ("x-deliver-at", text("soon"))]), None);
    assert_eq!(due(&[delay, ("x-delay-cancel", text("7"))]), None);
    assert_eq!(due(&[("x-delay", text("soon"))]), None);
}

#[test]
fn bytes_that_are_no_content_header_are_malformed() {
    let whole = payload(&with(&[("x-delay", AMQPValue::LongInt(5))]).with_priority(1));
    for cut in 0..whole.len() {
        assert!(Content::read(&whole[..cut]).is_err(), "{cut}");
    }
    let mut more_flags = whole.clone();
    more_flags[CONTENT_FIXED + 1] |= 1;
    assert!(Content::read(&more_flags).is_err());
    let mut longer = whole;
    longer.push(0);
    assert!(Content::read(&longer).is_err());
}
