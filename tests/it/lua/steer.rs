//! The scripts of an operator's steps and looks.

use super::*;

fn letters(answer: &Value) -> String {
    match answer {
        Value::BulkString(letters) => String::from_utf8_lossy(letters).into_owned(),
        Value::Array(items) => letters(&items[1]),
        other => panic!("{other:?}"),
    }
}

/// What it answers in the places `from`, `from + step` and so on.
fn every(answer: &Value, from: usize, step: usize) -> Vec<String> {
    let Value::Array(items) = answer else { panic!("{answer:?}") };
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    items.iter().skip(from).step_by(step).map(text).collect()
}

/// `p` parked, `l` leased, `d` dead.
async fn one_of_each() -> Bucket {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("l", "id-l", PAST)).await;
    bucket.claim("1", "60000").await;
    let others = [park("p", "id-p", FUTURE), vec!["bury", "d", "", "bad", "", "body"]].concat();
    bucket.run(PARK, &others).await;
    bucket
}

#[tokio::test]
async fn cancel_ends_whatever_it_finds_and_is_plain_only_of_what_nobody_held() {
    let mut bucket = one_of_each().await;
    let answer = bucket.run_twice(CANCEL, &["p", "id-p", "l", "id-l", "d", "", "nobody", ""]).await;
    assert_eq!(letters(&answer), "cCCu");
    bucket.holds(&[("gone", "d NOW l NOW p NOW")]).await;
}

#[tokio::test]
async fn cancel_keeps_what_is_sent_again_from_coming_back() {
    let mut bucket = Bucket::new().await;
    let batch = [park("u1", "order-1", FUTURE), park("u2", "", FUTURE)].concat();
    bucket.run(PARK, &batch).await;
    bucket.run(CANCEL, &["u1", "order-1"]).await;
    let answer = bucket.run_twice(PARK, &batch).await;
    assert_eq!(every(&answer, 3, 1), ["kk"]);
    let u2 = [("due", "u2 99999999999999"), ("gone", "u1 NOW"), ("msg", "u2 99999999999999:body")];
    bucket.holds(&u2).await;
    // Who ended it may bring it back, and it is not remembered for ever.
    let answer = bucket.run(PARK, &["at!", "u1", "", FUTURE, "0", "body"]).await;
    assert_eq!(every(&answer, 3, 1), ["p"]);
    bucket.run(CANCEL, &["u1", ""]).await;
    bucket.command(&["ZADD", "gone", "1000", "u1"]).await;
    let answer = bucket.run(PARK, &park("u1", "", FUTURE)).await;
    assert_eq!(every(&answer, 3, 1), ["p"]);
    let state = bucket.state().await;
    assert_eq!(state.get("gone"), None, "what is too old is forgotten");
}

#[tokio::test]
async fn cancel_remembers_no_more_than_the_newest() {
    let mut bucket = Bucket::new().await;
    let uids: Vec<String> = (0..10_050).map(|n| format!("u{n:05}")).collect();
    for some in uids.chunks(500) {
        let batch: Vec<&str> = some.iter().flat_map(|uid| park(uid, "", FUTURE)).collect();
        bucket.run(PARK, &batch).await;
        let whom: Vec<&str> = some.iter().flat_map(|uid| [uid.as_str(), ""]).collect();
        bucket.run(CANCEL, &whom).await;
    }
    let gone = bucket.state().await.remove("gone").expect("some");
    assert_eq!(gone.split(' ').count(), 2 * 10_000);
    assert!(gone.ends_with("u10049 NOW") && !gone.contains("u00000 "), "the oldest went");
}

#[tokio::test]
async fn what_an_operator_replaced_is_not_brought_back_either() {
    let mut bucket = Bucket::new().await;
    let first = park("u1", "order-1", FUTURE);
    bucket.run(PARK, &first).await;
    bucket.run(PARK, &["at!", "u2", "order-1", FUTURE, "0", "body"]).await;
    let answer = bucket.run(PARK, &first).await;
    assert_eq!(every(&answer, 3, 1), ["k"]);
    assert_eq!(bucket.state().await["ids"], "order-1 u2");
}

