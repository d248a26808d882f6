//! Each script alone: seeded, run, and the whole keyspace compared; run twice in succession, it
//! leaves what running it once does.

mod lease;
mod park;
mod steer;

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

macro_rules! reading_script {
    ($name:literal) => {
        concat!(
            include_str!("../../lua/guard.lua"),
            include_str!("../../lua/envelope.lua"),
            include_str!(concat!("../../lua/", $name, ".lua"))
        )
    };
}

const PARK: (&str, &[&str]) = (
    concat!("local NOT_YOURS = 'not theirs'\n", reading_script!("park")),
    &["due", "lease", "dead", "msg", "meta", "ids", "seq", "mark", "gone"],
);
const CLAIM: (&str, &[&str]) =
    (script!("claim"), &["due", "lease", "dead", "msg", "meta", "claims", "paused"]);
const SETTLE: (&str, &[&str]) = (script!("settle"), &["lease", "msg", "meta", "ids"]);
const POSTPONE: (&str, &[&str]) = (script!("postpone"), &["due", "lease", "meta"]);
const BURY: (&str, &[&str]) = (script!("bury"), &["lease", "dead", "meta"]);
const RECOVER: (&str, &[&str]) = (script!("recover"), &["due", "lease", "dead", "meta"]);
const CENSUS: (&str, &[&str]) = (script!("census"), &["due", "lease", "dead", "paused"]);
const FIND: (&str, &[&str]) = (script!("find"), &["due", "lease", "dead", "msg", "meta", "ids"]);
const LIST: (&str, &[&str]) = (script!("list"), &["due", "msg", "meta"]);
const CANCEL: (&str, &[&str]) =
    (script!("cancel"), &["due", "lease", "dead", "msg", "meta", "ids", "gone"]);
const RESCHEDULE: (&str, &[&str]) = (script!("reschedule"), &["due", "lease", "dead", "msg"]);
const REVIVE: (&str, &[&str]) =
    (reading_script!("revive"), &["due", "lease", "dead", "msg", "meta", "ids"]);
const WITHDRAW: (&str, &[&str]) = (script!("withdraw"), &["due", "lease", "dead", "meta"]);
const RESTORE: (&str, &[&str]) = (script!("restore"), &["due", "dead", "meta"]);
const RECEIVE: (&str, &[&str]) =
    (script!("receive"), &["due", "lease", "dead", "msg", "meta", "ids"]);
const LEAVE: (&str, &[&str]) = (script!("leave"), &["due", "lease", "dead", "msg", "meta", "ids"]);
const BACKLOG: (&str, &[&str]) = (script!("backlog"), &["due"]);

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
async fn census_counts_and_changes_nothing() {
    let mut bucket = Bucket::new().await;
    let entries = [park("u1", "", PAST), park("u2", "", PAST), park("u3", "", FUTURE)].concat();
    bucket.run(PARK, &entries).await;
    bucket.claim("1", "60000").await;
    let answer = bucket.run_twice(CENSUS, &["1000", "99999999999999"]).await;
    let Value::Array(items) = &answer else { panic!("{answer:?}") };
    let counts: Vec<_> = [2, 1, 0, 1, 0, 1000, 1, 2].map(Value::Int).into();
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
        (CANCEL, vec!["u", ""]),
        (RESCHEDULE, vec!["in", "0", "u"]),
        (REVIVE, vec!["own", "0", "u", ""]),
        (WITHDRAW, vec!["why", "u"]),
        (RECEIVE, vec!["due", "u", "1", "body", "", ""]),
        (LEAVE, vec!["u", ""]),
    ] {
        // A pause is a key that is there, whatever it holds.
        for key in script.1.iter().filter(|key| **key != "paused") {
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
