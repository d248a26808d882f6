//! Clients that are not ours, unmodified.
//!
//! `RECORD_STREAMS=1` writes anew what each of them sends, into `tests/data/streams`, where the
//! tests of `src/proxy/requests` find it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::support::{Tap, at_port, proxied};
use crate::support::{setting, unique};

/// Runs a Python script with the Python that `dev/install` set up; gives what it printed.
pub async fn python(script: &str, url: &str, name: &str) -> Value {
    let mut python = Command::new(built("venv/bin/python"));
    python.arg(source(script));
    run(python, url, name).await
}

/// The same with Node and the packages that `dev/install` put there.
async fn node(script: &str, url: &str, name: &str) -> Value {
    let mut node = Command::new("node");
    node.env("NODE_PATH", built("clients/node_modules")).arg(source(script));
    run(node, url, name).await
}

/// The client in Go that `dev/install` built.
async fn go(url: &str, name: &str) -> Value {
    run(Command::new(built("clients/go-client")), url, name).await
}

/// One of the clients in Java that `dev/install` built.
async fn java(class: &str, url: &str, name: &str) -> Value {
    let classes = built("clients/java");
    let mut java = Command::new("java");
    // They live for seconds: the compiler that pays off later is left out.
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
    java.arg(format!("{classes}:{classes}/*")).arg(class);
    run(java, url, name).await
}

fn built(path: &str) -> String {
    format!("{}/../target/{path}", setting("TEST_DEV"))
}

fn source(script: &str) -> String {
    format!("{}/../tests/it/proxy/{script}", setting("TEST_DEV"))
}

async fn run(mut command: Command, url: &str, name: &str) -> Value {
    command.args([url, name]);
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("joined").expect("it runs: dev/install tests sets it up");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Runs a client against a proxy of its own; gives what it printed.
async fn through(client: &str, run: impl AsyncFnOnce(&str, &str) -> Value) -> Value {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    if std::env::var_os("RECORD_STREAMS").is_none() {
        return run(&url, &unique(client)).await;
    }
    let tap = Tap::before(&url).await;
    let name = format!("golden-{client}");
    let said = run(&at_port(&url, tap.port), &name).await;
    let heard = tap.those_that_sent(name.as_bytes()).remove(0);
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/streams");
    std::fs::create_dir_all(&streams).expect("a directory");
    std::fs::write(streams.join(format!("{client}.bin")), heard.sent).expect("written");
    said
}

/// What a client saw: messages whose bodies are their delays. In which order they come is not looked
/// at, since a client may stall for longer than between two of them.
#[track_caller]
fn came_when_due(said: &Value, delays: &[i64]) {
    let bodies = delays.iter().map(i64::to_string).collect::<Vec<_>>();
    shows(said, "body", json!(bodies));
    assert!(column(said, "early").iter().all(|early| early == false), "{said}");
}

#[track_caller]
fn shows(said: &Value, key: &str, expected: Value) {
    assert_eq!(Value::from(column(said, key)), expected, "{key} in {said}");
}

/// One thing of every message, the shortest delay first.
fn column(said: &Value, key: &str) -> Vec<Value> {
    let seen = said["seen"].as_array().unwrap_or_else(|| panic!("a list in {said}"));
    let mut seen: Vec<_> = seen.iter().collect();
    seen.sort_by_key(|message| message["body"].as_str()?.parse::<u64>().ok());
    seen.iter().map(|message| message[key].clone()).collect()
}

#[tokio::test]
async fn pika_changes_nothing_but_the_url() {
    let seen = through("pika", async |url, name| python("pika_client.py", url, name).await).await;
    came_when_due(&seen, &[0, 200, 400, 600]);
    assert_eq!(seen["returned"], true, "{seen}");
    assert_eq!(seen["rolled_back"], json!(["committed"]), "{seen}");
    assert_eq!(seen["channel_error"], 404, "{seen}");
    assert_eq!(seen["after_the_error"], "still works", "{seen}");
}

#[tokio::test]
async fn nodes_amqplib_works_as_with_the_plugin_and_small_delays_too() {
    let said = through("node", async |url, name| node("amqplib_client.js", url, name).await).await;
    came_when_due(&said, &[0, 100, 500, 900]);
    shows(&said, "delay", json!([null, -100, -500, -900]));
}

#[tokio::test]
async fn amqp091_go_works_as_with_the_plugin_whatever_the_type_of_a_delay() {
    let said = through("go", go).await;
    came_when_due(&said, &[0, 100, 500, 700, 900]);
    shows(&said, "delay", json!([null, -100, -500, -700, -900]));
}

#[tokio::test]
async fn rabbitmqs_java_client_works_as_with_the_plugin_and_small_delays_too() {
    let said = through("java", async |url, name| java("PlainClient", url, name).await).await;
    came_when_due(&said, &[0, 100, 500, 700, 900]);
    shows(&said, "delay", json!([null, -100, -500, -700, -900]));
}

/// What Spring calls the received delay is the size of the `x-delay` that arrives, whatever its sign.
#[tokio::test]
async fn spring_amqp_works_as_with_the_plugin_and_tells_the_received_delay() {
    let said = through("spring", async |url, name| java("SpringClient", url, name).await).await;
    came_when_due(&said, &[0, 100, 500, 900]);
    for key in ["received", "header"] {
        shows(&said, key, json!([null, 100, 500, 900]));
    }
    assert_eq!(said["returned"], json!([]), "mandatory returns nothing: {said}");
}

#[tokio::test]
async fn celery_works_as_with_the_plugin_producer_and_worker() {
    // Not recorded: it sends the name of its machine along.
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let said = python("celery_client.py", &url, &unique("celery")).await;
    came_when_due(&said, &[0, 500, 1_000, 1_500]);
}
