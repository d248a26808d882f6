//! What stands in Kafka: topics. The capture topic of `orders` is `xdelay.orders`.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::config::{Config, Kafka, Topics};

/// How long any single exchange with the cluster may take.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// What a capture topic's name begins with.
const PREFIX: &str = "xdelay.";
/// Every capture topic, as librdkafka subscribes to patterns.
pub(super) const ALL: &str = "^xdelay\\..+";

/// What producers write to, for this destination.
pub(super) fn capture(destination: &str) -> String {
    format!("{PREFIX}{destination}")
}

/// The destination of a capture topic.
pub(super) fn destination(capture: &str) -> Option<&str> {
    capture.strip_prefix(PREFIX).filter(|name| !name.is_empty())
}

/// The command that creates a capture topic.
pub(super) fn command(brokers: &str, capture: &str, partitions: usize) -> String {
    format!(
        "kafka-topics.sh --bootstrap-server {brokers} --create --topic {capture} --partitions \
         {partitions} --config message.timestamp.type=LogAppendTime"
    )
}

/// What must stand in the cluster, as commands: topics and the rights of xdelay's user. Empty when
/// Kafka is not served.
pub fn commands(config: &Config) -> String {
    let Kafka { brokers, topics, group, .. } = &config.kafka;
    if !topics.is_on() {
        return String::new();
    }
    let allow = |operations: &str, on: String| {
        format!(
            "kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal 'User:xdelay' \
             {operations} {on}\n"
        )
    };
    let (read, write) =
        ("--operation Read --operation Describe", "--operation Write --operation Describe");
    let mut out = String::from(
        "# Kafka: a capture topic has as many partitions as its destination; xdelay is its user here.\n",
    );
    match topics {
        Topics::Named(names) => {
            for name in names {
                out += &format!("{}\n", command(brokers, &capture(name), 1));
                out += &allow(read, format!("--topic {}", capture(name)));
                out += &allow(write, format!("--topic {name}"));
            }
        }
        Topics::All => {
            out += &allow(read, format!("--topic {PREFIX} --resource-pattern-type prefixed"));
            out += &allow(write, "--topic '*'".to_owned());
        }
    }
    out += &allow("--operation Read", format!("--group {group}"));
    out
}

/// Creates a capture topic. One that another replica has just created is as good.
///
/// # Errors
/// What the cluster said.
pub(super) async fn create<C: ClientContext>(
    admin: &AdminClient<C>,
    capture: &str,
    partitions: usize,
) -> Result<(), String> {
    let partitions = i32::try_from(partitions).unwrap_or(1);
    let topic = NewTopic::new(capture, partitions, TopicReplication::Fixed(-1))
        .set("message.timestamp.type", "LogAppendTime");
    let created = admin.create_topics([&topic], &options()).await;
    match created.map_err(|error| error.to_string())?.into_iter().next() {
        Some(Err((_, code))) if code != RDKafkaErrorCode::TopicAlreadyExists => {
            Err(code.to_string())
        }
        _ => Ok(()),
    }
}

/// Whose clock stamps the records of a topic: `CreateTime` or `LogAppendTime`.
///
/// # Errors
/// Why that cannot be told.
pub(super) async fn timestamp_type<C: ClientContext>(
    admin: &AdminClient<C>,
    topic: &str,
) -> Result<String, String> {
    let resource = ResourceSpecifier::Topic(topic);
    let described = admin.describe_configs([&resource], &options()).await;
    let said = |error: KafkaError| error.to_string();
    let found = described.map_err(said)?.into_iter().next().ok_or("no answer")?;
    let found = found.map_err(|code| code.to_string())?;
    let entry = found.get("message.timestamp.type").and_then(|entry| entry.value.clone());
    entry.ok_or_else(|| "it does not say".to_owned())
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER_WITHIN)).operation_timeout(Some(ANSWER_WITHIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_topic_names_its_destination() {
        assert_eq!(destination(&capture("orders")), Some("orders"));
        assert_eq!(destination("xdelay."), None);
        assert_eq!(destination("orders"), None);
    }
}
