//! What the Redis at the other end is, and what it does with a write before it answers.
//!
//! Read from `INFO`, since managed services refuse `CONFIG`; `CONFIG GET appendfsync` is asked
//! as well where it is allowed, for `INFO` does not tell how often the append-only file is synced.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};

use crate::config::Durability;
use crate::finding::Finding;

/// What `INFO` tells of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// `redis` or `valkey`.
    pub flavour: String,
    /// Major, minor, patch.
    pub version: (u32, u32, u32),
    /// `maxmemory_policy`, where it may be seen.
    pub eviction: Option<String>,
    /// Whether there is an append-only file at all.
    pub append_only: bool,
    /// `always`, `everysec` or `no`, where it may be seen.
    pub fsync: Option<String>,
    /// Whether the last write to the append-only file failed.
    pub append_fails: bool,
    /// Whether it is a node of a cluster.
    pub cluster: bool,
    /// Whether it is a replica.
    pub replica: bool,
    /// How many replicas it has now.
    pub replicas: u32,
}

/// What must be waited for after a write before it counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// The reply itself.
    Reply,
    /// `WAITAOF 1 replicas`: the local file is synced, and that of so many replicas.
    WaitAof(u32),
    /// `WAIT replicas`: so many replicas have it in memory.
    Wait(u32),
}

impl Server {
    pub(super) async fn inspect(
        connection: &mut MultiplexedConnection,
    ) -> Result<Self, RedisError> {
        let info: String = redis::cmd("INFO").query_async(connection).await?;
        let fsync: Result<HashMap<String, String>, RedisError> =
            redis::cmd("CONFIG").arg("GET").arg("appendfsync").query_async(connection).await;
        let mut server = Self::parse(&info);
        server.fsync = fsync.ok().and_then(|mut found| found.remove("appendfsync"));
        Ok(server)
    }

    fn parse(info: &str) -> Self {
        let field = |name: &str| {
            info.lines()
                .filter_map(|line| line.trim_end().split_once(':'))
                .find_map(|(key, value)| (key == name).then(|| value.to_owned()))
        };
        let is = |name: &str, value: &str| field(name).as_deref() == Some(value);
        let valkey = field("valkey_version");
        let version = valkey.clone().or_else(|| field("redis_version"));
        Self {
            flavour: if valkey.is_some() { "valkey" } else { "redis" }.to_owned(),
            version: version.as_deref().map(parse_version).unwrap_or_default(),
            eviction: field("maxmemory_policy"),
            append_only: is("aof_enabled", "1"),
            fsync: None,
            append_fails: is("aof_last_write_status", "err"),
            cluster: is("cluster_enabled", "1"),
            replica: is("role", "slave"),
            replicas: field("connected_slaves").and_then(|n| n.parse().ok()).unwrap_or(0),
        }
    }

    /// `WAITAOF` came with Redis 7.2; Valkey forked from that.
    fn has_waitaof(&self) -> bool {
        self.flavour == "valkey" || self.version >= (7, 2, 0)
    }

    /// What to wait for, or in one line why the durability asked for cannot be had here.
    pub(super) fn barrier(&self, durability: Durability, replicas: u32) -> Result<Barrier, String> {
        if durability == Durability::None {
            return Ok(Barrier::Reply);
        }
        if !self.append_only {
            return Err("the append-only file is off, so a restart loses what is parked: set \
                        `appendonly yes` and `appendfsync always`, or `redis.durability = \"none\"`"
                .into());
        }
        if self.fsync.as_deref() == Some("no") {
            return Err("`appendfsync no` never says that a write is on disk: set `appendfsync \
                        always`, or `redis.durability = \"none\"`"
                .into());
        }
        let always = self.fsync.as_deref() == Some("always");
        match durability {
            Durability::Local if always => Ok(Barrier::Reply),
            Durability::Local if self.has_waitaof() => Ok(Barrier::WaitAof(0)),
            Durability::Replicas if self.has_waitaof() => Ok(Barrier::WaitAof(replicas)),
            Durability::Replicas if always || self.fsync.is_none() => Ok(Barrier::Wait(replicas)),
            // Managed services hide their setting: `check` warns, and the operator decides.
            _ if self.fsync.is_none() => Ok(Barrier::Reply),
            _ => Err(format!(
                "`appendfsync {}` loses up to two seconds of parked messages when Redis is \
                 killed: set `appendfsync always`, or use Redis 7.2 or later, or \
                 `redis.durability = \"none\"`",
                self.fsync.as_deref().unwrap_or("?")
            )),
        }
    }

    /// All that an operator should know of this server.
    pub(super) fn findings(&self, durability: Durability, replicas: u32) -> Vec<Finding> {
        vec![
            self.version_finding(),
            self.eviction_finding(),
            self.durability_finding(durability, replicas),
        ]
    }

    fn version_finding(&self) -> Finding {
        let (major, minor, patch) = self.version;
        let found = format!("{} {major}.{minor}.{patch}", self.flavour);
        if self.replica {
            return Finding::bad(
                "redis version",
                format!("{found}, but a replica: name the master in redis.url"),
            );
        }
        if self.version < (7, 0, 0) {
            return Finding::bad("redis version", format!("{found}: 7.0 or later is needed"));
        }
        Finding::good("redis version", found)
    }

