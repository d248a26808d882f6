//! The promises of `Store` and `Steer`. Each test is one promise and runs on every store there is.

/// Runs each promise on each store.
macro_rules! promises {
    ($($promise:ident,)*) => {
        mod redis {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(super::Stage::redis()).await;
            })*
        }
        mod embedded {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(super::Stage::embedded()).await;
            })*
        }
        /// All of them, one after another, each on a namespace of its own on this Redis.
        pub async fn every_promise_at(url: &str) {
            $(
                eprintln!("{}", stringify!($promise));
                $promise(Stage::at(url)).await;
            )*
        }
    };
}

pub mod owner;
pub mod steer;

mod mark;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use xdelay::broker::memory::MemoryBroker;
use xdelay::broker::{Broker, Released};
use xdelay::delay::When;
use xdelay::message::{
    AmqpContent, BrokerKind, Content, Destination, Message, ProducerId, Reason, Uid,
};
use xdelay::store::embedded::EmbeddedStore;
use xdelay::store::{
    Author, Claim, Entry, Error, Lease, Limit, Outcome, Parkings, Postponed, Recovery, Secured,
    Steer, Store,
};

use self::mark::{
    a_mark_moves_with_what_is_parked_and_is_seen_by_all,
    a_reader_ahead_of_the_mark_is_refused_whole_and_told_where_it_is,
    what_is_read_again_is_parked_no_second_time_even_after_its_release,
};
use super::support::invariants::{self, Delivery, Event, Terms};
use super::support::redis::{connection, open, settings, store, store_with};
use super::support::witness::{Log, Witness};
use super::support::{body, eventually, eventually_is};

pub fn orders() -> Destination {
    Destination::amqp("orders")
}

pub fn message(id: Option<&str>, body: &str) -> Message {
    Message {
        uid: Uid::fresh(),
        id: id.and_then(|id| ProducerId::new(id.as_bytes())),
        delay_ms: Some(1),
        content: Content::Amqp(AmqpContent {
            routing_key: Bytes::from_static(b"eu.1"),
            properties: Bytes::from_static(&[0, 0]),
            body: Bytes::copy_from_slice(body.as_bytes()),
        }),
    }
}

pub fn park(message: Message, when: When) -> Entry {
    Entry::Park { message, when, priority: 0, by: Author::Producer }
}

pub fn limit(messages: usize) -> Limit {
    Limit { messages, bytes: 1 << 20, lease: Duration::from_secs(60), alone: true }
}

/// A store nobody else uses, seen by two replicas where a store can have two.
struct Stage {
    store: Arc<dyn Steer>,
    other: Arc<dyn Steer>,
    /// Where its file lies, if it has one.
    _directory: Option<TempDir>,
}

impl Stage {
    fn redis() -> Self {
        let (store, settings) = store();
        Self { store, other: open(&settings), _directory: None }
    }

    fn at(url: &str) -> Self {
        let settings = settings(url);
        Self { store: open(&settings), other: open(&settings), _directory: None }
    }

    fn embedded() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("made when missing");
        let store = EmbeddedStore::open(&path, Arc::default()).expect("a new store");
        let store: Arc<dyn Steer> = Arc::new(store);
        Self { other: Arc::clone(&store), store, _directory: Some(directory) }
    }
}

promises! {
    a_delay_counts_from_when_it_was_written_but_from_no_later_than_now,
    what_is_parked_is_claimed_when_it_is_due_and_not_before,
    a_message_comes_back_as_it_went_in,
    order_is_by_due_then_priority_then_arrival,
    parking_a_uid_again_changes_nothing,
    an_id_replaces_and_cancels_in_order,
    what_is_replaced_while_leased_is_said_and_its_ticket_is_void,
    a_proof_is_for_the_entry_it_answers,
    postponing_counts_if_told_to_and_keeps_the_due,
    what_is_postponed_waits,
    what_is_buried_stays_and_is_not_claimed,
    census_is_of_all_states_and_times_to_due,
    a_lost_lease_is_recovered_by_any_replica_and_the_old_ticket_is_void,
    of_two_tickets_for_a_message_in_one_batch_the_last_alone_counts,
    two_replicas_never_hold_the_same_message,
    whatever_is_done_in_between_the_invariants_hold,
    what_ends_its_holders_is_claimed_alone_and_then_buried,
    destinations_are_remembered_and_a_namespace_belongs_to_one_broker,
    a_mark_moves_with_what_is_parked_and_is_seen_by_all,
    what_is_read_again_is_parked_no_second_time_even_after_its_release,
    a_reader_ahead_of_the_mark_is_refused_whole_and_told_where_it_is,
}

