//! Topics that take nothing, and records that nobody takes.

use rdkafka::producer::FutureRecord;

use crate::support::kafka::{Kafka, delay, text};
use crate::support::sidecar::Sidecar;
use crate::support::{eventually, eventually_is, setting, unique};

/// The broker would create it at the first write that allows that.
#[tokio::test]
async fn a_missing_topic_is_waited_for_and_never_created() {
    let kafka = Kafka::shared();
    let orders = unique("orders");
    let capture = format!("xdelay.{orders}");
    kafka.create(&capture, 1, &[]).await;
    let other = kafka.destination(1).await;
    let mut sidecar = Sidecar::for_kafka(&[&orders, &other]);
    sidecar.spawn();
    for n in 0..5 {
        kafka.write_delayed(&capture, &n.to_string(), 50).await;
    }
    kafka.write_delayed(&format!("xdelay.{other}"), "not held up", 50).await;
    assert_eq!(text(&kafka.read(&other).next().await), "not held up");
    let said = sidecar.unready_saying("is missing").await;
    assert!(said.contains(&orders), "{said}");
    eventually("several tries were made", || async {
        (sidecar.metric("xdelay_postponed_total") >= 7.0).then_some(())
    })
    .await;
    assert!(!kafka.topics().await.contains(&orders), "it is for somebody else to create");
    assert_eq!(sidecar.metric("xdelay_dead"), 0.0);
    kafka.create(&orders, 1, &[]).await;
    let mut seen: Vec<_> = kafka.read(&orders).take(5).await.iter().map(text).collect();
    seen.sort();
    assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    sidecar.ready().await;
}

#[tokio::test]
async fn a_record_too_large_for_its_topic_is_buried_alone() {
    let kafka = Kafka::shared();
    let orders = unique("orders");
    let capture = format!("xdelay.{orders}");
    kafka.create(&capture, 1, &[]).await;
    kafka.create(&orders, 1, &[("max.message.bytes", "1000")]).await;
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.set("RELEASE__RETRY__FIRST", "20ms");
    sidecar.set("RELEASE__RETRY__ATTEMPTS", "3");
    sidecar.start().await;
    let large = vec![b'x'; 5_000];
    kafka.write_delayed(&capture, "before", 50).await;
    kafka.write(FutureRecord::to(&capture).payload(&large[..]).headers(delay(50))).await;
    kafka.write_delayed(&capture, "after", 50).await;
    let mut seen: Vec<_> = kafka.read(&orders).take(2).await.iter().map(text).collect();
    seen.sort();
    assert_eq!(seen, ["after", "before"]);
    eventually_is(1.0, || async { sidecar.metric("xdelay_dead") }).await;
    let (_, metrics) = sidecar.get("/metrics").expect("metrics");
    assert!(metrics.contains("reason=\"too-large\""), "{metrics}");
}

/// With a password from a file, which is nowhere shown.
#[tokio::test]
async fn a_topic_that_forbids_writing_is_waited_for() {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let password = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(password.path(), "xdelay-secret\n").expect("written");
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.set("KAFKA__BROKERS", &setting("TEST_KAFKA_SASL_BROKERS"));
    for (name, value) in [
        ("SECURITY__PROTOCOL", "SASL_PLAINTEXT"),
        ("SASL__MECHANISM", "PLAIN"),
        ("SASL__USERNAME", "xdelay"),
        ("SASL__PASSWORD_FILE", &password.path().to_string_lossy()),
    ] {
        sidecar.set(&format!("KAFKA__PROPERTIES__{name}"), value);
    }
    let rule = ["--deny-principal", "User:xdelay", "--operation", "Write", "--topic", &orders];
    kafka.tool("AclCommand", &[&["--add"], &rule[..]].concat()).await;
    let mut inbox = kafka.read(&orders);
    sidecar.spawn();
    kafka.write_delayed(&format!("xdelay.{orders}"), "later", 50).await;
    sidecar.unready_saying("may not write to its topic").await;
    assert_eq!(sidecar.metric("xdelay_dead"), 0.0);
    kafka.tool("AclCommand", &[&["--remove", "--force"], &rule[..]].concat()).await;
    assert_eq!(text(&inbox.next().await), "later");
    sidecar.ready().await;
    let shown = format!("{}{:?}", sidecar.log(), sidecar.get("/metrics"));
    assert!(!shown.contains("xdelay-secret"));
}

#[tokio::test]
async fn check_names_a_property_that_librdkafka_does_not_know_and_never_its_value() {
    let mut sidecar = Sidecar::for_kafka(&["orders"]);
    sidecar.set("KAFKA__PROPERTIES__SASL__PASWORD", "hunter2");
    let output = sidecar.output_of(&["check"]);
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    assert!(said.contains("kafka.properties.sasl.pasword"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn check_of_a_cluster_that_is_away_ends_in_time() {
    let mut sidecar = Sidecar::for_kafka(&["orders"]);
    sidecar.set("KAFKA__BROKERS", "127.0.0.1:1");
    let output = sidecar.output_of(&["check"]);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{table}");
    assert!(
        table.lines().any(|line| line.starts_with("FAILED") && line.contains("kafka")),
        "{table}"
    );
}

#[tokio::test]
async fn xdelay_stops_in_time_while_the_cluster_is_away() {
    let mut sidecar = Sidecar::for_kafka(&["orders"]);
    sidecar.set("KAFKA__BROKERS", "127.0.0.1:1");
    sidecar.spawn();
    sidecar.unready_saying("kafka").await;
    assert!(sidecar.stop().await);
}

#[tokio::test]
async fn topology_prints_topics_and_rights() {
    let output = Sidecar::for_kafka(&["orders"]).output_of(&["topology"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    for line in [
        "--create --topic xdelay.orders",
        "--operation Read --operation Describe --topic xdelay.orders",
        "--operation Write --operation Describe --topic orders",
        "--operation Read --group",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    assert!(!printed.contains("rabbitmq"), "{printed}");
}
