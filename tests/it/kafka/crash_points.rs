//! xdelay dies, freezes or is told to stop between the park of records and the commit of their
//! offsets: what is then read again is parked no second time.
//!
//! Nothing is due before that, so no release is in hand, and no copy is excused: each record must
//! come exactly once. Which cells are run is decided as in [`crate::crash_points`].

use std::sync::Arc;

use nix::sys::signal::Signal;
use xdelay::crash::Point;

use crate::crash_points::cell::{Action, Arrangement, Cell};
use crate::crash_points::cells_of;
use crate::support::kafka::{Kafka, consume, produce_with};
use crate::support::load::{Account, all_arrived};
use crate::support::sidecar::Sidecar;
use crate::support::{a_while, eventually_is, eventually_or};

const RECORDS: usize = 300;
/// Longer than it takes until the crash.
const DELAYS: std::ops::Range<u64> = 8_000..10_000;

async fn crash(point: Point) {
    for cell in cells_of(point) {
        run(cell).await;
        eprintln!("kafka, {cell}: nothing lost, nothing early, 0 copies");
    }
}

async fn run(cell: Cell) {
    let kafka = Kafka::shared();
    let (orders, account) = (kafka.destination(3).await, Arc::new(Account::default()));
    let consumer = consume(kafka.brokers(), &orders, &account);
    let mut victim = Sidecar::for_kafka(&[&orders]);
    victim.set("RELEASE__LEASE", "2s");
    let directory = tempfile::tempdir().expect("a directory");
    if cell.arrangement == Arrangement::OneOnItsFile {
        victim.park_in(directory.path());
    }
    let mut others = match cell.arrangement {
        Arrangement::ThreeOnRedis => vec![victim.twin(), victim.twin()],
        Arrangement::OneOnRedis | Arrangement::OneOnItsFile => Vec::new(),
    };
    victim.crash_at(&format!("{}:1:{}", cell.point.name(), cell.action.name()));
    victim.start().await;
    for other in &mut others {
        other.start().await;
    }
    let front = format!("xdelay.{orders}");
    let producer = produce_with(kafka.brokers(), &front, &account, RECORDS, DELAYS);
    let reached = format!("crash point {}", cell.point.name());
    let look = || async { victim.log().contains(&reached).then_some(()) };
    eventually_or(&format!("{cell} is reached"), look, || victim.log()).await;
    match cell.action {
        Action::Abort => assert!(!victim.ended().await.success(), "{cell}: it is killed"),
        Action::Stop => {
            // Longer than its session and its lease.
            a_while(4_000..5_000).await;
            victim.signal(Signal::SIGCONT);
        }
        Action::Term => assert!(victim.ended().await.success(), "{cell}: it stops"),
    }
    victim.crash_at("");
    if others.is_empty() && cell.action != Action::Stop {
        victim.start().await;
    }
    producer.await.expect("produced");
    all_arrived(&account).await;
    assert_eq!(account.confirmed(), RECORDS);
    let asked = others.last().unwrap_or(&victim);
    eventually_is(0.0, || async { asked.metrics(&["xdelay_parked", "xdelay_leased"]) }).await;
    assert_eq!(account.settle_up(), 0, "{cell}: what is read again is parked no second time");
    consumer.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_a_park_and_its_answer() {
    crash(Point::ParkedUnanswered).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_the_answer_of_a_park_and_its_proof() {
    crash(Point::ParkedUnproven).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_park_and_commit() {
    crash(Point::ParkedUnacked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_a_commit_and_its_note() {
    crash(Point::AckedUnnoted).await;
}