    fn eviction_finding(&self) -> Finding {
        let subject = "redis maxmemory-policy";
        match self.eviction.as_deref() {
            Some("noeviction") => Finding::good(subject, "noeviction"),
            // Nothing of ours has a time to live, so these evict nothing of ours.
            Some(policy) if policy.starts_with("volatile-") => {
                Finding::warning(subject, format!("{policy}: set `maxmemory-policy noeviction`"))
            }
            Some(policy) => Finding::bad(
                subject,
                format!(
                    "{policy} throws parked messages away when memory is short: set `maxmemory-policy noeviction`"
                ),
            ),
            None => Finding::warning(subject, "cannot be seen here; it must be noeviction"),
        }
    }

    fn durability_finding(&self, durability: Durability, replicas: u32) -> Finding {
        let subject = "redis durability";
        if self.append_fails {
            return Finding::bad(
                subject,
                "the append-only file cannot be written: is the disk full?",
            );
        }
        if durability == Durability::Replicas && self.replicas < replicas {
            let found = self.replicas;
            let why = format!(
                "{found} replicas are connected, redis.min_replicas = {replicas}: nothing is parked"
            );
            return Finding::bad(subject, why);
        }
        match self.barrier(durability, replicas) {
            Err(why) => Finding::bad(subject, why),
            Ok(_) if durability == Durability::None => Finding::warning(
                subject,
                "none, as configured: what is parked may be lost when Redis stops",
            ),
            Ok(Barrier::Reply) if self.fsync.is_none() => Finding::warning(
                subject,
                "local, but `appendfsync` cannot be seen here; it must be `always`",
            ),
            Ok(Barrier::Reply) => Finding::good(subject, "local: appendfsync always"),
            Ok(Barrier::WaitAof(0)) => Finding::good(subject, "local: WAITAOF for every batch"),
            Ok(Barrier::WaitAof(n)) => Finding::good(subject, format!("replicas: WAITAOF for {n}")),
            Ok(Barrier::Wait(n)) => Finding::good(subject, format!("replicas: WAIT for {n}")),
        }
    }
}

/// Whether the answer to the barrier's command says that it holds.
pub(super) fn barrier_holds(barrier: Barrier, answer: Option<&Value>) -> bool {
    let at_least = |value: &Value, least: i64| matches!(value, Value::Int(n) if *n >= least);
    match (barrier, answer) {
        (Barrier::Reply, _) => true,
        (Barrier::Wait(replicas), Some(count)) => at_least(count, i64::from(replicas)),
        (Barrier::WaitAof(replicas), Some(Value::Array(counts))) => match counts.as_slice() {
            [local, remote] => at_least(local, 1) && at_least(remote, i64::from(replicas)),
            _ => false,
        },
        _ => false,
    }
}

fn parse_version(text: &str) -> (u32, u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(version: &str, aof: &str, fsync: Option<&str>) -> Server {
        let info = format!(
            "redis_version:{version}\r\naof_enabled:{aof}\r\nmaxmemory_policy:noeviction\r\n"
        );
        Server { fsync: fsync.map(str::to_owned), ..Server::parse(&info) }
    }

    #[test]
    fn local_durability_needs_a_synced_file_before_the_ack() {
        let local = |server: Server| server.barrier(Durability::Local, 0);
        assert_eq!(local(server("7.0.15", "1", Some("always"))), Ok(Barrier::Reply));
        assert_eq!(local(server("7.2.0", "1", Some("everysec"))), Ok(Barrier::WaitAof(0)));
        assert_eq!(local(server("8.0.0", "1", None)), Ok(Barrier::WaitAof(0)));
        assert!(local(server("7.0.15", "1", Some("everysec"))).is_err());
        assert!(local(server("8.0.0", "0", Some("always"))).is_err());
    }

    #[test]
    fn replicas_are_counted() {
        let replicas = |server: Server| server.barrier(Durability::Replicas, 2);
        assert_eq!(replicas(server("7.2.0", "1", None)), Ok(Barrier::WaitAof(2)));
        assert_eq!(replicas(server("7.0.15", "1", Some("always"))), Ok(Barrier::Wait(2)));
        assert!(barrier_holds(Barrier::Wait(2), Some(&Value::Int(2))));
        assert!(!barrier_holds(Barrier::Wait(2), Some(&Value::Int(1))));
        let counts = |local, remote| Value::Array(vec![Value::Int(local), Value::Int(remote)]);
        assert!(barrier_holds(Barrier::WaitAof(1), Some(&counts(1, 1))));
        assert!(!barrier_holds(Barrier::WaitAof(1), Some(&counts(1, 0))));
        assert!(!barrier_holds(Barrier::WaitAof(0), Some(&counts(0, 3))));
        assert!(!barrier_holds(Barrier::WaitAof(0), None));
    }

    #[test]
    fn a_finding_that_is_bad_says_what_to_set() {
        let mut evicting = server("7.0.15", "1", Some("always"));
        evicting.eviction = Some("allkeys-lru".into());
        let detail = &evicting.findings(Durability::Local, 0)[1].detail;
        assert!(detail.contains("maxmemory-policy noeviction"), "{detail}");
        let off = server("7.0.15", "0", None);
        let detail = &off.findings(Durability::Local, 0)[2].detail;
        assert!(detail.contains("appendonly yes"), "{detail}");
    }

    #[test]
    fn valkey_is_told_by_its_own_version() {
        let info = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        let server = Server::parse(info);
        assert_eq!((server.flavour.as_str(), server.version), ("valkey", (9, 1, 2)));
    }
}
