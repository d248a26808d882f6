//! The walk over what a client sends, in whatever pieces it comes.

use std::collections::HashMap;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::basic::{self, AMQPProperties};
use amq_protocol::protocol::{AMQPClass, channel, connection, exchange, queue};
use amq_protocol::types::{AMQPValue, FieldTable};
use proptest::prelude::*;

use super::*;

const NOW: UnixMs = 1_700_000_000_000;

/// Delays for everything but `audit`; has to be asked about `new`, and refuses `bad`. Its clock
/// goes on by a millisecond whenever it is read.
#[derive(Default)]
pub(super) struct Fixed(std::sync::atomic::AtomicU64);

impl Rules for Fixed {
    fn includes(&self, exchange: &[u8]) -> bool {
        exchange != b"audit" && !exchange.starts_with(PREFIX.as_bytes())
    }

    fn fate(&self, exchange: &[u8], vhost: &[u8]) -> Option<Fate> {
        assert_eq!(vhost, b"/");
        match exchange {
            b"new" => None,
            b"bad" => Some(Fate::Refuse("because".into())),
            _ => Some(Fate::Capture),
        }
    }

    fn now(&self) -> UnixMs {
        NOW
    }

    fn latest(&self) -> UnixMs {
        NOW + self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    fn max_ms(&self) -> u64 {
        1_000_000
    }

    fn must_note(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }

    fn may_be_declared(&self, exchange: &[u8], _: &[u8]) -> bool {
        exchange != b"plain"
    }

    fn forget(&self, exchange: &[u8]) {
        assert_eq!(exchange, b"gone");
    }
}

fn bytes(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(WriteContext::from(Vec::new())).unwrap().into_inner().0
}

fn frames(mut bytes: &[u8]) -> Vec<AMQPFrame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (rest, frame) = parse_frame(bytes).unwrap();
        frames.push(frame);
        bytes = rest;
    }
    frames
}

fn method(channel: u16, method: AMQPClass) -> Vec<u8> {
    bytes(&AMQPFrame::Method(channel, method))
}

/// Method, content header and body of a publish.
fn publish(channel: u16, exchange: &str, delay: Option<i32>, body: &[u8]) -> [Vec<u8>; 3] {
    let mut properties = AMQPProperties::default().with_priority(3);
    if let Some(delay) = delay {
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), AMQPValue::LongInt(delay));
        properties = properties.with_headers(headers);
    }
    let publish = basic::Publish {
        exchange: exchange.into(),
        routing_key: "key".into(),
        ..basic::Publish::default()
    };
    let body_size = body.len() as u64;
    let header = AMQPContentHeader { class_id: 60, body_size, properties };
    [
        method(channel, AMQPClass::Basic(basic::AMQPMethod::Publish(publish))),
        bytes(&AMQPFrame::Header(channel, header)),
        bytes(&AMQPFrame::Body(channel, body.to_vec())),
    ]
}

fn handshake() -> Vec<u8> {
    let tune = connection::TuneOk { channel_max: 9, frame_max: 4_096, heartbeat: 7 };
    let open = connection::Open { virtual_host: "/".into() };
    [
        method(0, AMQPClass::Connection(connection::AMQPMethod::TuneOk(tune))),
        method(0, AMQPClass::Connection(connection::AMQPMethod::Open(open))),
    ]
    .concat()
}

fn asks_new() -> Stop {
    Stop::Ask(Question::Publish("new".into()))
}

/// A walk that is open, with what it has left over and what it has sent.
struct Walk {
    requests: Requests<Fixed>,
    rest: Vec<u8>,
    sent: Vec<u8>,
}

impl Walk {
    fn open() -> Self {
        let requests = Requests::new(Arc::<Fixed>::default(), LoginRules::default());
        let mut walk = Self { requests, rest: Vec::new(), sent: Vec::new() };
        assert_eq!(walk.feed(&handshake()), Stop::More);
        assert_eq!(std::mem::take(&mut walk.sent), handshake());
        walk.requests.open();
        walk
    }

