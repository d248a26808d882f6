//! What can befall the fleet. Each mishap ends by itself before the next begins, except that the
//! replicas may still be busy getting well.

use std::ops::Range;
use std::time::Duration;

use lapin::options::ExchangeDeleteOptions;
use lapin::types::FieldTable;
use nix::sys::signal::Signal;

use super::fleet::Fleet;
use crate::support::a_while;
use crate::support::fault_proxy::Weather;
use crate::support::redis::connection;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    ReplicaKilled,
    ReplicaStoppedBeyondItsLease,
    ReplicaRestarted,
    RedisKilled,
    /// What was captured and not parked yet is lost with the replicas, if RabbitMQ gave it up.
    AllKilledWhileRedisIsAway,
    RedisForgotItsScripts,
    RedisDroppedItsClients,
    RabbitMqKilled,
    RabbitMqBlocked,
    ExchangeDeletedAndDeclaredAnew,
    BindingDeleted,
    ConnectionsReset,
    ConnectionCutInMidFrame,
    ConnectionHalfOpen,
    ConnectionSlow,
}

use Mishap::*;

/// Those that happen more often stand here more often.
const ALL: [Mishap; 20] = [
    ReplicaKilled,
    ReplicaKilled,
    ReplicaKilled,
    ReplicaStoppedBeyondItsLease,
    ReplicaRestarted,
    RedisKilled,
    RedisKilled,
    AllKilledWhileRedisIsAway,
    AllKilledWhileRedisIsAway,
    RedisForgotItsScripts,
    RedisDroppedItsClients,
    RabbitMqKilled,
    RabbitMqBlocked,
    ExchangeDeletedAndDeclaredAnew,
    BindingDeleted,
    ConnectionsReset,
    ConnectionsReset,
    ConnectionCutInMidFrame,
    ConnectionHalfOpen,
    ConnectionSlow,
];

impl Mishap {
    /// The one of this number in the schedule of a seed. With it everything about it is drawn, whatever
    /// others draw meanwhile.
    pub fn of(seed: u64, number: u64) -> Self {
        fastrand::seed(seed.wrapping_add(number));
        ALL[fastrand::usize(..ALL.len())]
    }

    pub async fn strike(self, fleet: &mut Fleet) {
        a_while(100..800).await;
        match self {
            ReplicaKilled => {
                let replica = fleet.any();
                replica.sidecar.kill();
                a_while(0..1_500).await;
                replica.sidecar.spawn();
            }
            ReplicaStoppedBeyondItsLease => {
                let replica = fleet.any();
                replica.sidecar.signal(Signal::SIGSTOP);
                a_while(3_500..6_000).await;
                replica.sidecar.signal(Signal::SIGCONT);
            }
            ReplicaRestarted => {
                let replica = fleet.any();
                replica.sidecar.stop().await;
                replica.sidecar.spawn();
            }
            RedisKilled => {
                fleet.redis.kill();
                a_while(0..1_500).await;
                fleet.redis.start_again(&[]);
            }
            AllKilledWhileRedisIsAway => {
                fleet.redis.kill();
                a_while(300..1_500).await;
                fleet.replicas.iter_mut().for_each(|it| it.sidecar.kill());
                fleet.redis.start_again(&[]);
                fleet.replicas.iter_mut().for_each(|it| it.sidecar.spawn());
            }
            RedisForgotItsScripts => redis(fleet, &["SCRIPT", "FLUSH"]).await,
            RedisDroppedItsClients => redis(fleet, &["CLIENT", "KILL", "TYPE", "normal"]).await,
            RabbitMqKilled => {
                // It forgets a quorum queue that it declared less than two seconds ago.
                a_while(2_500..3_000).await;
                fleet.rabbit.kill();
                fleet.rabbit.start_again();
            }
            RabbitMqBlocked => {
                fleet.rabbit.control(&["set_vm_memory_high_watermark", "0.000001"]);
                a_while(500..3_000).await;
                fleet.rabbit.control(&["set_vm_memory_high_watermark", "0.4"]);
            }
            ExchangeDeletedAndDeclaredAnew => delete_exchange(fleet).await,
            BindingDeleted => delete_binding(fleet).await,
            ConnectionsReset => fleet.any().ways().iter().for_each(|way| way.reset()),
            ConnectionCutInMidFrame => {
                let cut_after = Some(fastrand::u64(1..20_000));
                weather(fleet, Weather { cut_after, ..Weather::default() }, 500..1_500).await;
            }
            ConnectionHalfOpen => {
                let silent = Weather { silent: true, ..Weather::default() };
                weather(fleet, silent, 2_000..8_000).await;
            }
            ConnectionSlow => {
                let latency = Duration::from_millis(fastrand::u64(10..200));
                weather(fleet, Weather { latency, ..Weather::default() }, 1_000..3_000).await;
            }
        }
    }
}

async fn delete_exchange(fleet: &Fleet) {
    let operator = fleet.operator().await;
    let name = fleet.orders.as_str();
    let delete = ExchangeDeleteOptions::default();
    operator.channel.exchange_delete(name.into(), delete).await.expect("deleted");
    a_while(500..2_500).await;
    operator.declare_exchange(name).await;
    operator.declare_queue(name).await;
}

async fn delete_binding(fleet: &Fleet) {
    let operator = fleet.operator().await;
    let name = || fleet.orders.as_str().into();
    let unbind = operator.channel.queue_unbind(name(), name(), "#".into(), FieldTable::default());
    unbind.await.expect("unbound");
    a_while(500..2_500).await;
    operator.declare_queue(&fleet.orders).await;
}

/// One way of one replica has this weather for a while.
async fn weather(fleet: &mut Fleet, weather: Weather, range: Range<u64>) {
    let replica = fleet.any();
    let way = replica.ways()[fastrand::usize(..2)];
    way.set(weather);
    a_while(range).await;
    way.calm();
}

async fn redis(fleet: &Fleet, command: &[&str]) {
    let mut connection = connection(&fleet.redis.url()).await;
    let mut call = redis::cmd(command[0]);
    call.arg(&command[1..]);
    // `CLIENT KILL` ends this connection too.
    let _: redis::RedisResult<redis::Value> = call.query_async(&mut connection).await;
}
