//! What `convert-definitions` writes can be imported, and delays.

use lapin::types::AMQPValue;
use serde_json::{Value, json};

use super::support::proxied_to;
use crate::support::rabbit::{Rabbit, control, control_with, header, headers, own_vhost};

/// What a RabbitMQ with the plugin exports, for one vhost.
fn exported(vhost: &str) -> Value {
    json!({
        "exchanges": [
            { "name": "later", "vhost": vhost, "type": "x-delayed-message", "durable": true,
              "auto_delete": false, "internal": false, "arguments": { "x-delayed-type": "fanout" } },
            { "name": "plain", "vhost": vhost, "type": "fanout", "durable": true,
              "auto_delete": false, "internal": false, "arguments": {} },
        ],
        "queues": [{ "name": "work", "vhost": vhost, "durable": true, "auto_delete": false,
                     "arguments": {} }],
        "bindings": [
            { "source": "later", "vhost": vhost, "destination": "work",
              "destination_type": "queue", "routing_key": "", "arguments": {} },
            { "source": "plain", "vhost": vhost, "destination": "later",
              "destination_type": "exchange", "routing_key": "", "arguments": {} },
        ],
    })
}

#[tokio::test]
async fn converted_definitions_are_imported_and_delay() {
    let url = own_vhost();
    let vhost = url.rsplit_once('/').expect("a vhost").1.to_owned();
    let (mut sidecar, _) = proxied_to(&url);
    sidecar.set("AMQP__EXCHANGES", "later");
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (old, new) = (file("old.json"), file("new.json"));
    std::fs::write(&old, exported(&vhost).to_string()).expect("written");
    let output = sidecar.output_of(&["convert-definitions", &old, "--output", &new]);
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{report}");
    assert!(report.contains("type x-delayed-message is now fanout"), "{report}");
    assert!(report.contains("amqp.exchanges = [\"later\"]"), "{report}");
    control_with(&["import_definitions"], &std::fs::read_to_string(&new).expect("a file"));
    sidecar.start().await;
    let rabbit = Rabbit::connect_to(&url).await;
    let mut inbox = rabbit.consume("work").await;
    // By way of the binding, which no proxy sees.
    rabbit.publish("plain", headers([("x-delay", AMQPValue::LongInt(300))]), b"later").await;
    rabbit.publish("plain", headers([]), b"at once").await;
    assert_eq!(inbox.next().await.data, b"at once");
    let got = inbox.next().await;
    assert_eq!(header(&got, "x-delay"), Some(AMQPValue::LongInt(-300)));
    control(&["delete_vhost", &vhost]);
}

#[tokio::test]
async fn what_cannot_be_converted_is_named_and_nothing_is_written() {
    let (sidecar, _) = proxied_to("amqp://guest:guest@127.0.0.1:1/%2f");
    let directory = tempfile::tempdir().expect("a directory");
    let old = directory.path().join("old.json");
    let mut bad = exported("/");
    bad["exchanges"][0]["arguments"] = json!({});
    std::fs::write(&old, bad.to_string()).expect("written");
    let output = sidecar.output_of(&["convert-definitions", &old.to_string_lossy()]);
    assert!(!output.status.success() && output.stdout.is_empty());
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(says.contains("exchange later (vhost /) has no usable argument"), "{says}");
}
