//! What the proxy's stamp does to a capture, and what a forged one cannot do.

use lapin::types::LongString;

use super::*;

const NOW: UnixMs = 1_700_000_000_000;
const MAX_MS: u64 = 1_000_000;

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

fn read(headers: &[(&str, AMQPValue)]) -> Captured {
    let clock = StoreClock::new();
    clock.observe(NOW, std::time::Instant::now());
    let reader = Reader { clock: Arc::new(clock), max_ms: MAX_MS };
    let table = headers.iter().map(|(name, value)| (ShortString::from(*name), value.clone()));
    let table: BTreeMap<_, _> = table.collect();
    let properties = BasicProperties::default().with_headers(table.into());
    reader.read(&"key".into(), properties, b"body".to_vec(), None)
}

fn stamped(stamp: &Stamp, delay: AMQPValue) -> Captured {
    read(&[("x-delay", delay), (STAMP, text(&stamp.encode()))])
}

fn properties_of(captured: &Captured) -> BasicProperties {
    let Content::Amqp(content) = &captured.content else { panic!("of RabbitMQ") };
    properties::decode(&content.properties).expect("ours")
}

#[test]
fn a_stamp_gives_uid_due_and_what_it_carried_and_is_taken_off() {
    let mut stamp = Stamp::new(NOW);
    stamp.due = Some(NOW + 4_000);
    stamp.priority = Some(7);
    stamp.expiration = Some("60000".into());
    let copies = AMQPValue::FieldArray(FieldArray::from(vec![text("copy")]));
    let captured = read(&[
        ("x-delay", AMQPValue::LongInt(5_000)),
        (STAMP, text(&stamp.encode())),
        (BCC_CARRIED, copies.clone()),
    ]);
    assert_eq!(captured.wish, Ok(Wish::Hold(When::At(NOW + 4_000), None)));
    assert_eq!((captured.delay_ms, captured.priority), (Some(5_000), 7));
    let properties = properties_of(&captured);
    assert_eq!(properties.priority(), &Some(7));
    assert_eq!(properties.expiration(), &Some("60000".into()));
    let headers = properties.headers().clone().expect("headers");
    assert_eq!(headers.inner().get("BCC"), Some(&copies));
    assert_eq!(headers.inner().len(), 2, "x-delay and BCC");
}

#[test]
fn a_capture_that_comes_again_has_the_same_uid() {
    let stamp = Stamp::new(NOW);
    let delay = AMQPValue::LongInt(5);
    let again = read(&[
        ("x-delay", delay.clone()),
        (STAMP, text(&stamp.encode())),
        ("x-delivery-count", AMQPValue::LongLongInt(1)),
        ("x-acquired-count", AMQPValue::LongLongInt(1)),
    ]);
    let first = stamped(&stamp, delay);
    assert!(first.uid.is_some());
    assert_eq!(first.uid, again.uid);
}

#[test]
fn a_forged_stamp_cannot_take_anothers_uid() {
    let stamp = Stamp::new(NOW);
    let theirs = stamped(&stamp, AMQPValue::LongInt(5));
    let forged = stamped(&stamp, AMQPValue::LongInt(6));
    assert_ne!(theirs.uid, forged.uid);
}

#[test]
fn a_forged_due_is_never_later_than_the_header_asks_for() {
    let mut stamp = Stamp::new(NOW);
    for due in [NOW + 5_000 + 10 * SKEW_MS, u64::MAX] {
        stamp.due = Some(due);
        let captured = stamped(&stamp, AMQPValue::LongInt(5_000));
        assert_eq!(captured.wish, Ok(Wish::Hold(When::In(5_000), None)), "{due}");
    }
    // What the headers forbid stays forbidden.
    stamp.due = Some(NOW);
    let beyond = stamped(&stamp, AMQPValue::LongLongInt(MAX_MS as i64 + 1));
    assert!(beyond.wish.is_err());
    let at_once = stamped(&stamp, AMQPValue::LongInt(0));
    assert_eq!(at_once.wish, Ok(Wish::Hold(When::AtOnce, None)));
}

#[test]
fn what_is_no_stamp_is_taken_off_and_means_nothing() {
    for wrong in [text("1 2 3"), AMQPValue::Void, AMQPValue::LongInt(1)] {
        let bad_copies = (BCC_CARRIED, AMQPValue::LongInt(1));
        let captured = read(&[("x-delay", AMQPValue::LongInt(5)), (STAMP, wrong), bad_copies]);
        assert_eq!(captured.uid, None);
        assert_eq!(captured.wish, Ok(Wish::Hold(When::In(5), None)));
        let headers = properties_of(&captured).headers().clone().expect("headers");
        assert_eq!(headers.inner().len(), 1, "x-delay");
    }
}