fn outcomes(parkings: &Parkings) -> Vec<Outcome> {
    parkings.entries.iter().map(|parking| parking.outcome).collect()
}

pub fn bodies(claim: &Claim) -> Vec<String> {
    let body = |lease: &Lease| body(&lease.message().content);
    claim.leases.iter().map(body).collect()
}

/// A release that a broker confirmed.
async fn released(lease: &[Lease]) -> Vec<Released> {
    let broker = MemoryBroker::new("orders");
    let soon = Instant::now() + Duration::from_secs(1);
    let outcomes = broker.release(&orders(), lease, soon).await;
    outcomes.into_iter().map(|outcome| outcome.expect("released")).collect()
}

pub async fn settle(store: &dyn Store, claim: Claim) -> usize {
    let proofs = released(&claim.leases).await;
    let batch = claim.leases.into_iter().map(Lease::into_ticket).zip(proofs).collect();
    store.settle(&orders(), batch).await.expect("settled")
}

async fn what_is_parked_is_claimed_when_it_is_due_and_not_before(Stage { store, .. }: Stage) {
    let entry = park(message(None, "a"), When::In(300));
    let parkings = store.park(&orders(), &[entry]).await.expect("parked");
    let due = parkings.earliest_due.expect("a due");
    assert_eq!(due, parkings.now + 300);
    let early = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert!(early.is_empty());
    assert_eq!(early.next_due, Some(due));
    let claim = eventually("it is due", || async {
        let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
        assert!(claim.is_empty() || claim.now >= due, "claimed before its due");
        (!claim.is_empty()).then_some(claim)
    })
    .await;
    assert_eq!(claim.leases[0].due(), due);
    assert_eq!(settle(&*store, claim).await, 1);
    let census = store.census(&orders()).await.expect("a census");
    assert_eq!((census.parked, census.leased, census.dead), (0, 0, 0));
}

async fn a_message_comes_back_as_it_went_in(Stage { store, .. }: Stage) {
    let sent = Message { delay_ms: None, ..message(Some("ü/1"), "\u{0}body") };
    let entry = park(sent.clone(), When::AtOnce);
    let _ = store.park(&orders(), &[entry]).await.expect("parked");
    let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
    assert_eq!(claim.leases[0].message(), &sent);
}

async fn order_is_by_due_then_priority_then_arrival(Stage { store, .. }: Stage) {
    let entry = |body, at, priority| Entry::Park {
        message: message(None, body),
        when: When::At(at),
        priority,
        by: Author::Producer,
    };
    let batch = [
        entry("d", 2_000, 0),
        entry("b", 1_000, 0),
        entry("c", 1_000, 0),
        entry("a", 1_000, 9),
        entry("e", 2_001, 255),
    ];
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!(bodies(&claim), ["a", "b", "c", "d", "e"]);
}

async fn parking_a_uid_again_changes_nothing(Stage { store, .. }: Stage) {
    let entry = park(message(Some("x"), "a"), When::At(1));
    let batch = [entry];
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let again = store.park(&orders(), &batch).await.expect("parked");
    assert_eq!(outcomes(&again), [Outcome::Known]);
    let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!(claim.leases.len(), 1);
}

async fn an_id_replaces_and_cancels_in_order(Stage { store, .. }: Stage) {
    let id = ProducerId::new(b"order-1").expect("an id");
    let cancel = || Entry::Cancel { uid: Uid::fresh(), id: id.clone(), user: None };
    let batch = [
        park(message(Some("order-1"), "first"), When::At(1)),
        park(message(Some("order-1"), "second"), When::At(1)),
        park(message(Some("order-2"), "other"), When::At(2)),
        cancel(),
        cancel(),
        park(message(Some("order-1"), "third"), When::At(3)),
    ];
    let parkings = store.park(&orders(), &batch).await.expect("parked");
    let expected = [
        Outcome::Parked(1),
        Outcome::Replaced(1),
        Outcome::Parked(2),
        Outcome::Cancelled,
        Outcome::UnknownId,
        Outcome::Parked(3),
    ];
    assert_eq!(outcomes(&parkings), expected);
    let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!(bodies(&claim), ["other", "third"]);
}

