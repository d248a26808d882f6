//! Three replicas, a real RabbitMQ and a real Redis, and a seeded schedule of everything that can
//! befall them; at the end every message is accounted for.
//!
//! Twice: once with a schedule that is always the same, once with a fresh one. `make chaos SECONDS=300
//! SEED=...` makes it longer or repeats it. A seed repeats the schedule, not
//! the interleaving: processes and disks have their own pace.

mod fleet;
mod mishap;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use self::fleet::Fleet;
use self::mishap::Mishap;
use super::support::eventually;
use super::support::load::{
    Account, all_arrived, consume, effort, produce_until, seeded, seeded_with,
};
use super::support::redis::keyspace;

/// How long the mishaps go on when nobody says otherwise.
const SECONDS: usize = 60;
/// Between two messages: a load that two cores carry beside all that befalls them.
const PACE: Duration = Duration::from_millis(3);

/// A schedule of fourteen kinds of mishaps in two dozen. It begins with a connection to RabbitMQ that is
/// half-open for longer than a release waits for its confirms, and goes on with the end of everything but
/// RabbitMQ, which an ack or a settle that came too soon would not survive.
const HARD: u64 = 12_921;

/// Two fleets at once are more than two cores carry.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_known_to_be_hard_loses_nothing() {
    let _turn = ONE_AT_A_TIME.lock().await;
    loses_nothing(seeded_with(HARD)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_happens() {
    let _turn = ONE_AT_A_TIME.lock().await;
    loses_nothing(seeded()).await;
}

async fn loses_nothing(seed: u64) {
    let mut fleet = Fleet::launch().await;
    let end = Instant::now() + Duration::from_secs(effort("CHAOS_SECONDS", SECONDS) as u64);
    let account = Arc::new(Account::default());
    let consumer = consume(&fleet.rabbit.url(), &fleet.orders, &account);
    let front = format!("xdelay.{}", fleet.orders);
    let producer = produce_until(&fleet.rabbit.url(), &front, &account, end, PACE);
    let mut happened = std::collections::BTreeMap::<Mishap, usize>::new();
    for number in 0.. {
        if Instant::now() >= end {
            break;
        }
        let mishap = Mishap::of(seed, number);
        eprintln!("{mishap:?}");
        mishap.strike(&mut fleet).await;
        *happened.entry(mishap).or_default() += 1;
    }
    producer.await.expect("produced");
    fleet.heal().await;
    all_arrived(&account).await;
    let copies = account.settle_up();
    fleet.rests().await;

    eprintln!("\nseed {seed}");
    for (mishap, times) in &happened {
        eprintln!("  {:<28} {times}", format!("{mishap:?}"));
    }
    eprintln!("  {:<28} {}", "confirmed and arrived", account.confirmed());
    eprintln!("  {:<28} {copies}", "copies");
    eprintln!("  {:<28} 0 lost, 0 early, 0 invented, 0 buried", "verdict");
    assert!(account.confirmed() > 0, "there was something to lose");
    consumer.abort();
}

impl Fleet {
    /// All is delivered and nothing is left behind: no body without a place, no place without a body.
    async fn rests(&self) {
        let prefix = format!("{}:{{amqp", self.namespace);
        let url = self.redis.url();
        eventually("nothing is left in the store", || async {
            let left = keyspace(&url, &prefix).await;
            let kept = |key: &&String| {
                !["seq", "claims", "mark"]
                    .iter()
                    .any(|lasting| key.ends_with(&format!(":{lasting}")))
            };
            let left: Vec<_> = left.keys().filter(kept).collect();
            left.is_empty().then_some(())
        })
        .await;
    }
}
