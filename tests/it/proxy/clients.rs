//! Clients that are not ours, unmodified.

use std::process::Command;

use super::support::proxied;
use crate::support::{setting, unique};

/// Runs a Python script with the Python that `dev/install` set up; gives what it printed.
pub async fn python(script: &str, url: &str, name: &str) -> serde_json::Value {
    let dev = setting("TEST_DEV");
    let python = format!("{dev}/../target/venv/bin/python");
    let script = format!("{dev}/../tests/it/proxy/{script}");
    let (url, name) = (url.to_owned(), name.to_owned());
    let run = move || Command::new(python).args([script, url, name]).output();
    let output = tokio::task::spawn_blocking(run).await.expect("joined").expect("python runs");
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
