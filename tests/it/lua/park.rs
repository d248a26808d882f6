//! New to parked or dead, parked to gone.

use super::*;

#[tokio::test]
async fn park_keeps_body_due_and_id() {
    let mut bucket = Bucket::new().await;
    let arguments = [park("u1", "order-1", FUTURE), park("u2", "", PAST)].concat();
    let answer = bucket.run_twice(PARK, &arguments).await;
    assert_eq!(outcomes(&answer), "pp");
    bucket
        .holds(&[
            ("due", "u2 1000 u1 99999999999999"),
            ("ids", "order-1 u1"),
            ("msg", "u1 99999999999999:body u2 1000:body"),
        ])
        .await;
}

#[tokio::test]
async fn park_counts_a_delay_from_its_own_clock_and_rounds_up() {
    let mut bucket = Bucket::new().await;
    let before: (u64, u64) =
        redis::cmd("TIME").query_async(&mut bucket.redis).await.expect("a time");
    let answer = bucket.run(PARK, &["in", "u", "", "5000", "0", "b"]).await;
    let Value::Array(items) = &answer else { panic!("{answer:?}") };
    let (Value::Int(now), Value::Int(due)) = (&items[1], &items[2]) else { panic!("{answer:?}") };
    assert_eq!(*due, now + 5_000);
    let before_us = before.0 * 1_000_000 + before.1;
    assert!(*due as u64 * 1_000 >= before_us + 5_000_000, "never early, not by a microsecond");
}

#[tokio::test]
async fn park_applies_its_entries_in_order() {
    let mut bucket = Bucket::new().await;
    let cancel = vec!["cancel", "c", "order-1", "", "", ""];
    let arguments = [
        park("u1", "order-1", FUTURE),
        park("u2", "order-1", FUTURE),
        cancel.clone(),
        cancel,
        park("u3", "order-1", FUTURE),
        vec!["bury", "u4", "", "x-delay is odd", "", "body"],
    ]
    .concat();
    let answer = bucket.run_twice(PARK, &arguments).await;
    assert_eq!(outcomes(&answer), "prcupb");
    bucket
        .holds(&[
            ("dead", "u4 NOW"),
            ("due", "u3 99999999999999"),
            ("ids", "order-1 u3"),
            ("meta", "u4 0 0 x-delay is odd"),
            ("msg", "u3 99999999999999:body u4 NOW:body"),
        ])
        .await;
}

#[tokio::test]
async fn park_puts_a_higher_priority_first_among_equal_dues_and_none_too_early() {
    let mut bucket = Bucket::new().await;
    let arguments =
        [["at", "low", "", "5000", "0", "b"], ["at", "high", "", "5000", "255", "b"]].concat();
    bucket.run(PARK, &arguments).await;
    bucket
        .holds(&[("due", "high 4999.00390625 low 5000"), ("msg", "high 5000:b low 5000:b")])
        .await;
}

#[tokio::test]
async fn park_tells_when_what_it_ends_is_just_being_released() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &[park("u1", "a", PAST), park("u2", "b", PAST)].concat()).await;
    let (token, _) = bucket.claim("10", "60000").await;
    let arguments = [park("u3", "a", FUTURE), vec!["cancel", "c", "b", "", "", ""]].concat();
    let answer = bucket.run(PARK, &arguments).await;
    assert_eq!(outcomes(&answer), "RC");
    let settled = bucket.run(SETTLE, &["u1", &token, "a", "u2", &token, "b"]).await;
    assert_eq!(settled, Value::Int(0));
    bucket
        .holds(&[("due", "u3 99999999999999"), ("ids", "a u3"), ("msg", "u3 99999999999999:body")])
        .await;
}

#[tokio::test]
async fn park_never_says_plainly_cancelled_of_what_may_have_been_delivered() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("u1", "a", PAST)).await;
    bucket.claim("10", "0").await;
    // Its holder is lost, perhaps after it published.
    bucket.run(RECOVER, &["10", "3"]).await;
    let answer = bucket.run(PARK, &["cancel", "c", "a", "", "", ""]).await;
    assert_eq!(outcomes(&answer), "C");
    bucket.holds(&[]).await;
}

#[tokio::test]
async fn park_refuses_a_malformed_batch_whole() {
    for bad in [["frob", "u", "", "1", "0", "b"], ["in", "u", "", "soon", "0", "b"]] {
        let mut bucket = Bucket::new().await;
        let arguments = [park("good", "", PAST), bad.to_vec()].concat();
        assert!(bucket.try_run(PARK, &arguments).await.is_err());
        bucket.holds(&[]).await;
    }
}

#[tokio::test]
async fn park_moves_marks_only_from_where_they_are_expected() {
    let mut bucket = Bucket::new().await;
    let step = |expected, to| vec!["mark", "3", expected, to, "", ""];
    bucket.command(&["HSET", "mark", "3", "0 5 1000"]).await;
    let arguments = [step("0 5 ", "0 6 1001"), park("u1", "", PAST)].concat();
    let answer = bucket.run(PARK, &arguments).await;
    assert_eq!(outcomes(&answer), "p", "a mark has no letter");
    let parked = [("due", "u1 1000"), ("mark", "3 0 6 1001"), ("msg", "u1 1000:body")];
    bucket.holds(&parked).await;
    for expected in ["0 5 ", "0 61 ", "1 6 "] {
        let arguments = [step(expected, "0 9 2000"), park("u2", "", PAST)].concat();
        let answer = bucket.run_twice(PARK, &arguments).await;
        let text = |text: &str| Value::BulkString(text.into());
        assert_eq!(answer, Value::Array(vec![text("moved"), text("3"), text("0 6 1001")]));
        bucket.holds(&parked).await;
    }
}

#[tokio::test]
async fn park_takes_no_bytes_for_a_user_that_are_none() {
    // The head of an AMQP envelope, then flags that promise a user-id and an end anywhere.
    let head = "\x01\x01crc_delay___\x00\x00\x00\x00\x00\x06";
    for rest in ["", "\x00", "\x00\x10", "\x00\x10\x05ali", "\x20\x10\x7f\x7f\x7f\x7f", "\x7f\x7f"]
    {
        let mut bucket = Bucket::new().await;
        let body = format!("{head}{rest}");
        let parked = ["at", "u1", "id", FUTURE, "0", &body];
        let replaced = ["at", "u2", "id", FUTURE, "0", "body"];
        bucket.run(PARK, &parked).await;
        let letters = outcomes(&bucket.run(PARK, &replaced).await);
        // Of one that is cut short as much counts as is there.
        assert_eq!(letters, if rest.ends_with("ali") { "n" } else { "r" }, "{rest:?}");
    }
}
