//! A Redis master with a replica, and sentinels that watch them.

use std::process::Command;

use super::redis_cluster::{free_ports, info_of, run};
use super::{eventually, setting, unique};

/// Gone when dropped. The server numbered 1 is the master at first, 2 its replica.
pub struct PrivateSentinels {
    name: String,
    port: u16,
    count: u16,
}

impl PrivateSentinels {
    /// With so many sentinels.
    pub fn start(count: u16) -> Self {
        let own = Self { name: unique("watched"), port: free_ports(2 + count), count };
        let (port, count) = (own.port.to_string(), count.to_string());
        run("redis-sentinel", &["start", &own.name, &port, &count]);
        own
    }

    pub fn url(&self) -> String {
        let sentinels = (0..self.count).map(|n| format!("127.0.0.1:{}", self.port + 2 + n));
        format!("redis-sentinel://{}/mymaster", sentinels.collect::<Vec<_>>().join(","))
    }

    /// `kill -9` of a server.
    pub fn kill(&self, server: u16) {
        run("redis", &["kill", &format!("{}-{server}", self.name)]);
    }

    /// Started again as what it was at first.
    pub fn start_again(&self, server: u16) {
        let port = (self.port + server - 1).to_string();
        run("redis", &["start", &format!("{}-{server}", self.name), &port]);
    }

    pub fn kill_sentinel(&self, number: u16) {
        run("redis", &["kill", &format!("{}-s{number}", self.name)]);
    }

    /// Tells the first sentinel to hand the master's part to the replica.
    pub async fn fail_over(&self) {
        let url = format!("redis://127.0.0.1:{}", self.port + 2);
        let sentinel = super::redis::connection(&url).await;
        // It looks at a replica every ten seconds, and chooses none that it has not seen well.
        eventually("it has a replica to choose", || async {
            let mut command = redis::cmd("SENTINEL");
            command.arg(&["FAILOVER", "mymaster"]);
            match command.query_async::<()>(&mut sentinel.clone()).await {
                Err(error) if error.code() == Some("NOGOODSLAVE") => None,
                told => {
                    told.expect("obeyed");
                    Some(())
                }
            }
        })
        .await;
    }

    pub async fn until_role(&self, server: u16, role: &str) {
        eventually(&format!("server {server} is a {role}"), || async {
            let found = info_of(self.port + server - 1, "role").await?;
            (found == role).then_some(())
        })
        .await;
    }
}

impl Drop for PrivateSentinels {
    fn drop(&mut self) {
        let script = format!("{}/redis-sentinel", setting("TEST_DEV"));
        let _ = Command::new(script).args(["remove", &self.name]).output();
    }
}
