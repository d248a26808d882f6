//! Parked to leased, and from there to wherever it goes.

use super::*;

#[tokio::test]
async fn claim_takes_what_is_due_and_says_when_the_next_is() {
    let mut bucket = Bucket::new().await;
    let arguments = [park("u1", "", PAST), park("u2", "", FUTURE)].concat();
    bucket.run(PARK, &arguments).await;
    let answer = bucket.run_twice(CLAIM, &["10", "1000", "60000", "3", "1"]).await;
    let Value::Array(items) = &answer else { panic!("{answer:?}") };
    assert_eq!(items[1], Value::Int(99_999_999_999_999));
    assert_eq!(items[5..7], [Value::BulkString(b"u1".into()), Value::Int(0)]);
    let due_and_body = [&1_000_u64.to_be_bytes()[..], b"body"].concat();
    assert_eq!(items[7..], [Value::BulkString(due_and_body)]);
    bucket
        .holds(&[
            ("due", "u2 99999999999999"),
            ("lease", "u1 NOW"),
            ("msg", "u1 1000:body u2 99999999999999:body"),
        ])
        .await;
}

#[tokio::test]
async fn claim_keeps_its_bounds_but_takes_one_at_least() {
    let mut bucket = Bucket::new().await;
    let arguments = [park("u1", "", PAST), park("u2", "", PAST), park("u3", "", PAST)].concat();
    bucket.run(PARK, &arguments).await;
    let taken = |answer: &Value| match answer {
        Value::Array(items) => items.len() / 3 - 1,
        other => panic!("{other:?}"),
    };
    assert_eq!(taken(&bucket.run(CLAIM, &["10", "1", "60000", "3", "1"]).await), 1);
    assert_eq!(taken(&bucket.run(CLAIM, &["1", "1000", "60000", "3", "1"]).await), 1);
    assert_eq!(taken(&bucket.run(CLAIM, &["10", "1000", "60000", "3", "1"]).await), 1);
}

#[tokio::test]
async fn claim_gives_a_token_to_every_lease_of_its_own_and_reads_large_batches_in_order() {
    let mut bucket = Bucket::new().await;
    let uids: Vec<String> = (0..60).map(|n| format!("u{n:02}")).collect();
    let entries: Vec<&str> = uids.iter().flat_map(|uid| park(uid, "", PAST)).collect();
    bucket.run(PARK, &entries).await;
    let (first, claimed) = bucket.claim("59", "60000").await;
    assert_eq!(claimed, uids[..59]);
    let (second, claimed) = bucket.claim("10", "60000").await;
    assert_eq!(claimed, uids[59..]);
    assert_ne!(first, second);
}

#[tokio::test]
async fn claim_leaves_what_must_be_alone_while_others_are_in_hand() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &[park("bad", "", "1"), park("good", "", PAST)].concat()).await;
    bucket.command(&["HSET", "meta", "bad", "0 3"]).await;
    let answer = bucket.run(CLAIM, &["10", "1000", "60000", "3", "0"]).await;
    let Value::Array(items) = &answer else { panic!("{answer:?}") };
    assert_eq!((items.len(), &items[1]), (5, &Value::Int(1)), "nothing, but it is due");
    let answer = bucket.run(CLAIM, &["10", "1000", "60000", "3", "1"]).await;
    let Value::Array(items) = &answer else { panic!("{answer:?}") };
    assert_eq!((items.len(), &items[3]), (8, &Value::Int(1)), "it alone");
}

#[tokio::test]
async fn claim_refuses_before_it_writes() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("u1", "", PAST)).await;
    bucket.command(&["SET", "claims", "planted"]).await;
    assert!(bucket.try_run(CLAIM, &["10", "1000", "60000", "3", "1"]).await.is_err());
    bucket.holds(&[("due", "u1 1000"), ("msg", "u1 1000:body")]).await;
}

#[tokio::test]
async fn claim_buries_what_has_no_body() {
    let mut bucket = Bucket::new().await;
    bucket.command(&["ZADD", "due", "1", "ghost"]).await;
    bucket.claim("10", "60000").await;
    bucket
        .holds(&[("dead", "ghost NOW"), ("meta", "ghost 0 0 its body is missing in the store")])
        .await;
}

#[tokio::test]
async fn settle_removes_everything_and_twice_is_once() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("u1", "a", PAST)).await;
    let (old, _) = bucket.claim("10", "0").await;
    bucket.run(RECOVER, &["10", "3"]).await;
    let (token, _) = bucket.claim("10", "60000").await;
    let wrong = bucket.run(SETTLE, &["u1", &old, "a"]).await;
    assert_eq!(wrong, Value::Int(0), "an old token changes nothing");
    assert!(bucket.state().await.contains_key("lease"));
    let right = bucket.run_twice(SETTLE, &["u1", &token, "a"]).await;
    assert_eq!(right, Value::Int(1));
    bucket.holds(&[]).await;
}

#[tokio::test]
async fn postpone_keeps_the_due_and_counts() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &[park("u1", "", PAST), park("u2", "", PAST)].concat()).await;
    let (token, _) = bucket.claim("10", "60000").await;
    let arguments = [["u1", &token, PAST, "60000", "1"], ["u2", &token, PAST, "0", "0"]].concat();
    bucket.run_twice(POSTPONE, &arguments).await;
    bucket
        .holds(&[
            ("due", "u2 1000 u1 NOW"),
            ("meta", "u1 1 0 u2 0 0"),
            ("msg", "u1 1000:body u2 1000:body"),
        ])
        .await;
}

#[tokio::test]
async fn bury_keeps_body_and_reason() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("u1", "a", PAST)).await;
    let (token, _) = bucket.claim("10", "60000").await;
    bucket.run_twice(BURY, &["u1", &token, "no queue wants it"]).await;
    bucket
        .holds(&[
            ("dead", "u1 NOW"),
            ("ids", "a u1"),
            ("meta", "u1 0 0 no queue wants it"),
            ("msg", "u1 1000:body"),
        ])
        .await;
}

#[tokio::test]
async fn recover_gives_back_expired_leases_only() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("u1", "", PAST)).await;
    bucket.claim("10", "0").await;
    bucket.run(PARK, &park("u2", "", PAST)).await;
    bucket.claim("10", "60000").await;
    bucket.run_twice(RECOVER, &["10", "3"]).await;
    bucket
        .holds(&[
            ("due", "u1 NOW"),
            ("lease", "u2 NOW"),
            ("meta", "u1 0 1"),
            ("msg", "u1 1000:body u2 1000:body"),
        ])
        .await;
}

#[tokio::test]
async fn recover_buries_what_ended_its_holder_when_it_was_alone() {
    let mut bucket = Bucket::new().await;
    bucket.run(PARK, &park("bad", "", PAST)).await;
    for _ in 0..3 {
        assert_eq!(bucket.claim("1", "0").await.1, ["bad"]);
        bucket.run(RECOVER, &["10", "3"]).await;
    }
    bucket.run(PARK, &[park("good", "", PAST), park("other", "", FUTURE)].concat()).await;
    // Three holders were lost: now it is claimed alone, however much a claim may take.
    assert_eq!(bucket.claim("10", "60000").await.1, ["good"]);
    assert_eq!(bucket.claim("10", "0").await.1, ["bad"]);
    bucket.run(RECOVER, &["10", "3"]).await;
    let state = bucket.state().await;
    assert_eq!(state["dead"], "bad NOW");
    assert!(state["meta"].contains("its holder was lost 4 times"), "{state:?}");
}
