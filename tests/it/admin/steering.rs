//! Steps with messages, alone and against the release loop.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::support::eventually_is;
use super::{HOUR, Stage, on_both_stores};

on_both_stores! {
    a_cancelled_message_is_gone_and_says_so,
    a_message_is_released_now,
    a_message_gets_another_due,
    a_buried_message_is_revived,
    many_are_steered_at_once_after_a_look_at_how_many,
    a_paused_destination_holds_back_what_is_due,
    a_plain_cancelled_is_never_delivered,
}

async fn a_cancelled_message_is_gone_and_says_so(stage: Stage) {
    stage.park("a", HOUR);
    let (status, done) = stage.call("DELETE", &stage.path_of("a", ""), None);
    assert_eq!((status, &done["result"]), (200, &json!("cancelled")));
    let (status, problem) = stage.call("DELETE", &stage.path_of("a", ""), None);
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(status == 404 && detail.contains("it was cancelled at"), "{problem}");
    assert_eq!(stage.counts("cancelled"), 1);
    assert_eq!(stage.counts("parked"), 0);
}

async fn a_message_is_released_now(mut stage: Stage) {
    stage.park("a", HOUR);
    let (status, done) = stage.call("POST", &stage.path_of("a", "/release"), None);
    assert_eq!((status, &done["result"]), (200, &json!("rescheduled")));
    assert_eq!(stage.next_body().await, "a");
    let again = || async { stage.call("POST", &stage.path_of("a", "/release"), None).0 };
    eventually_is(410, again).await;
}

async fn a_message_gets_another_due(mut stage: Stage) {
    stage.park("a", HOUR);
    let path = stage.path_of("a", "/reschedule");
    let body = json!({"deliver_at": "2030-01-01T00:00:00Z"});
    let (status, done) = stage.call("POST", &path, Some(body));
    assert_eq!((status, &done["due"]), (200, &json!(1_893_456_000_000_u64)), "{done}");
    let shown = stage.get(&stage.path_of("a", ""));
    assert_eq!(shown["due_at"], "2030-01-01T00:00:00Z");
    let (status, _) = stage.call("POST", &path, Some(json!({"delay_ms": 50})));
    assert_eq!(status, 200);
    assert_eq!(stage.next_body().await, "a");
}

async fn a_buried_message_is_revived(mut stage: Stage) {
    stage.park("a", HOUR);
    let why = json!({"reason": "not before Monday"});
    let (status, _) = stage.call("POST", &stage.path_of("a", "/bury"), Some(why));
    assert_eq!(status, 200);
    let shown = stage.get(&stage.path_of("a", ""));
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("dead"), &json!("not before Monday")));
    assert_eq!(stage.listed("&state=dead"), ["a"]);
    let (status, problem) = stage.call("POST", &stage.path_of("a", "/release"), None);
    assert_eq!((status, &problem["kind"]), (409, &json!("dead")));
    let due = json!({"delay_ms": 0});
    let (status, _) = stage.call("POST", &stage.path_of("a", "/revive"), Some(due));
    assert_eq!(status, 200);
    assert_eq!(stage.next_body().await, "a");
}