#[tokio::test]
async fn cancel_leaves_an_id_that_is_another_messages_now() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("old", "", FUTURE)).await;
    bucket.run(PARK, &park("new", "id", FUTURE)).await;
    bucket.run(CANCEL, &["old", "id"]).await;
    let found = bucket.run(FIND, &["", "id"]).await;
    assert_eq!(every(&found, 1, 9), ["new"]);
}

#[tokio::test]
async fn reschedule_moves_the_due_of_what_is_parked_alone() {
    let mut bucket = one_of_each().await;
    let answer = bucket.run(RESCHEDULE, &["at", "5000", "p", "l", "d", "nobody"]).await;
    assert_eq!(letters(&answer), "pldu");
    let found = bucket.run(FIND, &["p", ""]).await;
    assert_eq!(every(&found, 0, 1)[..4], ["p", "p", "5000", ""]);
    assert_eq!(bucket.claim("9", "60000").await.1, ["p"]);
}

#[tokio::test]
async fn reschedule_keeps_what_a_priority_is_worth() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &["at", "low", "", FUTURE, "0", "body"]).await;
    bucket.run(PARK, &["at", "high", "", FUTURE, "9", "body"]).await;
    bucket.run(RESCHEDULE, &["at", PAST, "low", "high"]).await;
    assert_eq!(bucket.claim("9", "60000").await.1, ["high", "low"]);
}

#[tokio::test]
async fn a_time_that_is_none_changes_nothing() {
    let mut bucket = one_of_each().await;
    let before = bucket.state().await;
    for arguments in [["at", "soon", "p"], ["whenever", "1", "p"], ["in", "-1", "p"]] {
        bucket.try_run(RESCHEDULE, &arguments).await.expect_err("no time");
    }
    assert_eq!(bucket.state().await, before);
}

#[tokio::test]
async fn revive_parks_the_dead_with_all_attempts_before_it() {
    let mut bucket = one_of_each().await;
    let answer = bucket.run(REVIVE, &["at", PAST, "d", "", "p", "", "l", "", "nobody", ""]).await;
    assert_eq!(letters(&answer), "rplu");
    let found = bucket.run(FIND, &["d", ""]).await;
    assert_eq!(every(&found, 0, 1)[..4], ["p", "d", PAST, "0 0"]);
    assert_eq!(bucket.claim("9", "60000").await.1, ["d"]);
}

#[tokio::test]
async fn revive_leaves_an_id_to_the_newer_message() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("old", "id", PAST)).await;
    let (token, _) = bucket.claim("1", "60000").await;
    bucket.run(BURY, &["old", &token, "unroutable"]).await;
    bucket.run(PARK, &park("new", "id", FUTURE)).await;
    let answer = bucket.run(REVIVE, &["own", "0", "old", "id"]).await;
    assert_eq!(letters(&answer), "i");
    bucket.run(CANCEL, &["new", "id"]).await;
    let answer = bucket.run_twice(REVIVE, &["own", "0", "old", "id"]).await;
    assert_eq!(letters(&answer), "r");
    let found = bucket.run(FIND, &["", "id"]).await;
    assert_eq!(every(&found, 1, 9), ["old"]);
}

#[tokio::test]
async fn withdraw_keeps_the_parked_as_dead() {
    let mut bucket = one_of_each().await;
    let answer = bucket.run_twice(WITHDRAW, &["not wanted", "p", "l", "d", "nobody"]).await;
    assert_eq!(letters(&answer), "bldu");
    let found = bucket.run(FIND, &["p", ""]).await;
    assert_eq!(every(&found, 0, 1)[0], "d");
    assert_eq!(every(&found, 0, 1)[3], "0 0 not wanted");
}

#[tokio::test]
async fn list_goes_on_behind_a_place_also_when_nobody_stands_there_any_more() {
    let mut bucket = Bucket::new().await;
    for uid in ["b", "d", "f", "h", "j"] {
        bucket.run(PARK, &park(uid, "", FUTURE)).await;
    }
    bucket.run(PARK, &park("first", "", PAST)).await;
    let mut seen = Vec::new();
    let (mut from, mut after) = ("-inf".to_owned(), String::new());
    loop {
        let page = bucket.run(LIST, &["2", "1000000", "11", &from, &after]).await;
        let (uids, scores) = (every(&page, 1, 5), every(&page, 2, 5));
        let Some(last) = uids.last() else { break };
        (from, after) = (scores[uids.len() - 1].clone(), last.clone());
        seen.extend(uids);
        // Whoever ended the page goes away before the next is asked for.
        bucket.run(CANCEL, &[&after, ""]).await;
    }
    assert_eq!(seen, ["first", "b", "d", "f", "h", "j"]);
}