async fn what_is_replaced_while_leased_is_said_and_its_ticket_is_void(Stage { store, .. }: Stage) {
    let batch = [park(message(Some("a"), "old"), When::At(1))];
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
    let batch = [park(message(Some("a"), "new"), When::At(2))];
    let replaced = store.park(&orders(), &batch).await.expect("parked");
    assert_eq!(outcomes(&replaced), [Outcome::ReplacedLeased(2)]);
    assert_eq!(settle(&*store, claim).await, 0, "an old token changes nothing");
    let claim = store.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!(bodies(&claim), ["new"]);
}

async fn a_proof_is_for_the_entry_it_answers(Stage { store, .. }: Stage) {
    let reason = Reason::new("invalid", "x-delay is odd");
    let buried = Entry::Bury { message: message(None, "b"), reason };
    let batch = [park(message(None, "a"), When::In(1)), buried];
    let parkings = store.park(&orders(), &batch).await.expect("parked");
    for (entry, parking) in batch.iter().zip(&parkings.entries) {
        assert_eq!(parking.proof.uid(), entry.uid());
    }
    assert!(matches!(parkings.entries[0].proof, Secured::Parked(_)));
    assert!(matches!(parkings.entries[1].proof, Secured::Buried(_)));
    let census = store.census(&orders()).await.expect("a census");
    assert_eq!((census.parked, census.dead), (1, 1));
}

async fn postponing_counts_if_told_to_and_keeps_the_due(Stage { store, .. }: Stage) {
    let batch = [park(message(None, "a"), When::At(5))];
    let _ = store.park(&orders(), &batch).await.expect("parked");
    for (counts, attempts) in [(true, 1), (false, 1), (true, 2)] {
        let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
        let ticket = claim.leases.into_iter().next().expect("a lease").into_ticket();
        let reason = Reason::new("test", "not now");
        let postponed = Postponed { ticket, wait: Duration::ZERO, counts, reason };
        assert_eq!(store.postpone(&orders(), vec![postponed]).await.expect("postponed"), 1);
        let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
        assert_eq!((claim.leases[0].attempts(), claim.leases[0].due()), (attempts, 5));
        let ticket = claim.leases.into_iter().next().expect("a lease").into_ticket();
        let reason = Reason::new("test", "back");
        let back = Postponed { ticket, wait: Duration::ZERO, counts: false, reason };
        let _ = store.postpone(&orders(), vec![back]).await.expect("postponed");
    }
}

async fn what_is_postponed_waits(Stage { store, .. }: Stage) {
    let batch = [park(message(None, "a"), When::At(5))];
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
    let ticket = claim.leases.into_iter().next().expect("a lease").into_ticket();
    let wait = Duration::from_secs(60);
    let reason = Reason::new("test", "later");
    let postponed = Postponed { ticket, wait, counts: true, reason };
    let _ = store.postpone(&orders(), vec![postponed]).await.expect("postponed");
    let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
    assert!(claim.is_empty());
    assert!(claim.next_due.expect("parked") >= claim.now + 59_000);
}

async fn what_is_buried_stays_and_is_not_claimed(Stage { store, .. }: Stage) {
    let batch = [park(message(None, "a"), When::At(5))];
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
    let ticket = claim.leases.into_iter().next().expect("a lease").into_ticket();
    let reason = Reason::new("refused", "never");
    assert_eq!(store.bury(&orders(), vec![(ticket, reason)]).await.expect("buried"), 1);
    let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
    assert!(claim.is_empty());
    assert_eq!(store.census(&orders()).await.expect("a census").dead, 1);
}

async fn a_lost_lease_is_recovered_by_any_replica_and_the_old_ticket_is_void(
    Stage { store, other, .. }: Stage,
) {
    let batch = [park(message(None, "a"), When::At(5))];
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let short = Limit { lease: Duration::from_millis(100), ..limit(10) };
    let lost = store.claim(&orders(), short).await.expect("a claim");
    assert_eq!(lost.leases.len(), 1);
    eventually_is(Recovery { recovered: 1, buried: 0 }, || async {
        other.recover(&orders()).await.expect("recovered")
    })
    .await;
    let claim = other.claim(&orders(), limit(10)).await.expect("a claim");
    assert_eq!(claim.leases[0].due(), 5);
    assert_eq!(settle(&*store, lost).await, 0, "the first holder came too late");
    assert_eq!(settle(&*other, claim).await, 1);
}

