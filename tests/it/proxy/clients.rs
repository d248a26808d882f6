//! Clients that are not ours, unmodified.

use std::process::Command;

use super::support::proxied;
use crate::support::{setting, unique};

/// Runs a Python script with the Python that `dev/install` set up; gives what it printed.
pub async fn python(script: &str, url: &str, name: &str) -> serde_json::Value {
    let python = format!("{}/../target/venv/bin/python", setting("TEST_DEV"));
    run(Command::new(python), script, url, name).await
}

/// The same with Node and the packages that `dev/install` put there.
async fn node(script: &str, url: &str, name: &str) -> serde_json::Value {
    let mut node = Command::new("node");
    node.env("NODE_PATH", format!("{}/../target/clients/node_modules", setting("TEST_DEV")));
    run(node, script, url, name).await
}

async fn run(mut command: Command, script: &str, url: &str, name: &str) -> serde_json::Value {
    let script = format!("{}/../tests/it/proxy/{script}", setting("TEST_DEV"));
    command.args([&script, url, name]);
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("joined").expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test]
async fn pika_changes_nothing_but_the_url() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let seen = python("pika_client.py", &url, &unique("pika")).await;
    assert_eq!(seen["order"], serde_json::json!(["undelayed", "200", "400", "600"]), "{seen}");
    assert_eq!(seen["early"], 0, "{seen}");
    assert_eq!(seen["returned"], true, "{seen}");
    assert_eq!(seen["rolled_back"], serde_json::json!(["committed"]), "{seen}");
    assert_eq!(seen["channel_error"], 404, "{seen}");
    assert_eq!(seen["after_the_error"], "still works", "{seen}");
}

#[tokio::test]
async fn nodes_amqplib_works_as_with_the_plugin_and_small_delays_too() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let said = node("amqplib_client.js", &url, &unique("node")).await;
    let seen = said["seen"].as_array().expect("a list");
    let of = |key: &str| seen.iter().map(|message| message[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("body"), ["0", "100", "500", "900"], "{said}");
    assert_eq!(of("early"), [false; 4], "{said}");
    let delays = serde_json::json!([null, -100, -500, -900]);
    assert_eq!(serde_json::Value::from(of("delay")), delays, "{said}");
}

#[tokio::test]
async fn celery_works_as_with_the_plugin_producer_and_worker() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let said = python("celery_client.py", &url, &unique("celery")).await;
    let ran = said["ran"].as_array().expect("a list");
    let delays: Vec<_> = ran.iter().filter_map(|task| task["delay"].as_i64()).collect();
    assert_eq!(delays, [0, 500, 1_000, 1_500], "{said}");
    assert!(ran.iter().all(|task| task["early"] == false), "{said}");
}