async fn many_are_steered_at_once_after_a_look_at_how_many(mut stage: Stage) {
    for n in 0..25 {
        stage.park(&format!("a-{n:02}"), HOUR);
    }
    stage.park("b", HOUR);
    let filter = json!({"destination": stage.orders, "id": "a-"});
    let (_, looked) =
        stage.call("POST", "/v1/bulk/cancel", Some(json!({"filter": filter, "dry_run": true})));
    assert_eq!((&looked["matched"], &looked["results"]), (&json!(25), &json!({})), "{looked}");
    assert_eq!(stage.counts("parked"), 26);
    // In portions, and to one due for all.
    let mut body = json!({"filter": filter, "delay_ms": 2 * HOUR, "limit": 10});
    let (mut moved, mut dues) = (0, BTreeSet::new());
    loop {
        let (status, done) = stage.call("POST", "/v1/bulk/reschedule", Some(body.clone()));
        assert_eq!(status, 200, "{done}");
        moved += done["results"]["rescheduled"].as_u64().unwrap_or(0);
        dues.insert(done["due"].as_u64().expect("a due"));
        if done["cursor"] == Value::Null {
            break;
        }
        body = json!({"filter": filter, "deliver_at": done["due"], "cursor": done["cursor"],
            "limit": 10});
    }
    assert_eq!((moved, dues.len()), (25, 1));
    let (_, done) = stage.call("POST", "/v1/bulk/bury", Some(json!({"filter": filter})));
    assert_eq!(done["results"], json!({"buried": 25}));
    let revive = json!({"filter": {"destination": stage.orders}, "delay_ms": 0});
    let (_, done) = stage.call("POST", "/v1/bulk/revive", Some(revive));
    assert_eq!(done["results"], json!({"revived": 25}));
    let mut got = BTreeSet::new();
    while got.len() < 25 {
        got.insert(stage.next_body().await);
    }
    assert!(!got.contains("b"));
}

async fn a_paused_destination_holds_back_what_is_due(mut stage: Stage) {
    let path = |step| format!("/v1/destinations/{}/{step}", stage.orders);
    let (status, standing) = stage.call("POST", &path("pause"), None);
    assert_eq!((status, &standing["paused"]), (200, &json!(true)));
    let resume = path("resume");
    stage.park("a", 1);
    eventually_is(json!(1), || async { stage.counts("overdue") }).await;
    assert_eq!(stage.counts("paused"), true);
    let quiet = std::time::Duration::from_millis(600);
    assert!(stage.inbox.next_within(quiet).await.is_none(), "it is held back");
    stage.call("POST", &resume, None);
    assert_eq!(stage.next_body().await, "a");
    assert_eq!(stage.counts("paused"), false);
}

/// Cancels race the release loop over the whole time in which messages come due.
async fn a_plain_cancelled_is_never_delivered(mut stage: Stage) {
    const MESSAGES: u64 = 150;
    for n in 0..MESSAGES {
        stage.park(&format!("m-{n}"), HOUR);
    }
    // Half of them come due while all are cancelled, one after the other.
    for n in (0..MESSAGES).step_by(2) {
        let path = stage.path_of(&format!("m-{n}"), "/reschedule");
        let (status, _) = stage.call("POST", &path, Some(json!({"delay_ms": 500 + n})));
        assert_eq!(status, 200);
    }
    let (mut cancelled, mut possibly) = (BTreeSet::new(), BTreeSet::new());
    for n in 0..MESSAGES {
        let id = format!("m-{n}");
        let (status, answer) = stage.call("DELETE", &stage.path_of(&id, ""), None);
        match (status, answer["result"].as_str()) {
            (200, Some("cancelled")) => drop(cancelled.insert(id)),
            (200, Some("cancelled_possibly_delivered")) => drop(possibly.insert(id)),
            (410, _) => {}
            other => panic!("{id}: {other:?} {answer}"),
        }
    }
    let mut delivered = BTreeSet::new();
    let enough = MESSAGES as usize - cancelled.len() - possibly.len();
    while delivered.len() < enough {
        let body = stage.next_body().await;
        assert!(!cancelled.contains(&body), "{body} was cancelled, and delivered");
        if !possibly.contains(&body) {
            assert!(delivered.insert(body.clone()), "{body} came twice");
        }
    }
    let quiet = std::time::Duration::from_millis(300);
    while let Some(late) = stage.inbox.next_within(quiet).await {
        let body = String::from_utf8_lossy(&late.data).into_owned();
        assert!(possibly.contains(&body), "{body} was not to come");
    }
    assert!(cancelled.len() >= MESSAGES as usize / 2, "those not due were plainly cancelled");
    eventually_is(json!(0), || async { stage.counts("parked") }).await;
    eventually_is(json!(0), || async { stage.counts("leased") }).await;
}