#[tokio::test]
async fn list_shows_the_beginning_of_a_body_and_ends_early_when_bodies_are_large() {
    let mut bucket = Bucket::new().await;
    let large = "x".repeat(10_000);
    for n in 0..45 {
        let uid = format!("{n:02}");
        bucket.run(PARK, &["at", &uid, "", FUTURE, "0", &large]).await;
    }
    let page = bucket.run(LIST, &["100", "150000", "11", "-inf", ""]).await;
    assert_eq!(every(&page, 0, 999), ["1"], "there is more");
    assert_eq!(every(&page, 1, 5).len(), 16);
    assert_eq!(every(&page, 4, 5)[0], "10008");
    assert_eq!(every(&page, 5, 5)[0].chars().filter(|c| *c == 'x').count(), 3);
}

#[tokio::test]
async fn a_paused_bucket_hands_nothing_out() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("u", "", PAST)).await;
    bucket.command(&["SET", "paused", "1"]).await;
    let answer = bucket.run(CLAIM, &["9", "1000", "60000", "3", "1"]).await;
    let Value::Array(items) = &answer else { panic!("{answer:?}") };
    assert_eq!(items.len(), 1);
    bucket.command(&["DEL", "paused"]).await;
    assert_eq!(bucket.claim("9", "60000").await.1, ["u"]);
}

#[tokio::test]
async fn backlog_counts_until_each_instant() {
    let mut bucket = Bucket::new().await;
    let entries = [park("a", "", "1000"), park("b", "", "2000"), park("c", "", "2000")].concat();
    bucket.run(PARK, &entries).await;
    let answer = bucket.run(BACKLOG, &["999", "1000", "2000"]).await;
    assert_eq!(every(&answer, 0, 1), ["0", "1", "3"]);
}

#[tokio::test]
async fn restore_gives_attempts_back_and_moves_nothing() {
    let mut bucket = one_of_each().await;
    bucket.run(PARK, &park("q", "", FUTURE)).await;
    bucket.run(WITHDRAW, &["not wanted", "p"]).await;
    let asked = ["p", "3", "q", "2", "l", "1", "nobody", "1"];
    let answer = bucket.run_twice(RESTORE, &asked).await;
    assert_eq!(letters(&answer), "aauu");
    bucket.run(RESTORE, &["q", "1"]).await;
    for (uid, state, meta) in [("p", "d", "3 0 not wanted"), ("q", "p", "2 0")] {
        let found = every(&bucket.run(FIND, &[uid, ""]).await, 0, 1);
        assert_eq!((&*found[0], &*found[3]), (state, meta), "{uid}");
    }
}

/// What one bucket has taken over, the other lets go, whatever has happened to it there meanwhile.
#[tokio::test]
async fn receive_takes_over_as_it_is_and_leave_lets_go() {
    let mut bucket = Bucket::new().await;
    let two =
        ["due", "p", FUTURE, "a body", "2 0", "id-p", "dead", "d", PAST, "a body", "1 0 bad", ""];
    let answer = bucket.run_twice(RECEIVE, &two).await;
    assert_eq!(answer, Value::Int(2));
    let due = format!("p {FUTURE}");
    let dead = format!("d {PAST}");
    bucket
        .holds(&[
            ("due", &due),
            ("dead", &dead),
            ("msg", "d a body p a body"),
            ("meta", "d 1 0 bad p 2 0"),
            ("ids", "id-p p"),
        ])
        .await;
    bucket.run(RECEIVE, &["due", "l", PAST, "a body", "", "id-l"]).await;
    bucket.claim("1", "60000").await;
    let answer = bucket.run_twice(LEAVE, &["p", "id-p", "d", "", "l", "id-l", "nobody", ""]).await;
    assert_eq!(answer, Value::Int(2), "what is leased stays");
    bucket.holds(&[("lease", "l NOW"), ("msg", "l a body"), ("ids", "id-l l")]).await;
}
