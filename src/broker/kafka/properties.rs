//! What librdkafka is told: the operator's properties, under those that hold xdelay's promises.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use super::membership;
use crate::clock::millis;
use crate::config::Config;

/// For every client.
fn common(config: &Config, defaults: &[(&str, &str)]) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("client.id", "xdelay").set_log_level(RDKafkaLogLevel::Info);
    for (name, value) in defaults {
        client.set(*name, *value);
    }
    for (name, value) in &config.kafka.properties {
        client.set(name, value.expose());
    }
    client.set("bootstrap.servers", &config.kafka.brokers);
    client.set("allow.auto.create.topics", "false");
    client
}

/// For reading capture topics.
pub(super) fn consumer(config: &Config) -> ClientConfig {
    // A lost replica's partitions go to others when its session ends. A topic that is created
    // later is found when metadata is read again. The thread that polls waits for an answer when
    // partitions are given up: not for librdkafka's minute.
    let defaults = [
        ("session.timeout.ms", "10000"),
        ("socket.timeout.ms", "10000"),
        ("topic.metadata.refresh.interval.ms", "10000"),
        ("queued.min.messages", "20000"),
    ];
    let mut client = common(config, &defaults);
    let buffered = (config.intake.memory / 1024).clamp(1_024, 2_097_151).to_string();
    client
        .set("group.id", &config.kafka.group)
        .set("queued.max.messages.kbytes", buffered)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("isolation.level", "read_committed")
        .set("statistics.interval.ms", membership::SAID_EVERY_MS);
    client
}

/// For releasing.
pub(super) fn producer(config: &Config) -> ClientConfig {
    // Whether a record is too large is for the broker to say, and metadata of a topic that
    // vanished is soon read again.
    let defaults = [
        ("linger.ms", "1"),
        ("message.max.bytes", "1000000000"),
        ("queue.buffering.max.messages", "1000000"),
        ("topic.metadata.refresh.interval.ms", "10000"),
        ("topic.metadata.propagation.max.ms", "1000"),
    ];
    let mut client = common(config, &defaults);
    // Below half a lease, which is until when a release is waited for.
    let timeout = (config.release.lease / 3).max(Duration::from_millis(500));
    client
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("partitioner", "murmur2_random")
        .set("message.timeout.ms", millis(timeout).to_string());
    client
}

/// Whether librdkafka takes these properties.
///
/// # Errors
/// Which one it does not take; never its value, which may be a secret.
pub(super) fn check(client: &ClientConfig) -> Result<(), String> {
    client.create_native_config().map(drop).map_err(|error| in_words(&error))
}

/// An error of making a client, without the value of any property.
pub(super) fn in_words(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, _) => {
            format!("kafka.properties.{name} is no property of librdkafka, or not with this value")
        }
        other => other.to_string(),
    }
}
