//! The proxy's walk over what producers send.

use std::hint::black_box;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, WriteContext, gen_frame};
use amq_protocol::protocol::AMQPClass;
use amq_protocol::protocol::basic::{self, AMQPProperties};
use amq_protocol::types::{AMQPValue, FieldTable};
use criterion::{BenchmarkId, Criterion, Throughput};
use xdelay::proxy::fuzz::pass;

/// Publishes in one stream, and the bytes that come from the socket at once.
const PUBLISHES: usize = 1_000;
const PIECE: usize = 16 << 10;
const BODIES: [usize; 3] = [100, 1 << 10, 64 << 10];

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frames");
    for bytes in BODIES {
        for (name, delay) in [("passing", None), ("to be delayed", Some(5_000))] {
            let stream = publish(delay, bytes).repeat(PUBLISHES.min((8 << 20) / bytes));
            group.throughput(Throughput::Bytes(stream.len() as u64));
            let out = pass(&stream, PIECE);
            assert_eq!(out == stream.len(), delay.is_none(), "only what is delayed is rewritten");
            group.bench_function(BenchmarkId::new(name, bytes), |bencher| {
                bencher.iter(|| pass(black_box(&stream), PIECE));
            });
        }
    }
    group.finish();
}

/// Method, content header and body of a publish.
fn publish(delay: Option<i64>, body: usize) -> Vec<u8> {
    let mut properties =
        AMQPProperties::default().with_delivery_mode(2).with_message_id("4711-12345".into());
    if let Some(delay) = delay {
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), AMQPValue::LongLongInt(delay));
        properties = properties.with_headers(headers);
    }
    let publish = basic::Publish {
        exchange: "orders".into(),
        routing_key: "orders.created".into(),
        ..basic::Publish::default()
    };
    let header = AMQPContentHeader { class_id: 60, body_size: body as u64, properties };
    let frames = [
        AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Publish(publish))),
        AMQPFrame::Header(1, header),
        AMQPFrame::Body(1, vec![7; body]),
    ];
    let bytes = |frame| gen_frame(frame)(WriteContext::from(Vec::new())).expect("a frame");
    frames.iter().flat_map(|frame| bytes(frame).into_inner().0).collect()
}
