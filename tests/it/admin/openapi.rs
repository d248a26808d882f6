//! Schemathesis reads the OpenAPI file of a running xdelay and asks it whatever that allows, and what
//! it does not: nothing may fail, and every answer is one that the file tells of.

use std::process::{Command, Output};

use serde_json::json;

use super::{HOUR, Stage};
use crate::support::setting;

/// Operations that Schemathesis would not reach with names it makes up: each has a message of its
/// own, and all know the exchange.
const REACHED: [&str; 5] = ["release", "reschedule", "revive", "bury", ""];

/// What it is told beside the OpenAPI file.
fn told(stage: &Stage) -> String {
    let orders = &stage.orders;
    let mut told = String::new();
    for step in ["pause", "resume"] {
        told += &format!(
            "[[operations]]\ninclude-path = \"/v1/destinations/{{name}}/{step}\"\n\
             parameters = {{ \"path.name\" = \"{orders}\" }}\n"
        );
    }
    for step in REACHED {
        let path = format!("/v1/messages/{{id}}/{step}");
        told += &format!(
            "[[operations]]\ninclude-path = \"{}\"\n\
             parameters = {{ \"path.id\" = \"id-{step}\", \"query.destination\" = \"{orders}\" }}\n",
            path.trim_end_matches('/')
        );
    }
    told
}

/// One run of it, which ends when so many seconds are over.
async fn run(stage: &Stage, token: &str, seconds: u32, phases: &str) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("schemathesis.toml");
    std::fs::write(&config, told(stage)).expect("written");
    let mut command =
        Command::new(format!("{}/../target/venv/bin/schemathesis", setting("TEST_DEV")));
    command.arg("--config-file").arg(&config).args(["--no-color", "run", "--checks", "all"]);
    // A request may be of the right form and yet make no sense, such as one with two dues.
    command.args(["--exclude-checks", "positive_data_acceptance"]);
    command.args(["--phases", phases, "--max-examples", "25", "--seed", "1"]);
    command.args(["--max-time", &seconds.to_string(), "--continue-on-failure", "--no-shrink"]);
    // Events never end, and what was found is not remembered.
    command.args(["--exclude-path", "/v1/events", "--generation-database", "none"]);
    if !token.is_empty() {
        command.arg("--header").arg(format!("Authorization: Bearer {token}"));
    }
    command.arg(format!("{}/openapi.json", stage.sidecar.url()));
    command.current_dir(directory.path());
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.expect("joined").expect("dev/install tests was run")
}

#[tokio::test]
async fn whatever_is_asked_the_openapi_file_tells_of_the_answer() {
    let stage = Stage::with(|sidecar| {
        let directory = tempfile::tempdir().expect("a directory");
        let token_in = |name, token| super::safety::token_in(directory.path(), name, token);
        sidecar.set("ADMIN__TOKEN_FILE", &token_in("write", "letmewrite"));
        sidecar.set("ADMIN__READ_TOKEN_FILE", &token_in("read", "letmelook"));
        Some(directory)
    })
    .await;
    for step in REACHED {
        let message = json!({"destination": stage.orders, "id": format!("id-{step}"),
            "delay_ms": HOUR, "body": "{}", "headers": {"source": "test"}});
        let headers = [
            ("host", "localhost"),
            ("authorization", "Bearer letmewrite"),
            ("content-type", "application/json"),
        ];
        let body = message.to_string();
        let parked = stage.sidecar.request("POST", "/v1/messages", &headers, &body);
        assert_eq!(parked.map(|(status, _)| status), Some(201));
    }
    for (token, seconds, phases) in [
        ("letmewrite", 30, "examples,coverage,fuzzing"),
        ("letmelook", 15, "coverage"),
        ("", 15, "coverage"),
    ] {
        let output = run(&stage, token, seconds, phases).await;
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "with the token `{token}`:\n{said}\n{errors}");
        assert!(said.contains(" generated, "), "it asked nothing: {said}");
    }
}
