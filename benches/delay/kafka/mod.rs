//! Kafka: what stands in it, and who publishes, consumes and relays.

pub(crate) mod consumer;
pub(crate) mod publisher;
pub(crate) mod relay;
pub(crate) mod topics;

use std::time::Duration;

use rdkafka::ClientConfig;

/// How long any exchange with the cluster may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A client of the cluster.
fn client(brokers: &str) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", brokers).set("allow.auto.create.topics", "false");
    client
}

/// One that produces: idempotent, every record on all replicas before it counts as sent.
fn producer_config(brokers: &str) -> ClientConfig {
    let mut client = client(brokers);
    // As long as xdelay waits for a batch to fill, and as many in hand as keeps batches large.
    client
        .set("linger.ms", "1")
        .set("queue.buffering.max.messages", WINDOW)
        .set("queue.buffering.max.kbytes", "262144")
        .set("message.max.bytes", "10000000")
        .set("partitioner", "murmur2_random")
        .set("enable.idempotence", "true")
        .set("acks", "all");
    client
}

/// One that consumes, with all that may be fetched ahead.
fn consumer_config(brokers: &str, group: &str) -> ClientConfig {
    let mut client = client(brokers);
    // A full queue of what was fetched is looked at again at once, instead of after a second.
    client
        .set("group.id", group)
        .set("queued.min.messages", "100000")
        .set("fetch.queue.backoff.ms", "1")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error");
    client
}

/// Records that are sent and not yet confirmed.
const WINDOW: &str = "20000";
