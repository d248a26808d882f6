//! Declarations as clients write them.

use amq_protocol::frame::{AMQPFrame, WriteContext, gen_frame};
use amq_protocol::protocol::{AMQPClass, exchange as exchanges, parse_class, queue};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::*;

fn payload(method: AMQPClass) -> Vec<u8> {
    let frame = AMQPFrame::Method(1, method);
    let whole = gen_frame(&frame)(WriteContext::from(Vec::new())).unwrap().into_inner().0;
    whole[7..whole.len() - 1].to_vec()
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn table(pairs: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert((*name).into(), value.clone());
    }
    table
}

fn declared(kind: &str, passive: bool, arguments: &[(&str, AMQPValue)]) -> exchanges::Declare {
    exchanges::Declare {
        exchange: "later".into(),
        kind: kind.into(),
        passive,
        durable: true,
        auto_delete: false,
        internal: false,
        nowait: true,
        arguments: table(arguments),
    }
}

fn bytes(declare: exchanges::Declare) -> Vec<u8> {
    payload(AMQPClass::Exchange(exchanges::AMQPMethod::Declare(declare)))
}

#[test]
fn the_plugins_type_becomes_the_type_it_names() {
    let alternate = ("alternate-exchange", text("other"));
    let sent = declared(
        "x-delayed-message",
        false,
        &[alternate.clone(), ("x-delayed-type", text("topic"))],
    );
    let expected = bytes(declared("topic", false, &[alternate]));
    let bytes = bytes(sent);
    assert_eq!(exchange(&bytes), Exchange::Delayed { name: b"later", payload: expected });
}

#[test]
fn what_the_plugin_refuses_is_refused() {
    let int = AMQPValue::LongInt(1);
    for bad in [
        vec![],
        vec![("x-delayed-type", text("x-not-valid-type"))],
        vec![("x-delayed-type", text("x-delayed-message"))],
        vec![("x-delayed-type", text(""))],
        vec![("x-delayed-type", int)],
    ] {
        assert_eq!(exchange(&bytes(declared("x-delayed-message", false, &bad))), Exchange::Bad);
    }
}

#[test]
fn other_declarations_pass() {
    let argument = ("x-delayed-type", text("topic"));
    for declare in [
        declared("topic", false, &[argument]),
        declared("x-delayed-message", true, &[]),
        declared("direct", false, &[]),
    ] {
        assert_eq!(exchange(&bytes(declare)), Exchange::Other);
    }
    let whole = bytes(declared("x-delayed-message", false, &[("x-delayed-type", text("fanout"))]));
    for cut in 0..whole.len() {
        assert_eq!(exchange(&whole[..cut]), Exchange::Other, "{cut}");
    }
}

#[test]
fn a_queue_dead_letters_into_another_exchange_and_keeps_the_rest() {
    let declare = |exchange: &str| queue::Declare {
        queue: "work".into(),
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: true,
        nowait: false,
        arguments: table(&[
            ("x-dead-letter-exchange", text(exchange)),
            ("x-message-ttl", AMQPValue::LongInt(9)),
        ]),
    };
    let queue =
        |exchange: &str| payload(AMQPClass::Queue(queue::AMQPMethod::Declare(declare(exchange))));
    let sent = queue("later");
    assert_eq!(dead_letters_to(&sent), Some(&b"later"[..]));
    assert_eq!(dead_lettering_to(&sent, b"xdelay.later"), Some(queue("xdelay.later")));
    for cut in 0..sent.len() {
        assert_eq!(dead_letters_to(&sent[..cut]), None);
    }
}

#[test]
fn a_deleted_exchange_is_known_by_its_name() {
    let delete = exchanges::Delete { exchange: "later".into(), if_unused: false, nowait: false };
    let bytes = payload(AMQPClass::Exchange(exchanges::AMQPMethod::Delete(delete)));
    assert_eq!(deleted(&bytes), Some(&b"later"[..]));
    assert!(parse_class(&bytes[..]).is_ok());
}