/// A replica that was away beyond its lease may be given the same message again before it has
/// concluded the first.
async fn of_two_tickets_for_a_message_in_one_batch_the_last_alone_counts(
    Stage { store, .. }: Stage,
) {
    let lost = Limit { lease: Duration::ZERO, ..limit(1) };
    for old_first in [true, false] {
        let batch = [park(message(None, "a"), When::At(5))];
        let _ = store.park(&orders(), &batch).await.expect("parked");
        let claim = store.claim(&orders(), lost).await.expect("a claim");
        let old = claim.leases.into_iter().next().expect("a lease").into_ticket();
        eventually_is(1, || async { store.recover(&orders()).await.expect("recovered").recovered })
            .await;
        let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
        let new = claim.leases.into_iter().next().expect("a lease").into_ticket();
        let postponed = |ticket, wait, counts| {
            let reason = Reason::new("test", "not now");
            Postponed { ticket, wait: Duration::from_secs(wait), counts, reason }
        };
        let mut batch = vec![postponed(old, 60, true), postponed(new, 0, false)];
        if !old_first {
            batch.reverse();
        }
        assert_eq!(store.postpone(&orders(), batch).await.expect("postponed"), 1);
        let claim = store.claim(&orders(), limit(1)).await.expect("a claim");
        let attempts: Vec<_> = claim.leases.iter().map(Lease::attempts).collect();
        assert_eq!(attempts, [0], "the old ticket counts nothing and makes nobody wait");
        assert_eq!(settle(&*store, claim).await, 1);
    }
}

/// Parks, replaces, cancels, steers, claims and concludes at random, as the model does in memory.
async fn whatever_is_done_in_between_the_invariants_hold(Stage { store, .. }: Stage) {
    let log = Arc::new(Log::default());
    let witness = Witness::new(store, Arc::clone(&log));
    let mut lost = Vec::new();
    for number in 0..150 {
        let id = ["a", "b"].get(fastrand::usize(..3)).copied();
        match fastrand::u8(..7) {
            0..=2 => {
                let name = number.to_string();
                log.note(&name, Event::Published { not_before: log.now() });
                log.note(&name, Event::Confirmed);
                let _ = witness.park(&orders(), &[park(message(id, &name), When::In(1))]).await;
            }
            3 => {
                let id = ProducerId::new(b"a").expect("an id");
                let _ = witness
                    .park(&orders(), &[Entry::Cancel { uid: Uid::fresh(), id, user: None }])
                    .await;
            }
            4 => {
                let short = Limit { lease: Duration::ZERO, ..limit(2) };
                lost.push(witness.claim(&orders(), short).await.expect("a claim"));
                witness.recover(&orders()).await.expect("recovered");
            }
            5 => drop(witness.settle(&orders(), delivered(&log, lost.pop()).await).await),
            _ => {
                let claim = witness.claim(&orders(), limit(2)).await.expect("a claim");
                let batch = delivered(&log, Some(claim)).await;
                witness.settle(&orders(), batch).await.expect("settled");
            }
        }
    }
    witness.take_stock(&orders()).await;
    invariants::hold(&log.history(), &Terms::FAULTS);
}

/// Releases what was claimed, and notes that.
async fn delivered(log: &Log, claim: Option<Claim>) -> Vec<(xdelay::store::Ticket, Released)> {
    let leases = claim.map(|claim| claim.leases).unwrap_or_default();
    let proofs = released(&leases).await;
    for lease in &leases {
        let delivery = Delivery::due(lease.due());
        log.note_uid(&lease.message().uid, Event::Delivered(delivery));
    }
    leases.into_iter().map(Lease::into_ticket).zip(proofs).collect()
}

async fn what_ends_its_holders_is_claimed_alone_and_then_buried(Stage { store, .. }: Stage) {
    let lost = Limit { lease: Duration::ZERO, ..limit(10) };
    let _ =
        store.park(&orders(), &[park(message(None, "bad"), When::At(1))]).await.expect("parked");
    for _ in 0..3 {
        assert_eq!(store.claim(&orders(), lost).await.expect("a claim").leases.len(), 1);
        let recovery = Recovery { recovered: 1, buried: 0 };
        assert_eq!(store.recover(&orders()).await.expect("recovered"), recovery);
    }
    let good = [park(message(None, "good"), When::At(1))];
    let _ = store.park(&orders(), &good).await.expect("parked");
    let beside = Limit { alone: false, ..limit(10) };
    let claim = store.claim(&orders(), beside).await.expect("a claim");
    assert_eq!((bodies(&claim), claim.alone), (vec!["good".to_owned()], false));
    let none = store.claim(&orders(), beside).await.expect("a claim");
    assert!(none.is_empty() && none.next_due.expect("parked") <= none.now);
    let claim = store.claim(&orders(), lost).await.expect("a claim");
    assert_eq!((bodies(&claim), claim.alone), (vec!["bad".to_owned()], true));
    let buried = Recovery { recovered: 0, buried: 1 };
    assert_eq!(store.recover(&orders()).await.expect("recovered"), buried);
}

