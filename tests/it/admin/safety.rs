//! Who may do what, and what the API says of itself.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::Stage;

/// The data of the first server-sent event.
pub fn first_event(address: &str) -> String {
    let address = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET /v1/events HTTP/1.0\r\nhost: localhost\r\n\r\n").expect("asked");
    let lines = BufReader::new(stream).lines();
    let data =
        lines.map_while(Result::ok).find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    data.expect("an event")
}

/// A token file, gone with its directory.
pub fn token_in(directory: &std::path::Path, name: &str, token: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, format!("{token}\n")).expect("written");
    path.to_string_lossy().into_owned()
}

#[tokio::test]
async fn one_token_changes_another_only_looks_and_without_one_nothing_is_told() {
    let stage = Stage::with(|sidecar| {
        let directory = tempfile::tempdir().expect("a directory");
        sidecar.set("ADMIN__TOKEN_FILE", &token_in(directory.path(), "write", "letmewrite"));
        sidecar.set("ADMIN__READ_TOKEN_FILE", &token_in(directory.path(), "read", "letmelook"));
        Some(directory)
    })
    .await;
    let ask = |method: &str, path: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("host", "localhost")];
        if !token.is_empty() {
            headers.push(("authorization", &bearer));
        }
        let (status, body) = stage.sidecar.request(method, path, &headers, "").expect("an answer");
        (status, body)
    };
    for wrong in ["", "letme", "letmewritE", "letmewrite2"] {
        for path in ["/v1/stats", "/v1/messages", "/metrics", "/v1/history", "/v1/events"] {
            assert_eq!(ask("GET", path, wrong).0, 401, "{path} with `{wrong}`");
        }
        let pause = format!("/v1/destinations/{}/pause", stage.orders);
        assert_eq!(ask("POST", &pause, wrong).0, 401);
    }
    assert_eq!(ask("GET", "/ready", ""), (200, "{\"ready\":true}".to_owned()));
    assert_eq!(ask("GET", "/v1/stats", "letmelook").0, 200);
    assert!(ask("GET", "/v1/stats", "letmelook").1.contains("\"may_write\":false"));
    assert!(ask("GET", "/v1/stats", "letmewrite").1.contains("\"may_write\":true"));
    let pause = format!("/v1/destinations/{}/pause", stage.orders);
    assert_eq!(ask("POST", &pause, "letmelook").0, 403);
    assert_eq!(ask("POST", &pause, "letmewrite").0, 200);
    assert!(!stage.sidecar.log().contains("letme"), "no token is ever logged");
    assert!(stage.sidecar.log().contains("\"step\":\"paused\""), "every step is");
}

#[tokio::test]
async fn other_web_sites_are_kept_out() {
    let stage = Stage::on_redis().await;
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        stage.sidecar.request(method, path, headers, "").expect("an answer").0
    };
    assert_eq!(ask("GET", "/v1/stats", &[("host", "rebound.example")]), 403);
    assert_eq!(ask("GET", "/", &[("host", "rebound.example")]), 403);
    let pause = format!("/v1/destinations/{}/pause", stage.orders);
    let ours = stage.sidecar.url();
    let host = ours.trim_start_matches("http://").to_owned();
    for foreign in [
        vec![("host", "localhost"), ("origin", "http://evil.example")],
        vec![("host", "localhost"), ("origin", "null")],
        vec![("host", "localhost"), ("sec-fetch-site", "cross-site")],
    ] {
        assert_eq!(ask("POST", &pause, &foreign), 403, "{foreign:?}");
    }
    assert_eq!(ask("POST", &pause, &[("host", &host), ("origin", &ours)]), 200);
    assert_eq!(ask("POST", &pause, &[("host", "localhost")]), 200, "no browser at all");
    assert_eq!(ask("GET", "/ready", &[]), 200, "a script of two lines");
}

#[tokio::test]
async fn bodies_are_not_shown_where_previews_are_off() {
    let stage = Stage::with(|sidecar| {
        sidecar.set("ADMIN__PREVIEWS", "false");
        None
    })
    .await;
    stage.park("secret", super::HOUR);
    let shown = stage.get(&stage.path_of("secret", ""));
    let body = json!({"bytes": 6, "format": "hidden", "preview": "", "truncated": true});
    assert_eq!(shown["content"]["body"], body);
}

/// Each operation is called; what it answers is one of the answers that it lists, and each of those
/// has a schema or an example.
#[tokio::test]
async fn the_openapi_file_is_what_the_server_does() {
    let stage = Stage::on_redis().await;
    let uid = stage.park("a", super::HOUR);
    let api = stage.get("/openapi.json");
    let mut called = 0;
    for (path, operations) in api["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            if path == "/v1/events" {
                continue;
            }
            let mut filled = path.replace("{id}", &uid).replace("{name}", &stage.orders);
            filled = filled.replace("{step}", "cancel");
            if path == "/v1/backlog" {
                filled += "?slot_ms=1000&slots=2";
            }
            let body = (method != "get").then(|| body_for(path, &stage.orders));
            let (status, answer) = stage.call(&method.to_uppercase(), &filled, body.flatten());
            let listed = operation["responses"].as_object().expect("responses");
            assert!(listed.contains_key(&status.to_string()), "{method} {path}: {status} {answer}");
            for (status, response) in listed {
                let content = response["content"]
                    .as_object()
                    .unwrap_or_else(|| panic!("{path} {status} has no body"));
                let told = content.values().all(|it| it["schema"] != Value::Null);
                assert!(told, "{path} {status}: {response}");
            }
            called += 1;
        }
    }
    assert!(called >= 16, "{called}");
}

fn body_for(path: &str, orders: &str) -> Option<Value> {
    match path {
        "/v1/messages" => Some(json!({"destination": orders, "delay_ms": 3_600_000})),
        "/v1/bulk/{step}" => Some(json!({"dry_run": true})),
        "/v1/messages/{id}/reschedule" => Some(json!({"delay_ms": 3_600_000})),
        _ => None,
    }
}
