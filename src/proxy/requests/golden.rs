//! What real clients send, recorded: it comes out as it went in, but for exactly the bytes that are
//! meant to be changed, however the stream is cut.
//!
//! Each change is undone by hand here, in the bytes; what then is not the recording, byte for byte,
//! was not meant. `RECORD_STREAMS=1 dev/services run main cargo test --test it -- proxy::clients`
//! records anew what the clients of `tests/it/proxy` send.

use super::tests::Fixed;
use super::*;
use crate::message::amqp::property_list::CONTENT_FIXED;

/// Before what a client sends.
const PROTOCOL: &[u8] = b"AMQP\0\0\x09\x01";
/// Where pieces end: everywhere, at odd places, nowhere.
const PIECES: [usize; 6] = [1, 2, 7, 61, 1_000, usize::MAX];
/// The flag of a content header that says that a priority is there.
const PRIORITY: u8 = 0x08;

/// How many declares and publishes of a stream are changed.
#[derive(Debug, PartialEq, Eq)]
struct Changed {
    declares: usize,
    publishes: usize,
}

fn holds(client: &str, declares: usize, publishes: usize) {
    let path = format!("{}/tests/data/streams/{client}.bin", env!("CARGO_MANIFEST_DIR"));
    let recorded = std::fs::read(&path).expect("a recording");
    let sent = recorded.strip_prefix(PROTOCOL).expect("AMQP 0-9-1");
    for piece in PIECES {
        let passed = walk(sent, piece);
        let (undone, changed) = undo(sent, &passed);
        assert_eq!(changed, Changed { declares, publishes }, "{client} in pieces of {piece}");
        assert!(undone == sent, "{client} in pieces of {piece}: more than that was changed");
    }
}

#[test]
fn a_stream_of_pika() {
    holds("pika", 0, 7);
}

#[test]
fn a_stream_of_nodes_amqplib() {
    holds("node", 1, 3);
}

#[test]
fn a_stream_of_amqp091_go() {
    holds("go", 1, 4);
}

#[test]
fn a_stream_of_rabbitmqs_java_client() {
    holds("java", 1, 4);
}

/// Its messages have a priority, which moves into the stamp.
#[test]
fn a_stream_of_spring_amqp() {
    holds("spring", 1, 3);
}

/// What goes to the broker when a stream comes in pieces.
fn walk(stream: &[u8], piece: usize) -> Vec<u8> {
    let mut requests = Requests::new(Arc::<Fixed>::default(), LoginRules::default());
    let (mut rest, mut sent) = (Vec::new(), Vec::new());
    for bytes in stream.chunks(piece) {
        rest.extend_from_slice(bytes);
        loop {
            let mut out = BytesMut::new();
            let (passed, stop) = requests.pass(&rest, &mut out).expect("AMQP");
            let came: Vec<_> = rest.drain(..passed.consumed).collect();
            sent.extend(if passed.verbatim { came } else { out.to_vec() });
            match stop {
                Stop::More => break,
                Stop::Opening => requests.open(),
                Stop::Ask(question) => requests.answer(question, Fate::Capture),
            }
        }
    }
    assert!(rest.is_empty(), "all of it has passed");
    sent
}

/// Takes every change back; `sent` tells where there is one.
fn undo(sent: &[u8], passed: &[u8]) -> (Vec<u8>, Changed) {
    let (sent, passed) = (payloads(sent), payloads(passed));
    assert_eq!(sent.len(), passed.len(), "no frame is added or taken");
    let (mut undone, mut changed) = (BytesMut::new(), Changed { declares: 0, publishes: 0 });
    let mut stamps = 0;
    for ((lead, was), (_, is)) in sent.into_iter().zip(passed) {
        let back = match frames::method_id(was) {
            _ if was == is => is.to_vec(),
            _ if lead.kind == HEADER => {
                stamps += 1;
                unstamped(is)
            }
            Some(methods::BASIC_PUBLISH) => {
                changed.publishes += 1;
                unredirected(is)
            }
            Some(methods::EXCHANGE_DECLARE) => {
                changed.declares += 1;
                undeclared(is)
            }
            other => panic!("{other:?} was changed"),
        };
        frames::write(&mut undone, lead.kind, lead.channel, &[&back]);
    }
    assert_eq!(stamps, changed.publishes, "what is redirected is stamped, and nothing else");
    (undone.to_vec(), changed)
}

fn payloads(mut stream: &[u8]) -> Vec<(Lead, &[u8])> {
    let mut payloads = Vec::new();
    while let Some(lead) = Lead::read(stream).expect("a frame") {
        payloads.push((lead, lead.payload(stream).expect("a frame").expect("all of it")));
        stream = &stream[lead.whole()..];
    }
    assert!(stream.is_empty(), "all of it is frames");
    payloads
}

/// A publish, to the exchange itself again.
fn unredirected(publish: &[u8]) -> Vec<u8> {
    let (fixed, exchange) = publish.split_at(6);
    let rest = exchange[1..].strip_prefix(b"xdelay.").expect("a capture");
    [fixed, &[exchange[0] - 7], rest].concat()
}

/// A declare, of the plugin's type again; all of these clients give the one argument.
fn undeclared(declare: &[u8]) -> Vec<u8> {
    let kind_at = 7 + usize::from(declare[6]);
    let kind = &declare[kind_at + 1..][..usize::from(declare[kind_at])];
    let after = &declare[kind_at + 1 + kind.len()..];
    assert_eq!(after[1..], [0; 4], "no argument is left");
    let argument = [&b"\x0ex-delayed-typeS\0\0\0"[..], &[kind.len() as u8], kind].concat();
    let plugins = b"\x11x-delayed-message";
    let length = [0, 0, 0, argument.len() as u8];
    [&declare[..kind_at], plugins, &after[..1], &length, &argument].concat()
}

/// A content header without its stamp, and with the priority that had moved there.
fn unstamped(header: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b"\x0dx-delay-stampS\0\0\0";
    let flags = header[CONTENT_FIXED];
    let mut table_at = CONTENT_FIXED + 2;
    for text in [0x80, 0x40] {
        table_at += if flags & text == 0 { 0 } else { 1 + usize::from(header[table_at]) };
    }
    let is_stamp = |window: &[u8]| window == NAME;
    let stamp_at = header.windows(NAME.len()).position(is_stamp).expect("a stamp");
    let text_at = stamp_at + NAME.len() + 1;
    let stamp_end = text_at + usize::from(header[text_at - 1]);
    let stamp = std::str::from_utf8(&header[text_at..stamp_end]).expect("text");
    let mut out = header.to_vec();
    if let Ok(priority) = stamp.split(' ').nth(4).expect("a priority").parse() {
        out[CONTENT_FIXED] |= PRIORITY;
        // After the delivery mode, which all of these clients set; the stamp ends the table.
        out.insert(stamp_end + 1, priority);
    }
    out.drain(stamp_at..stamp_end);
    let length = (stamp_at - table_at - 4) as u32;
    out[table_at..table_at + 4].copy_from_slice(&length.to_be_bytes());
    out
}
