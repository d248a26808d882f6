//! What a record looks like after it was held back.

use rdkafka::producer::FutureRecord;
use rdkafka::{ClientConfig, Message};

use super::raw_header;
use crate::support::eventually_is;
use crate::support::kafka::{Field, Inbox, Kafka, delay, fields, headers, text};
use crate::support::sidecar::Sidecar;

struct Stage {
    kafka: Kafka,
    capture: String,
    inbox: Inbox,
    sidecar: Sidecar,
}

impl Stage {
    async fn new(partitions: i32, prepare: impl FnOnce(&mut Sidecar)) -> Self {
        let kafka = Kafka::shared();
        let orders = kafka.destination(partitions).await;
        let mut sidecar = Sidecar::for_kafka(&[&orders]);
        prepare(&mut sidecar);
        sidecar.start().await;
        let (inbox, capture) = (kafka.read(&orders), format!("xdelay.{orders}"));
        Self { kafka, capture, inbox, sidecar }
    }
}

#[tokio::test]
async fn null_empty_and_bytes_stay_what_they_are() {
    let mut stage = Stage::new(1, |_| {}).await;
    let kinds: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"\xff\0\x80")];
    for key in kinds {
        for value in kinds {
            let mut record = FutureRecord::to(&stage.capture).headers(delay(50));
            (record.key, record.payload) = (key, value);
            stage.kafka.write(record).await;
            let got = stage.inbox.next().await;
            assert_eq!((got.key(), got.payload()), (key, value));
        }
    }
}

#[tokio::test]
async fn headers_keep_order_repetition_null_and_bytes() {
    let mut stage = Stage::new(1, |_| {}).await;
    let sent: [Field<'_>; 7] = [
        ("b", Some(b"1")),
        ("a", None),
        ("x-delay", Some(b"10")),
        ("b", Some(b"\xff\0")),
        ("", Some(b"no name")),
        ("ü", Some(b"")),
        ("b", Some(b"1")),
    ];
    stage.kafka.write(FutureRecord::to(&stage.capture).headers(headers(&sent))).await;
    let got = fields(&stage.inbox.next().await);
    let kept: Vec<_> = sent.iter().filter(|(name, _)| *name != "x-delay").collect();
    assert_eq!(got.len(), kept.len() + 3, "{got:?}");
    for (got, sent) in got.iter().zip(&kept) {
        assert_eq!((got.0.as_str(), got.1.as_deref()), **sent);
    }
    let ours: Vec<_> = got[kept.len()..].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(ours, ["x-delayed-uid", "x-delayed-due", "x-delay"]);
}

#[tokio::test]
async fn a_thousand_headers_and_a_value_of_almost_a_mebibyte_pass() {
    let mut stage = Stage::new(1, |_| {}).await;
    let names: Vec<String> = (0..1_000).map(|n| format!("header {n}")).collect();
    let many: Vec<Field<'_>> = names
        .iter()
        .map(|name| (name.as_str(), Some(&b"v"[..])))
        .chain([("x-delay", Some(&b"1"[..]))])
        .collect();
    stage.kafka.write(FutureRecord::to(&stage.capture).headers(headers(&many))).await;
    assert_eq!(fields(&stage.inbox.next().await).len(), 1_000 + 3);
    let large: Vec<u8> = (0..1_048_000 - 1_000).map(|n| n as u8).collect();
    stage.kafka.write(FutureRecord::to(&stage.capture).payload(&large[..]).headers(delay(1))).await;
    assert_eq!(stage.inbox.next().await.payload(), Some(&large[..]));
}

#[tokio::test]
async fn a_header_name_that_is_no_text_is_buried_and_the_flow_goes_on() {
    let mut stage = Stage::new(1, |_| {}).await;
    let brokers = stage.kafka.brokers().to_owned();
    stage.kafka.write_delayed(&stage.capture, "before", 10).await;
    let fields: [(&[u8], &[u8]); 2] = [(b"\xff\xfe", b"1"), (b"x-delay", b"10")];
    raw_header::write(&brokers, &stage.capture, &fields).await;
    stage.kafka.write_delayed(&stage.capture, "after", 10).await;
    let mut seen: Vec<_> = stage.inbox.take(2).await.iter().map(text).collect();
    seen.sort();
    assert_eq!(seen, ["after", "before"]);
    eventually_is(1.0, || async { stage.sidecar.metric("xdelay_dead") }).await;
    let log = stage.sidecar.log();
    assert!(log.contains("not UTF-8") && log.contains(&format!("{}/0/1", stage.capture)), "{log}");
}

