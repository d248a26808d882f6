//! Redis for tests: the shared one with a namespace of one's own, or a private one to kill.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use xdelay::clock::StoreClock;
use xdelay::config::Durability;
use xdelay::store::redis::{RedisStore, Settings};

use super::{free_port, setting, unique};

/// A store in a namespace that nobody else uses.
pub fn store() -> (Arc<RedisStore>, Settings) {
    store_with(1)
}

/// The same with so many buckets for each destination.
pub fn store_with(buckets: u32) -> (Arc<RedisStore>, Settings) {
    let settings = Settings { buckets, ..settings(&setting("TEST_REDIS_URL")) };
    (open(&settings), settings)
}

/// A namespace that nobody else uses, on the Redis at `url`.
pub fn settings(url: &str) -> Settings {
    Settings {
        url: url.to_owned(),
        namespace: unique("test"),
        buckets: 1,
        durability: Durability::Local,
        min_replicas: 0,
    }
}

/// Another replica's view of the same namespace.
pub fn open(settings: &Settings) -> Arc<RedisStore> {
    let clock = Arc::new(StoreClock::new());
    Arc::new(RedisStore::new(settings.clone(), clock).expect("a usable URL"))
}

pub async fn connection(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    client.get_multiplexed_async_connection().await.expect("Redis answers")
}

/// Everything under a prefix, readable: members with scores, fields with values.
pub async fn keyspace(url: &str, prefix: &str) -> BTreeMap<String, String> {
    let mut redis = connection(url).await;
    let mut found = BTreeMap::new();
    let keys: Vec<String> = redis.keys(format!("{prefix}*")).await.expect("keys");
    for key in keys {
        let kind: String =
            redis::cmd("TYPE").arg(&key).query_async(&mut redis).await.expect("type");
        let command = match kind.as_str() {
            "zset" => {
                let mut range = redis::cmd("ZRANGE");
                range.arg(&key).arg(0).arg(-1).arg("WITHSCORES");
                range
            }
            "hash" => redis::cmd("HGETALL").arg(&key).to_owned(),
            "set" => redis::cmd("SMEMBERS").arg(&key).to_owned(),
            "list" => redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).to_owned(),
            _ => redis::cmd("GET").arg(&key).to_owned(),
        };
        let value: redis::Value = command.query_async(&mut redis).await.expect("a value");
        let value = if kind == "hash" { fields(&value) } else { flat(&value) };
        found.insert(key[prefix.len()..].to_owned(), value);
    }
    found
}

/// Fields and values, in the order of fields: a hash has none of its own.
fn fields(value: &redis::Value) -> String {
    let redis::Value::Array(items) = value else { return flat(value) };
    let pairs = items.chunks(2).map(|pair| format!("{} {}", flat(&pair[0]), flat(&pair[1])));
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort();
    pairs.join(" ")
}

fn flat(value: &redis::Value) -> String {
    match value {
        redis::Value::Array(items) => items.iter().map(flat).collect::<Vec<_>>().join(" "),
        redis::Value::BulkString(bytes) => match bytes.split_first_chunk::<8>() {
            // The due that stands before a body, as text.
            Some((due, body)) if due[0] == 0 => {
                format!("{}:{}", u64::from_be_bytes(*due), String::from_utf8_lossy(body))
            }
            _ => String::from_utf8_lossy(bytes).into_owned(),
        },
        redis::Value::Int(number) => number.to_string(),
        redis::Value::Double(number) => number.to_string(),
        redis::Value::SimpleString(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// A Redis of one's own, to stop and kill; gone when dropped.
pub struct PrivateRedis {
    name: String,
    port: u16,
}

impl PrivateRedis {
    /// Started with `dev/redis`, synced on every write.
    pub fn start(arguments: &[&str]) -> Self {
        let private = Self { name: unique("own"), port: free_port() };
        private.start_again(arguments);
        private
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn start_again(&self, arguments: &[&str]) {
        let port = self.port.to_string();
        self.run(&[&["start", &self.name, &port], arguments].concat());
    }

    /// `kill -9`
    pub fn kill(&self) {
        self.run(&["kill", &self.name]);
    }

    fn run(&self, arguments: &[&str]) {
        let script = format!("{}/redis", setting("TEST_DEV"));
        let output = Command::new(script).args(arguments).output().expect("dev/redis runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "dev/redis {arguments:?}: {errors}");
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        let script = format!("{}/redis", setting("TEST_DEV"));
        let _ = Command::new(script).args(["remove", &self.name]).output();
    }
}