    fn feed(&mut self, bytes: &[u8]) -> Stop {
        self.rest.extend_from_slice(bytes);
        let mut out = BytesMut::new();
        let (passed, stop) = self.requests.pass(&self.rest, &mut out).unwrap();
        let came: Vec<_> = self.rest.drain(..passed.consumed).collect();
        self.sent.extend(if passed.verbatim { came } else { out.to_vec() });
        stop
    }
}

/// By channel: where each publish went, and the names of its headers.
type Publishes = HashMap<u16, Vec<(String, Vec<String>)>>;

/// The publishes, and how much else was sent.
fn account(sent: &[u8]) -> (Publishes, usize) {
    let (mut publishes, mut others) = (Publishes::new(), 0);
    let mut last: HashMap<u16, String> = HashMap::new();
    for frame in frames(sent) {
        match frame {
            AMQPFrame::Method(on, AMQPClass::Basic(basic::AMQPMethod::Publish(publish))) => {
                assert_eq!(last.insert(on, publish.exchange.to_string()), None);
            }
            AMQPFrame::Header(on, header) => {
                let exchange = last.remove(&on).expect("a publish before its header");
                let headers = header.properties.headers().clone().unwrap_or_default();
                let names = headers.inner().keys().map(ToString::to_string).collect();
                let of = publishes.entry(on).or_default();
                of.push((exchange, names));
            }
            _ => others += 1,
        }
    }
    (publishes, others)
}

#[test]
fn a_delayed_publish_goes_to_the_capture_and_all_else_passes() {
    let mut walk = Walk::open();
    let before = publish(1, "orders", None, b"at once").concat();
    let zero = publish(1, "orders", Some(0), b"at once").concat();
    let excluded = publish(1, "audit", Some(500), b"at once").concat();
    let captured = publish(1, "xdelay.orders", Some(500), b"by itself").concat();
    let untouched = [before, zero, excluded, captured].concat();
    assert_eq!(walk.feed(&untouched), Stop::More);
    assert_eq!(walk.sent, untouched);
    walk.sent.clear();
    walk.feed(&publish(1, "orders", Some(500), b"later").concat());
    let found = frames(&walk.sent);
    assert_eq!(found.len(), 3);
    let AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Publish(moved))) = &found[0]
    else {
        panic!("{found:?}");
    };
    assert_eq!((moved.exchange.as_str(), moved.routing_key.as_str()), ("xdelay.orders", "key"));
    let AMQPFrame::Header(1, header) = &found[1] else { panic!("{found:?}") };
    assert_eq!((header.class_id, header.body_size), (60, 5));
    let headers = header.properties.headers().clone().unwrap();
    let Some(AMQPValue::LongString(stamp)) = headers.inner().get("x-delay-stamp") else {
        panic!("{headers:?}");
    };
    let stamp = Stamp::decode(stamp.as_bytes()).expect("a stamp");
    assert_eq!((stamp.due, stamp.priority), (Some(NOW + 500), Some(3)));
    assert_eq!(found[2], AMQPFrame::Body(1, b"later".to_vec()));
}

#[test]
fn it_is_the_same_wherever_the_stream_is_cut() {
    let stream = [
        publish(1, "orders", Some(500), b"later").concat(),
        publish(1, "orders", None, &[0xce; 40]).concat(),
        bytes(&AMQPFrame::Heartbeat),
        publish(2, "orders", Some(7), b"").concat(),
    ]
    .concat();
    let expected = |walk: &Walk| {
        let (publishes, others) = account(&walk.sent);
        let stamped = ("xdelay.orders".to_owned(), vec!["x-delay".into(), "x-delay-stamp".into()]);
        let plain = ("orders".to_owned(), vec![]);
        assert_eq!(publishes[&1], [stamped.clone(), plain]);
        assert_eq!(publishes[&2], [stamped]);
        assert_eq!(others, 4);
        assert!(walk.rest.is_empty());
    };
    for cut in 0..stream.len() {
        let mut walk = Walk::open();
        walk.feed(&stream[..cut]);
        walk.feed(&stream[cut..]);
        expected(&walk);
    }
    let mut bytewise = Walk::open();
    for byte in &stream {
        bytewise.feed(&[*byte]);
    }
    expected(&bytewise);
}

