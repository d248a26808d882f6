//! Three replicas, each with its own way to Redis and to RabbitMQ.

use nix::sys::signal::Signal;

use crate::support::fault_proxy::FaultProxy;
use crate::support::rabbit::{OwnNode, Rabbit};
use crate::support::redis::PrivateRedis;
use crate::support::sidecar::Sidecar;
use crate::support::unique;

pub struct Fleet {
    pub rabbit: OwnNode,
    pub redis: PrivateRedis,
    pub orders: String,
    pub namespace: String,
    pub replicas: Vec<Replica>,
}

pub struct Replica {
    pub sidecar: Sidecar,
    pub to_redis: FaultProxy,
    pub to_rabbit: FaultProxy,
}

impl Replica {
    /// Ways to either neighbour.
    pub fn ways(&self) -> [&FaultProxy; 2] {
        [&self.to_redis, &self.to_rabbit]
    }
}

impl Fleet {
    pub async fn launch() -> Self {
        let (rabbit, redis) = (OwnNode::start(), PrivateRedis::start(&[]));
        let orders = Rabbit::connect_to(&rabbit.url()).await.destination().await;
        let namespace = unique("chaos");
        let mut fleet = Self { rabbit, redis, orders, namespace, replicas: Vec::new() };
        for _ in 0..3 {
            let replica = fleet.replica().await;
            fleet.replicas.push(replica);
        }
        for replica in &mut fleet.replicas {
            replica.sidecar.start().await;
        }
        fleet
    }

    async fn replica(&self) -> Replica {
        let to_redis = FaultProxy::before(&self.redis.url()).await;
        let to_rabbit = FaultProxy::before(&self.rabbit.url()).await;
        let mut sidecar = Sidecar::new(&[&self.orders]);
        sidecar.set("REDIS__URL", &to_redis.url(&self.redis.url()));
        sidecar.set("REDIS__NAMESPACE", &self.namespace);
        sidecar.set("AMQP__URL", &to_rabbit.url(&self.rabbit.url()));
        sidecar.set("RELEASE__LEASE", "3s");
        // What has no queue for a while is tried again soon, and never given up.
        sidecar.set("RELEASE__RETRY__FIRST", "100ms");
        sidecar.set("RELEASE__RETRY__MAX", "1s");
        sidecar.set("RELEASE__RETRY__ATTEMPTS", "100000");
        Replica { sidecar, to_redis, to_rabbit }
    }

    /// Any of the three.
    pub fn any(&mut self) -> &mut Replica {
        let which = fastrand::usize(..self.replicas.len());
        &mut self.replicas[which]
    }

    /// Ends whatever still goes on.
    pub async fn heal(&mut self) {
        for replica in &mut self.replicas {
            replica.to_redis.calm();
            replica.to_rabbit.calm();
            replica.sidecar.signal(Signal::SIGCONT);
            replica.sidecar.ready().await;
        }
    }

    /// A client of RabbitMQ with its own, undisturbed way there.
    pub async fn operator(&self) -> Rabbit {
        Rabbit::connect_to(&self.rabbit.url()).await
    }
}
