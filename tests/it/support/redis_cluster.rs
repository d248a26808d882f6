//! A Redis Cluster of one's own: three masters with a replica each, to crash and to rearrange.

use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use redis::{FromRedisValue, RedisError};

use super::{eventually, setting, unique};

const NODES: u16 = 6;

/// Gone when dropped. Its nodes are numbered from 1.
pub struct PrivateCluster {
    name: String,
    port: u16,
}

impl PrivateCluster {
    pub fn start() -> Self {
        let cluster = Self { name: unique("cluster"), port: free_ports(2 * NODES) };
        run("redis-cluster", &["start", &cluster.name, &cluster.port.to_string()]);
        cluster
    }

    /// As `redis.url` names it, by two of its nodes.
    pub fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", self.port + 1, self.port + 4)
    }

    pub fn nodes(&self) -> impl Iterator<Item = u16> {
        1..=NODES
    }

    /// `kill -9`
    pub fn kill(&self, node: u16) {
        run("redis", &["kill", &format!("{}-{node}", self.name)]);
    }

    pub fn start_again(&self, node: u16) {
        let (port, node) = (self.port.to_string(), node.to_string());
        run("redis-cluster", &["again", &self.name, &port, &node]);
    }

    pub fn port(&self, node: u16) -> u16 {
        self.port + node - 1
    }

    /// A command to one node, words separated by blanks.
    pub async fn try_ask<T: FromRedisValue>(
        &self,
        node: u16,
        words: &str,
    ) -> Result<T, RedisError> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port(node)))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().expect("a command"));
        command.arg(words.collect::<Vec<_>>()).query_async(&mut connection).await
    }

    pub async fn ask<T: FromRedisValue>(&self, node: u16, words: &str) -> T {
        self.try_ask(node, words).await.unwrap_or_else(|error| panic!("{node}: {words}: {error}"))
    }

    /// A field of `INFO`.
    pub async fn info(&self, node: u16, field: &str) -> Option<String> {
        info_of(self.port(node), field).await
    }

    pub async fn is_master(&self, node: u16) -> bool {
        self.info(node, "role").await.as_deref() == Some("master")
    }

    pub async fn slot(&self, key: &str) -> u16 {
        self.ask(1, &format!("CLUSTER KEYSLOT {key}")).await
    }

    /// The master of a key's slot, and its replica; the cluster as it was started.
    pub async fn pair_of(&self, key: &str) -> (u16, u16) {
        let master = match self.slot(key).await {
            0..=5460 => 1,
            5461..=10922 => 2,
            _ => 3,
        };
        (master, master + 3)
    }

    pub async fn id(&self, node: u16) -> String {
        self.ask(node, "CLUSTER MYID").await
    }

    pub async fn until_master(&self, node: u16) {
        eventually("a replica was made master", || async {
            self.is_master(node).await.then_some(())
        })
        .await;
    }

    /// Waits until all nodes see a whole cluster, and each master has a replica that follows it.
    pub async fn until_well(&self) {
        eventually("the cluster is well again", || async {
            for node in self.nodes() {
                let state: String = self.try_ask(node, "CLUSTER INFO").await.ok()?;
                let well = state.contains("cluster_state:ok")
                    && match self.is_master(node).await {
                        true => self.info(node, "connected_slaves").await.as_deref() == Some("1"),
                        false => {
                            let link = self.info(node, "master_link_status").await;
                            link.as_deref() == Some("up")
                        }
                    };
                if !well {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }
}

/// A field of `INFO` of the server on this port, when it answers.
pub async fn info_of(port: u16, field: &str) -> Option<String> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).ok()?;
    let mut connection = client.get_multiplexed_async_connection().await.ok()?;
    let info: String = redis::cmd("INFO").query_async(&mut connection).await.ok()?;
    let mut lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    lines.find_map(|(key, value)| (key == field).then(|| value.to_owned()))
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        let script = format!("{}/redis-cluster", setting("TEST_DEV"));
        let _ = Command::new(script).args(["remove", &self.name]).output();
    }
}

/// The first of so many free ports in a row, of a range that nobody else takes ports from.
pub fn free_ports(many: u16) -> u16 {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 32_000;
    const LAST: u16 = 32_760;
    // Blocks of one size, so that none begins inside another.
    const BLOCK: u16 = 2 * NODES;
    assert!(many <= BLOCK, "{many} ports in a row");
    let blocks = (LAST - FIRST) / BLOCK;
    loop {
        let turn = std::process::id() * 7 + u32::from(COUNT.fetch_add(1, Ordering::Relaxed));
        let first = FIRST + BLOCK * (turn % u32::from(blocks)) as u16;
        if (first..first + many).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

pub fn run(script: &str, arguments: &[&str]) {
    let path = format!("{}/{script}", setting("TEST_DEV"));
    let output = Command::new(path).env("SERVICES", "native").args(arguments).output();
    let output = output.expect("the script runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "dev/{script} {arguments:?}: {errors}");
}
