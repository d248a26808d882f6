//! The binary, with a client that is not ours (pika), a real RabbitMQ and a real Redis.

use std::process::Command;

use lapin::types::AMQPValue;

use super::support::rabbit::{Rabbit, header, headers};
use super::support::setting;
use super::support::sidecar::Sidecar;

/// Runs `foreign.py` with the Python that `dev/install` set up; gives what it printed.
async fn foreign(exchange: &str) -> serde_json::Value {
    let dev = setting("TEST_DEV");
    let python = format!("{dev}/../target/venv/bin/python");
    let script = format!("{dev}/../tests/it/foreign.py");
    let (url, exchange) = (setting("TEST_AMQP_URL"), exchange.to_owned());
    let run = move || Command::new(python).args([script, url, exchange]).output();
    let output = tokio::task::spawn_blocking(run).await.expect("joined").expect("python runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test]
async fn an_unmodified_client_gets_its_messages_when_they_are_due() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let seen = foreign(&orders).await;
    let messages = seen.as_array().expect("a list");
    let bodies: Vec<_> = messages.iter().map(|m| m["body"].as_str().expect("text")).collect();
    assert_eq!(bodies, ["undelayed", "300", "600", "900"]);
    for message in &messages[1..] {
        let asked: f64 = message["body"].as_str().expect("text").parse().expect("a number");
        let after = message["after_ms"].as_f64().expect("a number");
        assert!(after >= asked, "{asked} ms were asked for, it came after {after}");
        assert_eq!(message["delay"].as_f64(), Some(-asked));
        assert_eq!(message["exchange"].as_str(), Some(orders.as_str()));
    }
    assert_eq!(messages[0]["exchange"].as_str(), Some(format!("xdelay.{orders}").as_str()));
    assert_eq!(sidecar.metric("xdelay_captured_total"), 3.0, "the undelayed one was never ours");
    assert_eq!(sidecar.metric("xdelay_released_total"), 3.0);
    assert!(sidecar.stop().await, "it stops in order");
}

#[tokio::test]
async fn messages_outlive_a_stop_and_a_start() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let front = format!("xdelay.{orders}");
    for n in 0..20 {
        let delay = headers([("x-delay", AMQPValue::LongInt(1_000))]);
        rabbit.publish(&front, delay, n.to_string().as_bytes()).await;
    }
    assert!(sidecar.stop().await);
    for n in 20..40 {
        let delay = headers([("x-delay", AMQPValue::LongInt(100))]);
        rabbit.publish(&front, delay, n.to_string().as_bytes()).await;
    }
    let mut inbox = rabbit.consume(&orders).await;
    sidecar.start().await;
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 40 {
        let got = inbox.next().await;
        assert!(header(&got, "x-delayed-uid").is_some());
        let body = String::from_utf8_lossy(&got.data).into_owned();
        assert!(seen.insert(body), "none comes twice without a fault");
    }
}

#[tokio::test]
async fn replicas_share_the_work_and_take_over() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut first = Sidecar::new(&[&orders]);
    first.set("RELEASE__LEASE", "2s");
    let mut second = first.twin();
    first.start().await;
    second.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    for n in 0..300 {
        let delay = headers([("x-delay", AMQPValue::LongInt(800))]);
        rabbit.publish(&front, delay, n.to_string().as_bytes()).await;
    }
    first.kill();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 300 {
        let got = inbox.next().await;
        seen.insert(String::from_utf8_lossy(&got.data).into_owned());
    }
}