async fn two_replicas_never_hold_the_same_message(Stage { store, other, .. }: Stage) {
    let batch: Vec<_> =
        (0..400).map(|n| park(message(None, &n.to_string()), When::At(1))).collect();
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4 {
        let to = orders();
        let (a, b) = tokio::join!(store.claim(&to, limit(50)), other.claim(&to, limit(50)));
        for claim in [a.expect("a claim"), b.expect("a claim")] {
            for lease in claim.leases {
                assert!(seen.insert(lease.message().uid.clone()), "claimed twice");
            }
        }
    }
    assert_eq!(seen.len(), 400);
}

#[tokio::test]
async fn several_buckets_keep_ids_together_and_order_of_due() {
    let (_, settings) = store_with(4);
    ids_stay_together_and_order_is_by_due(&settings).await;
}

pub async fn ids_stay_together_and_order_is_by_due(settings: &xdelay::store::redis::Settings) {
    let store = open(settings);
    store.open(&orders()).await.expect("opened");
    let batch: Vec<_> = (0..40)
        .map(|n| park(message(Some(&format!("id-{n}")), &n.to_string()), When::At(n)))
        .collect();
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let cancels: Vec<_> = (0..20)
        .map(|n| {
            let id = ProducerId::new(format!("id-{n}").as_bytes()).expect("an id");
            Entry::Cancel { uid: Uid::fresh(), id, user: None }
        })
        .collect();
    let cancelled = store.park(&orders(), &cancels).await.expect("cancelled");
    assert!(outcomes(&cancelled).iter().all(|outcome| *outcome == Outcome::Cancelled));
    let claim = store.claim(&orders(), limit(400)).await.expect("a claim");
    let expected: Vec<_> = (20..40).map(|n| n.to_string()).collect();
    assert_eq!(bodies(&claim), expected);
    assert_eq!(settle(&*store, claim).await, 20);
    let other = xdelay::store::redis::Settings { buckets: 2, ..settings.clone() };
    let refused = open(&other).open(&orders()).await.expect_err("another layout");
    let laid_out = format!("redis.buckets = {}", settings.buckets);
    assert!(refused.to_string().contains(&laid_out), "{refused}");
}

async fn destinations_are_remembered_and_a_namespace_belongs_to_one_broker(
    Stage { store, other, .. }: Stage,
) {
    let odd = Destination::amqp("a:{b}");
    store.open(&orders()).await.expect("opened");
    store.open(&odd).await.expect("opened");
    assert_eq!(other.destinations().await.expect("known"), [odd, orders()]);
    other.bind(BrokerKind::Amqp, "cluster a").await.expect("the first");
    store.bind(BrokerKind::Amqp, "cluster a").await.expect("the same");
    let refused = store.bind(BrokerKind::Amqp, "cluster b").await.expect_err("another");
    assert!(matches!(refused, Error::Foreign(_)), "{refused}");
}

async fn census_is_of_all_states_and_times_to_due(Stage { store, .. }: Stage) {
    let batch = [
        park(message(None, "a"), When::At(1)),
        park(message(None, "b"), When::In(5_000)),
        park(message(None, "c"), When::In(500_000)),
    ];
    let _ = store.park(&orders(), &batch).await.expect("parked");
    let census = store.census(&orders()).await.expect("a census");
    assert_eq!((census.parked, census.overdue), (3, 1));
    assert_eq!(census.due_within[..4], [1, 2, 2, 3]);
}

/// What was written a while ago has waited for that long already; what lies ahead counts as now.
async fn a_delay_counts_from_when_it_was_written_but_from_no_later_than_now(stage: Stage) {
    let now = stage.store.census(&orders()).await.expect("a census").now;
    let since = |stamp| park(message(None, "x"), When::Since { stamp, ms: 60_000 });
    let batch = [since(now - 10_000), since(now + 999_000)];
    let parkings = stage.store.park(&orders(), &batch).await.expect("parked");
    assert!(parkings.now < now + 500_000, "this test is quick");
    let expected = [now + 50_000, parkings.now + 60_000];
    assert_eq!(outcomes(&parkings), expected.map(Outcome::Parked));
    assert_eq!(parkings.earliest_due, Some(now + 50_000));
}
