//! Definitions as `rabbitmqctl export_definitions` writes them.

use super::*;

fn exported() -> Value {
    let delayed = |name: &str, kind: &str| {
        json!({
            "name": name, "vhost": "/", "type": "x-delayed-message", "durable": true,
            "auto_delete": false, "internal": false,
            "arguments": { "x-delayed-type": kind, "alternate-exchange": "rest" },
        })
    };
    let binding = |source: &str, to: &str, kind: &str| {
        json!({
            "source": source, "vhost": "/", "destination": to, "destination_type": kind,
            "routing_key": "k", "arguments": {},
        })
    };
    let queue = |vhost: &str, name: &str, into: &str| {
        json!({
            "name": name, "vhost": vhost, "durable": true,
            "arguments": { "x-dead-letter-exchange": into, "x-max-length": 5 },
        })
    };
    json!({
        "rabbit_version": "3.13.7",
        "exchanges": [
            delayed("later", "topic"),
            delayed("retry", "direct"),
            { "name": "plain", "vhost": "/", "type": "topic", "arguments": { "alternate-exchange": "later" } },
        ],
        "queues": [queue("/", "work", "retry"), queue("/", "other", "plain"), queue("v", "work", "retry")],
        "bindings": [
            binding("later", "work", "queue"),
            binding("plain", "later", "exchange"),
            binding("retry", "later", "exchange"),
        ],
        "policies": [{
            "vhost": "/", "name": "dlx", "pattern": ".*", "definition": { "dead-letter-exchange": "retry" },
        }],
        "users": [{ "name": "shop" }],
    })
}

#[test]
fn delayed_exchanges_get_their_type_and_what_leads_in_leads_to_the_capture() {
    let mut definitions = exported();
    let report = convert(&mut definitions).expect("converted");
    let exchanges = definitions["exchanges"].as_array().expect("a list");
    let find = |name: &str| exchanges.iter().find(|exchange| exchange["name"] == name);
    let later = find("later").expect("later");
    assert_eq!(later["type"], "topic");
    assert_eq!(later["arguments"], json!({ "alternate-exchange": "rest" }), "the rest stays");
    assert_eq!(find("retry").expect("retry")["type"], "direct");
    let front = find("xdelay.later").expect("a capture");
    assert_eq!(front["type"], "headers");
    assert_eq!(front["arguments"]["alternate-exchange"], "later");
    assert_eq!(find("xdelay.retry.delayed").expect("a mark")["internal"], true);
    let bound: Vec<_> = definitions["bindings"].as_array().expect("a list").iter().collect();
    let to = |place: usize| bound[place]["destination"].as_str().expect("text");
    assert_eq!([to(0), to(1), to(2)], ["work", "xdelay.later", "later"]);
    let into = |place: usize| {
        definitions["queues"][place]["arguments"]["x-dead-letter-exchange"].as_str().expect("text")
    };
    assert_eq!([into(0), into(1), into(2)], ["xdelay.retry", "plain", "retry"]);
    let policy = &definitions["policies"][0]["definition"];
    assert_eq!(policy["dead-letter-exchange"], "xdelay.retry");
    assert_eq!(definitions["users"], exported()["users"], "all else is as it was");
    assert_eq!(report.changes.len(), 5, "{report:?}");
    assert_eq!(report.notes.len(), 2, "{report:?}");
    assert!(report.notes[0].contains("amqp.exchanges = [\"later\", \"retry\"]"), "{report:?}");
    assert!(report.notes[1].contains("exchange plain has later as its alternate"), "{report:?}");
}

#[test]
fn converting_twice_changes_nothing_more() {
    let mut once = exported();
    convert(&mut once).expect("converted");
    let mut twice = once.clone();
    let report = convert(&mut twice).expect("converted");
    assert_eq!(once, twice);
    assert!(report.changes.is_empty());
    assert!(report.notes[0].contains("nothing is to be done"), "{report:?}");
}

#[test]
fn what_cannot_be_converted_is_named_all_of_it() {
    for arguments in [json!({}), json!({ "x-delayed-type": 5 })] {
        let mut definitions = exported();
        for place in 0..2 {
            definitions["exchanges"][place]["arguments"] = arguments.clone();
        }
        let wrong = convert(&mut definitions).expect_err("refused");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("later (vhost /) has no usable argument"), "{wrong:?}");
    }
    assert!(convert(&mut json!([])).is_err());
}

#[test]
fn an_export_of_one_vhost_names_none() {
    let mut definitions = json!({
        "exchanges": [{
            "name": "later", "type": "x-delayed-message", "arguments": { "x-delayed-type": "fanout" },
        }],
    });
    convert(&mut definitions).expect("converted");
    assert_eq!(definitions["exchanges"][0]["type"], "fanout");
    assert_eq!(definitions["exchanges"][1].get("vhost"), None);
}
