//! Each script alone: seeded, run, and the whole keyspace compared; run twice in succession, it
//! leaves what running it once does.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};

use super::support::redis::{connection, keyspace};
use super::support::{setting, unique};

const GUARD: &str = include_str!("../../lua/guard.lua");

macro_rules! script {
    ($name:literal) => {
        concat!(
            include_str!("../../lua/guard.lua"),
            include_str!(concat!("../../lua/", $name, ".lua"))
        )
    };
}

const PARK: (&str, &[&str]) =
    (script!("park"), &["due", "lease", "dead", "msg", "meta", "ids", "seq"]);
const CLAIM: (&str, &[&str]) =
    (script!("claim"), &["due", "lease", "dead", "msg", "meta", "claims"]);
const SETTLE: (&str, &[&str]) = (script!("settle"), &["lease", "msg", "meta", "ids"]);
const POSTPONE: (&str, &[&str]) = (script!("postpone"), &["due", "lease", "meta"]);
const BURY: (&str, &[&str]) = (script!("bury"), &["lease", "dead", "meta"]);
const RECOVER: (&str, &[&str]) = (script!("recover"), &["due", "lease", "dead", "meta"]);
const CENSUS: (&str, &[&str]) = (script!("census"), &["due", "lease", "dead"]);

/// A due that has come, and one that has not.
const PAST: &str = "1000";
const FUTURE: &str = "99999999999999";

struct Bucket {
    prefix: String,
    redis: MultiplexedConnection,
}

impl Bucket {
    async fn new() -> Self {
        assert!(GUARD.contains("local function guard"));
        let redis = connection(&setting("TEST_REDIS_URL")).await;
        Self { prefix: format!("{}:{{b}}:", unique("lua")), redis }
    }

    async fn try_run(
        &mut self,
        (code, keys): (&str, &[&str]),
        arguments: &[&str],
    ) -> Result<Value, RedisError> {
        let mut call = redis::cmd("EVAL");
        call.arg(code).arg(keys.len());
        for key in keys {
            call.arg(format!("{}{key}", self.prefix));
        }
        call.arg(arguments).query_async(&mut self.redis).await
    }

    async fn run(&mut self, script: (&str, &[&str]), arguments: &[&str]) -> Value {
        self.try_run(script, arguments).await.expect("the script runs")
    }

    /// Runs it twice; what is there after the second time is what was there after the first.
    async fn run_twice(&mut self, script: (&str, &[&str]), arguments: &[&str]) -> Value {
        let answer = self.run(script, arguments).await;
        let once = self.state().await;
        self.run(script, arguments).await;
        let mut twice = self.state().await;
        for count in ["seq", "claims"] {
            if let (Some(first), Some(_)) = (once.get(count), twice.get(count)) {
                twice.insert(count.into(), first.clone());
            }
        }
        assert_eq!(once, twice, "applied twice");
        answer
    }

    /// Claims, and gives the token with what was claimed.
    async fn claim(&mut self, most: &str, lease_ms: &str) -> (String, Vec<String>) {
        let answer = self.run(CLAIM, &[most, "1000", lease_ms, "3", "1"]).await;
        let Value::Array(items) = &answer else { panic!("{answer:?}") };
        let text = |value: &Value| match value {
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("{other:?}"),
        };
        (text(&items[4]), items[5..].iter().step_by(3).map(text).collect())
    }

    async fn command(&mut self, command: &[&str]) {
        let mut call = redis::cmd(command[0]);
        call.arg(format!("{}{}", self.prefix, command[1])).arg(&command[2..]);
        call.query_async::<Value>(&mut self.redis).await.expect("a command");
    }

    /// The keyspace, with every instant of this test replaced by `NOW`.
    async fn state(&self) -> BTreeMap<String, String> {
        let all = keyspace(&setting("TEST_REDIS_URL"), &self.prefix).await;
        let tidy = |text: String| {
            // Unix milliseconds, or a token: 1024 to the millisecond.
            let is_now =
                |number: f64| (1.6e12..9e13).contains(&number) || (1.6e15..9e15).contains(&number);
            let words = text.split(' ').map(|word| match word.split_once(':') {
                Some((due, body)) if due.parse().is_ok_and(is_now) => format!("NOW:{body}"),
                None if word.parse().is_ok_and(is_now) => "NOW".to_owned(),
                _ => word.to_owned(),
            });
            words.collect::<Vec<_>>().join(" ")
        };
        all.into_iter().map(|(key, value)| (key, tidy(value))).collect()
    }

    async fn holds(&self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut found = self.state().await;
        found.remove("seq");
        found.remove("claims");
        assert_eq!(found, expected);
    }
}

fn park<'a>(uid: &'a str, id: &'a str, due: &'a str) -> Vec<&'a str> {
    vec!["at", uid, id, due, "0", "body"]
}

/// The letter of each entry.
fn outcomes(answer: &Value) -> String {
    match answer {
        Value::Array(items) => match &items[3] {
            Value::BulkString(letters) => String::from_utf8_lossy(letters).into_owned(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

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

#[tokio::test]
async fn census_counts_and_changes_nothing() {
    let mut bucket = Bucket::new().await;
    let entries = [park("u1", "", PAST), park("u2", "", PAST), park("u3", "", FUTURE)].concat();
    bucket.run(PARK, &entries).await;
    bucket.claim("1", "60000").await;
    let answer = bucket.run_twice(CENSUS, &["1000", "99999999999999"]).await;
    let Value::Array(items) = &answer else { panic!("{answer:?}") };
    let counts: Vec<_> = [2, 1, 0, 1, 1, 2].map(Value::Int).into();
    assert_eq!(items[1..], counts);
}

#[tokio::test]
async fn no_script_writes_to_a_bucket_with_a_key_of_the_wrong_type() {
    for (script, arguments) in [
        (PARK, park("u", "", PAST)),
        (CLAIM, vec!["1", "1", "1", "3", "1"]),
        (SETTLE, vec!["u", "t", ""]),
        (POSTPONE, vec!["u", "t", "1", "0", "0"]),
        (BURY, vec!["u", "t", "why"]),
        (RECOVER, vec!["1", "3"]),
    ] {
        for key in script.1 {
            let mut bucket = Bucket::new().await;
            bucket.command(&["RPUSH", key, "planted"]).await;
            let before = keyspace(&setting("TEST_REDIS_URL"), &bucket.prefix).await.len();
            let error = bucket.try_run(script, &arguments).await.expect_err("refused");
            assert_eq!(error.code(), Some("WRONGTYPE"), "{key}: {error}");
            let after = keyspace(&setting("TEST_REDIS_URL"), &bucket.prefix).await.len();
            assert_eq!(before, after);
        }
    }
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
