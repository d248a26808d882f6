//! From a producer to a consumer.

use std::process::Command;

use rdkafka::Message;
use rdkafka::producer::FutureRecord;

use crate::support::kafka::{Field, Kafka, OwnBroker, delay, header, text};
use crate::support::rabbit::{Rabbit, headers};
use crate::support::sidecar::Sidecar;
use crate::support::{eventually_is, setting, unique};

/// Runs `foreign.py` with the Python that `dev/install` set up; gives what it printed.
async fn foreign(topic: &str) -> serde_json::Value {
    let dev = setting("TEST_DEV");
    let python = format!("{dev}/../target/venv/bin/python");
    let script = format!("{dev}/../tests/it/kafka/foreign.py");
    let (brokers, topic) = (setting("TEST_KAFKA_BROKERS"), topic.to_owned());
    let run = move || Command::new(python).args([script, brokers, topic]).output();
    let output = tokio::task::spawn_blocking(run).await.expect("joined").expect("python runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test]
async fn an_unmodified_client_gets_its_records_when_they_are_due() {
    let orders = Kafka::shared().destination(3).await;
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.start().await;
    let seen = foreign(&orders).await;
    let records = seen.as_array().expect("a list");
    let bodies: Vec<_> = records.iter().map(|m| m["body"].as_str().expect("text")).collect();
    assert_eq!(bodies, ["undelayed", "300", "600", "900"]);
    assert_eq!(records[0]["delay"].as_str(), Some(""));
    for record in &records[1..] {
        let asked: f64 = record["body"].as_str().expect("text").parse().expect("a number");
        let after = record["after_ms"].as_f64().expect("a number");
        assert!(after >= asked, "{asked} ms were asked for, it came after {after}");
        assert_eq!(record["delay"].as_str(), Some(format!("-{asked}").as_str()));
        assert_eq!(record["key"].as_str(), Some("key"));
    }
    assert_eq!(sidecar.metric("xdelay_captured_total"), 4.0);
    eventually_is(4.0, || async { sidecar.metric("xdelay_released_total") }).await;
    assert!(sidecar.stop().await, "it stops in order");
}

#[tokio::test]
async fn records_outlive_a_stop_and_a_start_and_none_comes_twice() {
    let kafka = Kafka::shared();
    let orders = kafka.destination(2).await;
    let capture = format!("xdelay.{orders}");
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.start().await;
    for n in 0..20 {
        kafka.write_delayed(&capture, &n.to_string(), 1_500).await;
    }
    eventually_is(20.0, || async { sidecar.metric("xdelay_captured_total") }).await;
    assert!(sidecar.stop().await);
    let told = |partition| kafka.committed(sidecar.setting("KAFKA__GROUP"), &capture, partition);
    let all = told(0).await.unwrap_or(0) + told(1).await.unwrap_or(0);
    assert_eq!(all, 20, "whoever stops tells the group all that is parked");
    for n in 20..40 {
        kafka.write_delayed(&capture, &n.to_string(), 100).await;
    }
    sidecar.start().await;
    let mut inbox = kafka.read(&orders);
    let mut seen: Vec<String> = inbox.take(40).await.iter().map(text).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 40);
    eventually_is(40.0, || async { sidecar.metric("xdelay_captured_total") + 20.0 }).await;
}

/// A cancel, a replace and a point in time, by headers as other clients write them.
#[tokio::test]
async fn ids_replace_and_cancel_and_a_time_may_be_absolute() {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let capture = format!("xdelay.{orders}");
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.start().await;
    let soon = crate::support::load::now_ms() + 800;
    let (binary, soon_binary) = (600_i64.to_be_bytes(), soon.to_be_bytes());
    let delayed: Field<'_> = ("x-delay", Some(b"700"));
    let id = |id: &'static [u8]| -> Field<'_> { ("x-delay-id", Some(id)) };
    let records: [(&str, Vec<Field<'_>>); 6] = [
        ("cancelled", vec![delayed, id(b"a")]),
        ("the cancel", vec![("x-delay-cancel", Some(b"a"))]),
        ("replaced", vec![delayed, id(b"b")]),
        ("the replacement", vec![("x-delay", Some(b"900")), id(b"b")]),
        ("binary", vec![("x-delay", Some(&binary))]),
        ("at", vec![("x-deliver-at", Some(&soon_binary))]),
    ];
    for (value, fields) in records {
        let headers = crate::support::kafka::headers(&fields);
        kafka.write(FutureRecord::to(&capture).payload(value.as_bytes()).headers(headers)).await;
    }
    let seen = kafka.read(&orders).take(3).await;
    let mut bodies: Vec<_> = seen.iter().map(text).collect();
    bodies.sort();
    assert_eq!(bodies, ["at", "binary", "the replacement"]);
    let by_time = seen.iter().find(|record| text(record) == "at").expect("it came");
    assert_eq!(header(by_time, "x-delayed-due"), Some(soon.to_string()));
    let replacement = seen.iter().find(|record| text(record).contains("replacement"));
    assert_eq!(header(replacement.expect("it came"), "x-delayed-id"), Some("b".to_owned()));
    assert_eq!(sidecar.metric("xdelay_cancelled_total"), 1.0);
    assert_eq!(sidecar.metric("xdelay_replaced_total"), 1.0);
}

/// What waited to be read is not late by that.
#[tokio::test]
async fn a_delay_counts_from_the_timestamp_of_the_record() {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let capture = format!("xdelay.{orders}");
    let now = i64::try_from(crate::support::load::now_ms()).expect("in range");
    let hour = 3_600_000;
    for (value, stamp) in [("long ago", now - hour), ("of the future", now + hour)] {
        let record = FutureRecord::to(&capture).payload(value.as_bytes());
        kafka.write(record.timestamp(stamp).headers(delay(2_000))).await;
    }
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.start().await;
    let seen = kafka.read(&orders).take(2).await;
    let due = |n: usize| -> i64 {
        header(&seen[n], "x-delayed-due").expect("a due").parse().expect("a number")
    };
    assert_eq!((text(&seen[0]).as_str(), due(0)), ("long ago", now - hour + 2_000));
    assert_eq!(text(&seen[1]), "of the future");
    assert!((now + 2_000..now + hour).contains(&due(1)), "it counts as captured, not later");
}

#[tokio::test]
async fn both_brokers_are_served_by_one_process() {
    let (kafka, rabbit) = (Kafka::shared(), Rabbit::connect().await);
    let (topic, exchange) = (kafka.destination(1).await, rabbit.destination().await);
    let mut sidecar = Sidecar::for_kafka(&[&topic]);
    sidecar.set("AMQP__URL", &setting("TEST_AMQP_URL"));
    sidecar.set("AMQP__EXCHANGES", &exchange);
    sidecar.start().await;
    let asked = headers([("x-delay", lapin::types::AMQPValue::LongInt(300))]);
    rabbit.publish(&format!("xdelay.{exchange}"), asked, b"to the exchange").await;
    kafka.write_delayed(&format!("xdelay.{topic}"), "to the topic", 300).await;
    assert_eq!(rabbit.consume(&exchange).await.next().await.data, b"to the exchange");
    assert_eq!(text(&kafka.read(&topic).next().await), "to the topic");
    let (_, metrics) = sidecar.get("/metrics").expect("metrics");
    for labels in [
        format!("broker=\"amqp\",destination=\"{exchange}\""),
        format!("broker=\"kafka\",destination=\"{topic}\""),
    ] {
        assert!(metrics.contains(&format!("xdelay_captured_total{{{labels}}} 1")), "{metrics}");
    }
    assert!(sidecar.stop().await);
}

/// One that is away does not hold up the other.
#[tokio::test]
async fn a_broker_that_is_away_holds_up_no_other() {
    let kafka = Kafka::shared();
    let topic = kafka.destination(1).await;
    let mut sidecar = Sidecar::for_kafka(&[&topic]);
    sidecar.set("AMQP__URL", "amqp://127.0.0.1:1/%2f");
    sidecar.set("AMQP__EXCHANGES", "orders");
    sidecar.spawn();
    kafka.write_delayed(&format!("xdelay.{topic}"), "all the same", 100).await;
    assert_eq!(text(&kafka.read(&topic).next().await), "all the same");
    sidecar.unready_saying("rabbitmq").await;
    assert!(sidecar.stop().await);
}

#[tokio::test]
async fn capture_topics_are_created_on_request_and_never_else() {
    let kafka = Kafka::shared();
    let orders = unique("orders");
    let capture = format!("xdelay.{orders}");
    kafka.create(&orders, 3, &[]).await;
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.spawn();
    let said = sidecar.unready_saying("--create --topic").await;
    assert!(said.contains(&format!("{capture} --partitions 3")), "{said}");
    assert!(said.contains("LogAppendTime"), "{said}");
    sidecar.kill();
    sidecar.set("KAFKA__CREATE_TOPICS", "true");
    sidecar.start().await;
    let output = sidecar.output_of(&["check"]);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{table}");
    assert!(table.contains("stands; delays count from the broker's clock"), "{table}");
    let mut seen = Vec::new();
    for n in 0..3 {
        let key = n.to_string();
        let record = FutureRecord::to(&capture).key(key.as_bytes()).headers(delay(50));
        kafka.write(record.partition(n)).await;
    }
    let mut inbox = kafka.read(&orders);
    while seen.len() < 3 {
        seen.push(inbox.next().await.key().map(<[u8]>::to_vec));
    }
}

/// On a broker of its own, for it releases whatever it finds.
#[tokio::test]
async fn a_star_captures_what_is_created_later_too() {
    let broker = OwnBroker::start();
    let kafka = Kafka::at(&broker.brokers());
    let first = kafka.destination(2).await;
    let mut sidecar = Sidecar::for_kafka(&["*"]);
    sidecar.set("KAFKA__BROKERS", &broker.brokers());
    sidecar.set("KAFKA__PROPERTIES__TOPIC__METADATA__REFRESH__INTERVAL__MS", "1000");
    sidecar.start().await;
    kafka.write_delayed(&format!("xdelay.{first}"), "first", 100).await;
    assert_eq!(text(&kafka.read(&first).next().await), "first");
    let later = kafka.destination(1).await;
    kafka.write_delayed(&format!("xdelay.{later}"), "later", 100).await;
    assert_eq!(text(&kafka.read(&later).next().await), "later");
    sidecar.ready().await;
}

/// Kafka's own console tools, which are Java.
#[tokio::test]
async fn javas_own_tools_write_and_read() {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.start().await;
    let capture = format!("xdelay.{orders}");
    let settings = ["--property", "parse.headers=true", "--property", "parse.key=true"];
    let write = [&["--topic", &capture], &settings[..]].concat();
    let lines = "x-delay:1000\tk1\tlate\nother:1\tk2\tat once\nx-delay:300\tk3\tsoon\n";
    kafka.tool_given("ConsoleProducer", &write, lines).await;
    let read = ["--topic", &orders, "--from-beginning", "--max-messages", "3", "--property"];
    let read = [&read[..], &["print.headers=true", "--timeout-ms", "20000"]].concat();
    let seen = kafka.tool_given("ConsoleConsumer", &read, "").await;
    let lines: Vec<_> = seen.lines().filter(|line| line.contains("x-delayed-uid")).collect();
    assert_eq!(lines.len(), 3, "{seen}");
    for (line, value) in lines.iter().zip(["at once", "soon", "late"]) {
        assert!(line.ends_with(value), "{seen}");
    }
    assert!(lines[0].starts_with("other:1,"), "{seen}");
    assert!(lines[2].contains("x-delay:-1000"), "{seen}");
}