#[test]
fn channels_may_interleave() {
    let [method_1, header_1, body_1] = publish(1, "orders", Some(500), b"one");
    let [method_2, header_2, body_2] = publish(2, "orders", None, b"two");
    let mut walk = Walk::open();
    for frame in [&method_1, &method_2, &header_1, &header_2, &body_2, &body_1] {
        walk.feed(frame);
    }
    let (publishes, others) = account(&walk.sent);
    assert_eq!(publishes[&1][0].0, "xdelay.orders");
    assert_eq!(publishes[&2][0].0, "orders");
    assert_eq!(others, 2);
}

#[test]
fn a_publish_without_its_header_is_for_the_broker_to_judge() {
    let [method_1, ..] = publish(1, "orders", Some(500), b"one");
    let beat = bytes(&AMQPFrame::Heartbeat);
    let ack = method(1, AMQPClass::Basic(basic::AMQPMethod::Ack(basic::Ack::default())));
    let mut walk = Walk::open();
    walk.feed(&[&method_1[..], &beat, &ack].concat());
    assert_eq!(walk.sent, [&beat[..], &method_1, &ack].concat());
}

#[test]
fn nothing_is_sent_before_the_broker_has_opened_the_connection() {
    let requests = Requests::new(Arc::<Fixed>::default(), LoginRules::default());
    let mut walk = Walk { requests, rest: Vec::new(), sent: Vec::new() };
    let eager = publish(1, "orders", Some(500), b"later").concat();
    assert_eq!(walk.feed(&[handshake(), eager].concat()), Stop::Opening);
    assert_eq!(walk.sent, handshake());
    walk.sent.clear();
    walk.requests.open();
    assert_eq!(walk.feed(b""), Stop::More);
    assert_eq!(account(&walk.sent).0[&1][0].0, "xdelay.orders");
    assert_eq!(walk.requests.heartbeat(), 7);
}

#[test]
fn a_publish_waits_until_its_fate_is_known_and_heartbeats_do_not() {
    for (fate, exchange) in [(Fate::Capture, "xdelay.new"), (Fate::Forward, "new")] {
        let mut walk = Walk::open();
        let before = publish(1, "orders", None, b"at once").concat();
        let waits = publish(1, "new", Some(500), b"later").concat();
        let stop = walk.feed(&[before.clone(), waits].concat());
        assert_eq!(stop, asks_new());
        assert_eq!(walk.sent, before);
        walk.sent.clear();
        walk.requests.insert(&frames::BEAT);
        assert_eq!(walk.feed(b""), asks_new());
        assert_eq!(std::mem::take(&mut walk.sent), frames::BEAT);
        walk.requests.answer(Question::Publish("new".into()), fate);
        assert_eq!(walk.feed(b""), Stop::More);
        assert_eq!(account(&walk.sent).0[&1][0].0, exchange);
    }
}

/// The due in the only stamp among what was sent.
fn due(sent: &[u8]) -> Option<UnixMs> {
    let headers = frames(sent).into_iter().find_map(|frame| match frame {
        AMQPFrame::Header(_, header) => header.properties.headers().clone(),
        _ => None,
    });
    match headers?.inner().get("x-delay-stamp")? {
        AMQPValue::LongString(text) => Stamp::decode(text.as_bytes())?.due,
        _ => None,
    }
}

