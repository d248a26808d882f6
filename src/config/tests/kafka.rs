//! `[kafka]`: when it is on, and properties that are librdkafka's.

use super::super::Topics;
use super::*;

#[test]
fn a_broker_is_on_when_its_list_is_not_empty() {
    let redis = ("redis.url", "redis://r");
    let kafka = load("", &[], &[redis, ("kafka.topics", "orders,bills")]).unwrap();
    assert!(kafka.amqp.exchanges.is_empty() && kafka.kafka.topics.is_on());
    assert_eq!(kafka.kafka.topics, Topics::Named(vec!["orders".into(), "bills".into()]));
    let both = [redis, ("kafka.topics", "*"), ("amqp.exchanges", "orders")];
    let both = load("", &[], &both).unwrap();
    assert_eq!((both.amqp.exchanges.len(), both.kafka.topics), (1, Topics::All));
    assert!(!load(LEAST, &[], &[]).unwrap().kafka.topics.is_on());
}

#[test]
fn properties_come_from_every_layer_and_their_secrets_from_files() {
    let files = Files::new();
    let password = files.path("password", "s3cret\n");
    let toml = format!(
        "{LEAST}[kafka.properties]\n\"security.protocol\" = \"SASL_SSL\"\n\
         sasl.mechanism = \"PLAIN\"\nsocket.keepalive.enable = true\n\
         \"sasl.password_file\" = \"{password}\"\n"
    );
    let env = [("XDELAY_KAFKA__PROPERTIES__SASL__USERNAME", "me")];
    let config = load(&toml, &env, &[("kafka.properties.linger.ms", "5")]).unwrap();
    let properties: Vec<_> = config
        .kafka
        .properties
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(
        properties,
        [
            ("linger.ms", "5"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.password", "s3cret"),
            ("sasl.username", "me"),
            ("security.protocol", "SASL_SSL"),
            ("socket.keepalive.enable", "true"),
        ]
    );
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn a_property_that_is_refused_does_not_show_its_value() {
    let toml =
        format!("{LEAST}[kafka.properties]\nsasl.password = [\"s3cret\"]\nacks = \"s3cret\"\n");
    let lines = refused(&toml, &[], &[]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("s3cret")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("must be text")), "{lines:?}");
}

#[test]
fn the_file_that_is_shipped_for_kafka_is_understood() {
    let shipped = include_str!("../../../config/kafka.toml");
    let config = load(shipped, &[], &[]).unwrap();
    assert!(config.kafka.topics.is_on() && config.kafka.create_topics);
    let secured = shipped.split_once("# [kafka.properties]\n").unwrap().1.replace("# ", "");
    let files = Files::new();
    let secured = secured.replace("/run/secrets/kafka_password", &files.path("password", "s3cret"));
    let secured = format!("{LEAST}[kafka.properties]\n{secured}");
    assert_eq!(load(&secured, &[], &[]).unwrap().kafka.properties.len(), 5);
}
