//! Packing a message for the store, and unpacking it.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use xdelay::message::{AmqpContent, Content, KafkaContent, Message, RecordHeaders, Uid};
use xdelay::store::packing::{pack, unpack};

const BODIES: [usize; 3] = [100, 1 << 10, 64 << 10];

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("envelope");
    for bytes in BODIES {
        group.throughput(Throughput::Bytes(bytes as u64));
        for (broker, content) in [("amqp", amqp(bytes)), ("kafka", kafka(bytes))] {
            let message = Message { uid: Uid::fresh(), id: None, delay_ms: Some(5_000), content };
            group.bench_function(BenchmarkId::new(format!("{broker} pack"), bytes), |bencher| {
                bencher.iter(|| pack(black_box(&message)));
            });
            let packed = pack(&message);
            group.bench_function(BenchmarkId::new(format!("{broker} unpack"), bytes), |bencher| {
                bencher.iter_batched(
                    || (message.uid.clone(), packed.clone()),
                    |(uid, packed)| unpack(uid, packed),
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

/// A message that a small application would send.
pub(crate) fn amqp(bytes: usize) -> Content {
    Content::Amqp(AmqpContent {
        routing_key: Bytes::from_static(b"orders.created"),
        // As on the wire: flags, a table of one header, the delivery mode, a message id.
        properties: Bytes::from_static(
            b"\x30\x80\x00\x00\x00\x11\x07x-delayl\0\0\0\0\0\0\x13\x88\x02\x0a4711-12345",
        ),
        body: Bytes::from(vec![7; bytes]),
    })
}

fn kafka(bytes: usize) -> Content {
    Content::Kafka(KafkaContent {
        key: Some(Bytes::from_static(b"4711-12345")),
        value: Some(Bytes::from(vec![7; bytes])),
        headers: RecordHeaders::pack([("x-delay", Some(&b"5000"[..])), ("trace", Some(b"abcdef"))]),
        partition: 3,
        timestamp_ms: Some(1_700_000_000_000),
    })
}