#[test]
fn the_delay_of_a_publish_that_had_to_wait_counts_from_when_it_came() {
    let mut walk = Walk::open();
    walk.feed(&publish(1, "new", Some(500), b"waits").concat());
    walk.requests.rules.latest();
    walk.requests.answer(Question::Publish("new".into()), Fate::Capture);
    walk.feed(b"");
    assert_eq!(due(&walk.sent), Some(NOW + 500));
    walk.sent.clear();
    walk.feed(&publish(1, "orders", Some(500), b"does not").concat());
    assert_eq!(due(&walk.sent), Some(NOW + 502));
    // One that was let go leaves nothing behind.
    walk.feed(&publish(1, "new", Some(500), b"waits in vain").concat());
    walk.requests.answer(Question::Publish("new".into()), Fate::Forward);
    walk.sent.clear();
    walk.feed(&publish(1, "orders", Some(500), b"does not").concat());
    walk.sent.drain(..publish(1, "new", Some(500), b"waits in vain").concat().len());
    assert_eq!(due(&walk.sent), Some(NOW + 504));
}

#[test]
fn a_publish_held_for_its_header_may_have_to_wait_for_its_fate_too() {
    let [method_1, header_1, body_1] = publish(1, "new", Some(500), b"one");
    let mut walk = Walk::open();
    walk.feed(&[method_1, bytes(&AMQPFrame::Heartbeat)].concat());
    assert_eq!(walk.feed(&[header_1, body_1].concat()), asks_new());
    walk.requests.answer(Question::Publish("new".into()), Fate::Capture);
    walk.feed(b"");
    assert_eq!(account(&walk.sent).0[&1][0].0, "xdelay.new");
}

#[test]
fn a_refused_publish_closes_its_channel_on_both_sides() {
    let mut walk = Walk::open();
    let refused = publish(1, "bad", Some(500), b"never").concat();
    let too_late = publish(1, "orders", None, b"lost with its channel").concat();
    let other = publish(2, "orders", None, b"passes").concat();
    walk.feed(&[refused, too_late, other.clone()].concat());
    assert_eq!(
        walk.requests.events(),
        [Event::Refused(1, methods::BASIC_PUBLISH, "because".into())]
    );
    let found = frames(&walk.sent);
    let AMQPFrame::Method(1, AMQPClass::Channel(channel::AMQPMethod::Close(_))) = &found[0] else {
        panic!("{found:?}");
    };
    assert!(walk.sent.ends_with(&other) && found.len() == 4, "{found:?}");
    walk.sent.clear();
    // The client hears of it, and begins anew.
    walk.feed(&method(1, AMQPClass::Channel(channel::AMQPMethod::CloseOk(channel::CloseOk {}))));
    assert_eq!(walk.sent, b"");
    let open = method(1, AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {})));
    walk.feed(&open);
    assert_eq!(walk.sent, open);
}

#[test]
fn a_client_that_closes_a_closed_channel_is_answered() {
    let mut walk = Walk::open();
    walk.feed(&publish(1, "bad", Some(500), b"never").concat());
    walk.requests.events();
    let close = channel::AMQPMethod::Close(channel::Close::default());
    walk.feed(&method(1, AMQPClass::Channel(close)));
    assert_eq!(walk.requests.events(), [Event::Closed(1)]);
    walk.sent.clear();
    let open = method(1, AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {})));
    walk.feed(&open);
    assert_eq!(walk.sent, open);
}

#[test]
fn a_header_that_would_not_fit_a_frame_goes_without_a_stamp() {
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), AMQPValue::LongInt(5));
    headers.insert("large".into(), AMQPValue::LongString("x".repeat(4_020).into()));
    let properties = AMQPProperties::default().with_headers(headers);
    let header = AMQPContentHeader { class_id: 60, body_size: 0, properties };
    let header = bytes(&AMQPFrame::Header(1, header));
    assert!(header.len() <= 4_096);
    let [method, ..] = publish(1, "orders", None, b"");
    let mut walk = Walk::open();
    walk.feed(&[&method[..], &header].concat());
    assert!(walk.sent.ends_with(&header));
    assert_eq!(account(&walk.sent).0[&1][0].0, "xdelay.orders");
}

fn declare(name: &str, kind: &str, delayed_type: &str) -> Vec<u8> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-delayed-type".into(), AMQPValue::LongString(delayed_type.into()));
    let declare = exchange::Declare {
        exchange: name.into(),
        kind: kind.into(),
        arguments,
        ..exchange::Declare::default()
    };
    method(1, AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare)))
}