#[tokio::test]
async fn what_cannot_be_understood_is_buried_and_nothing_behind_it_waits() {
    let mut stage = Stage::new(1, |_| {}).await;
    let odd: [&[u8]; 4] = [b" 5", b"5s", b"\0\0\0\x05", b""];
    for value in odd {
        let asked = headers(&[("x-delay", Some(value))]);
        stage.kafka.write(FutureRecord::to(&stage.capture).headers(asked)).await;
    }
    let null = headers(&[("x-delay", None)]);
    stage.kafka.write(FutureRecord::to(&stage.capture).headers(null)).await;
    stage.kafka.write_delayed(&stage.capture, "fine", 1).await;
    assert_eq!(text(&stage.inbox.next().await), "fine");
    eventually_is(5.0, || async { stage.sidecar.metric("xdelay_dead") }).await;
}

#[tokio::test]
async fn every_codec_is_read() {
    let mut stage = Stage::new(1, |_| {}).await;
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let producer: rdkafka::producer::FutureProducer = ClientConfig::new()
            .set("bootstrap.servers", stage.kafka.brokers())
            .set("compression.codec", codec)
            .set("linger.ms", "20")
            .create()
            .expect("a producer");
        let sends = (0..50).map(|n| {
            let record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&stage.capture);
            let value = format!("{codec} {n}").repeat(20);
            let producer = producer.clone();
            async move {
                let record = record.payload(value.as_bytes()).headers(delay(1));
                producer.send(record, crate::support::PATIENCE).await.expect("delivered");
            }
        });
        futures_util::future::join_all(sends).await;
        for record in stage.inbox.take(50).await {
            assert!(text(&record).starts_with(codec));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_transaction_took_back_is_not_delayed() {
    use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
    let mut stage = Stage::new(1, |_| {}).await;
    let (brokers, capture) = (stage.kafka.brokers().to_owned(), stage.capture.clone());
    let write = move || {
        let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("transactional.id", crate::support::unique("transaction"))
            .create()
            .expect("a producer");
        let patience = crate::support::PATIENCE;
        producer.init_transactions(patience).expect("begun");
        for (value, commits) in [("one", true), ("taken back", false), ("two", true)] {
            producer.begin_transaction().expect("begun");
            let record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&capture);
            let record = record.payload(value.as_bytes()).headers(delay(10));
            producer.send(record).map_err(|(error, _)| error).expect("sent");
            if commits {
                producer.commit_transaction(patience).expect("committed");
            } else {
                producer.flush(patience).expect("written");
                producer.abort_transaction(patience).expect("aborted");
            }
        }
    };
    tokio::task::spawn_blocking(write).await.expect("written");
    stage.kafka.write_delayed(&stage.capture, "last", 1_000).await;
    let mut seen: Vec<_> = stage.inbox.take(3).await.iter().map(text).collect();
    seen.sort();
    assert_eq!(seen, ["last", "one", "two"]);
}

/// What Java's default partitioner does with these keys, over 7 partitions: murmur2 of the key,
/// its sign removed, modulo the partitions. Computed by `Utils.toPositive(Utils.murmur2(key)) % 7`
/// of kafka-clients 4.1.1.
const BY_KEY: [(&str, i32); 6] =
    [("order-1", 4), ("order-2", 1), ("order-3", 4), ("ü", 0), ("", 2), ("42", 3)];

#[tokio::test]
async fn a_key_chooses_the_partition_that_java_would() {
    let mut stage = Stage::new(7, |_| {}).await;
    for (key, partition) in BY_KEY {
        let record = FutureRecord::to(&stage.capture).key(key.as_bytes()).headers(delay(10));
        // From whichever partition it was captured on.
        stage.kafka.write(record.partition((partition + 1) % 7)).await;
        let got = stage.inbox.next().await;
        assert_eq!((got.key(), got.partition()), (Some(key.as_bytes()), partition));
    }
}

#[tokio::test]
async fn the_partition_of_the_capture_is_kept_on_request() {
    let mut stage = Stage::new(5, |sidecar| sidecar.set("KAFKA__PRESERVE_PARTITION", "true")).await;
    for partition in [3, 0, 4] {
        let record = FutureRecord::to(&stage.capture).key(&b"one key"[..]).headers(delay(10));
        stage.kafka.write(record.partition(partition)).await;
        assert_eq!(stage.inbox.next().await.partition(), partition);
    }
}