#[test]
fn a_delayed_exchange_is_noted_and_then_declared_with_its_real_type() {
    let mut walk = Walk::open();
    let stop = walk.feed(&declare("later", "x-delayed-message", "topic"));
    let noting = Question::Declared("later".into());
    assert_eq!((stop, walk.sent.len()), (Stop::Ask(noting.clone()), 0));
    walk.requests.answer(noting, Fate::Capture);
    walk.feed(b"");
    let AMQPFrame::Method(1, AMQPClass::Exchange(exchange::AMQPMethod::Declare(declared))) =
        frames(&walk.sent).remove(0)
    else {
        panic!("{:?}", walk.sent);
    };
    assert_eq!(declared.kind.as_str(), "topic");
    assert!(declared.arguments.inner().is_empty());
}

#[test]
fn a_delayed_exchange_without_a_real_type_is_refused_in_the_plugins_words() {
    let mut walk = Walk::open();
    walk.feed(&declare("later", "x-delayed-message", "x-not-valid-type"));
    let why = "Invalid argument, 'x-delayed-type' must be an existing exchange type";
    let refused = Event::Refused(1, methods::EXCHANGE_DECLARE, why.into());
    assert_eq!(walk.requests.events(), [refused]);
}

#[test]
fn other_declarations_and_deletions_pass_as_they_are() {
    let delete = exchange::Delete { exchange: "gone".into(), ..Default::default() };
    let stream = [
        declare("orders", "topic", "topic"),
        method(1, AMQPClass::Exchange(exchange::AMQPMethod::Delete(delete))),
        queue_into("plain"),
    ]
    .concat();
    let mut walk = Walk::open();
    for byte in &stream {
        walk.feed(&[*byte]);
    }
    assert_eq!(walk.sent, stream);
}

fn queue_into(exchange: &str) -> Vec<u8> {
    let mut arguments = FieldTable::default();
    let dead_letter = AMQPValue::LongString(exchange.into());
    arguments.insert("x-dead-letter-exchange".into(), dead_letter);
    let declare = queue::Declare { queue: "work".into(), arguments, ..Default::default() };
    method(1, AMQPClass::Queue(queue::AMQPMethod::Declare(declare)))
}

#[test]
fn a_queue_dead_letters_into_the_capture_of_a_delayed_exchange() {
    let question = Question::DeadLetter("later".into());
    for (fate, expected) in
        [(Fate::Capture, queue_into("xdelay.later")), (Fate::Forward, queue_into("later"))]
    {
        let mut walk = Walk::open();
        assert_eq!(walk.feed(&queue_into("later")), Stop::Ask(question.clone()));
        walk.requests.answer(question.clone(), fate);
        walk.feed(b"");
        assert_eq!(walk.sent, expected);
    }
}

#[test]
fn what_is_too_large_to_wait_for_passes() {
    let mut walk = Walk::open();
    let [method, ..] = publish(1, "orders", None, b"");
    let endless = [&[HEADER, 0, 1, 0xff, 0xff, 0xff, 0xff][..], &[0; 64]].concat();
    walk.feed(&[&method[..], &endless].concat());
    assert!(walk.rest.is_empty(), "nothing is buffered for it");
}

#[test]
fn bytes_that_are_no_frames_are_a_violation() {
    let mut requests = Requests::new(Arc::<Fixed>::default(), LoginRules::default());
    requests.open();
    assert!(requests.pass(b"GET / HTTP/1.1\r\n", &mut BytesMut::new()).is_err());
    let mut unended = publish(1, "orders", None, b"body").concat();
    let last = unended.len() - 1;
    unended[last] = 0;
    assert!(requests.pass(&unended, &mut BytesMut::new()).is_err());
}

/// What a client may send, and whether it is to be delayed.
fn anything() -> impl Strategy<Value = (u16, Option<i32>, Vec<u8>)> {
    let delay = proptest::option::of(-2_i32..3);
    (1_u16..4, delay, proptest::collection::vec(any::<u8>(), 0..50))
}

proptest! {
    #[test]
    fn pieces_and_channels_change_nothing(
        messages in proptest::collection::vec(anything(), 1..12),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 36),
        cuts in proptest::collection::vec(1_usize..40, 1..40),
    ) {
        // Frames of each channel in order, channels in any order.
        let mut queues: HashMap<u16, Vec<Vec<u8>>> = HashMap::new();
        let mut expected: HashMap<u16, Vec<String>> = HashMap::new();
        for (channel, delay, body) in &messages {
            queues.entry(*channel).or_default().extend(publish(*channel, "orders", *delay, body));
            let delayed = delay.is_some_and(|delay| delay > 0);
            let exchange = if delayed { "xdelay.orders" } else { "orders" };
            expected.entry(*channel).or_default().push(exchange.to_owned());
        }
        let mut stream = Vec::new();
        for pick in order.iter().cycle() {
            let mut channels: Vec<_> = queues.iter().filter(|(_, left)| !left.is_empty()).collect();
            channels.sort();
            if channels.is_empty() {
                break;
            }
            let channel = *channels[pick.index(channels.len())].0;
            stream.extend(queues.get_mut(&channel).unwrap().remove(0));
        }
        let mut walk = Walk::open();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            walk.feed(piece);
            rest = after;
        }
        let (publishes, bodies) = account(&walk.sent);
        prop_assert_eq!(bodies, messages.len());
        for (channel, found) in publishes {
            let exchanges: Vec<_> = found.into_iter().map(|(exchange, _)| exchange).collect();
            prop_assert_eq!(&exchanges, &expected[&channel]);
        }
        prop_assert!(walk.rest.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut requests = Requests::new(Arc::<Fixed>::default(), LoginRules::default());
        requests.open();
        let _ = requests.pass(&bytes, &mut BytesMut::new());
        let mut framed = BytesMut::new();
        frames::write(&mut framed, METHOD, 1, &[&[0, 60, 0, 40], &bytes]);
        frames::write(&mut framed, HEADER, 1, &[&[0; 12], &[0x20, 0], &bytes]);
        let mut requests = Requests::new(Arc::<Fixed>::default(), LoginRules::default());
        requests.open();
        let _ = requests.pass(&framed, &mut BytesMut::new());
        let mut publish = publish(1, "orders", None, b"")[0].clone();
        frames::write(&mut framed, HEADER, 1, &[&[0; 12], &[0x20, 0], &bytes]);
        publish.extend_from_slice(&framed);
        let mut requests = Requests::new(Arc::<Fixed>::default(), LoginRules::default());
        requests.open();
        let _ = requests.pass(&publish, &mut BytesMut::new());
    }

    #[test]
    fn nonsense_among_frames_is_the_same_wherever_it_is_cut(
        pieces in proptest::collection::vec(nonsense(), 0..8),
        cut in 1_usize..60,
    ) {
        crate::proxy::fuzz::walk(&pieces.concat(), cut);
    }
}

/// Frames that make sense, and some that do not.
fn nonsense() -> impl Strategy<Value = Vec<u8>> {
    let sense = anything()
        .prop_map(|(channel, delay, body)| publish(channel, "orders", delay, &body).concat());
    let bytes = proptest::collection::vec(any::<u8>(), 0..30);
    let framed = (1_u8..4, 0_u16..3, bytes.clone()).prop_map(|(kind, channel, bytes)| {
        let mut out = BytesMut::new();
        frames::write(&mut out, kind, channel, &[&bytes]);
        out.to_vec()
    });
    let publishing = (0_u16..3, bytes).prop_map(|(channel, bytes)| {
        let mut out = BytesMut::new();
        frames::write(&mut out, METHOD, channel, &[&[0, 60, 0, 40], &bytes]);
        out.to_vec()
    });
    prop_oneof![sense, framed, publishing]
}
