//! The promises of `Broker`. Each is a function over a [`Fixture`] and runs on every broker there is.

mod amqp;
mod kafka;
mod memory;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use xdelay::broker::{Broker, Delivery, Intake};
use xdelay::delay::{When, Wish};
use xdelay::message::Destination;
use xdelay::store::{Author, Entry, Lease, Limit, Parkings, Store};

use super::support::redis::store;
use super::support::{body, eventually};

/// A broker under test, with a producer and a consumer that are not xdelay's.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The adapter; each call is another process's view of the same broker.
    fn broker(&self) -> Arc<dyn Broker>;
    /// Where messages are bound for.
    fn destination(&self) -> Destination;
    /// Where to park what it captures; a real broker begins there before it hands anything out.
    fn store(&self) -> Arc<dyn Store> {
        store().0
    }
    /// Publishes a message to be delayed by so many milliseconds.
    async fn publish(&self, body: &str, delay_ms: u64);
    /// All that its consumers got so far, in order.
    async fn received(&self) -> Vec<String>;
}

/// Takes deliveries until there are so many.
async fn take(intake: &mut dyn Intake, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(20), intake.next()).await;
        taken.extend(next.expect("in time").expect("not stopped"));
    }
    taken
}

/// Makes a store's proofs for deliveries, and acks them.
async fn park_and_ack(store: &dyn Store, deliveries: Vec<Delivery>) {
    let destination = deliveries[0].destination.clone();
    let (mut entries, mut receipts, mut origins) = (Vec::new(), Vec::new(), Vec::new());
    for delivery in deliveries {
        origins.extend(delivery.origin);
        let Ok(Wish::Hold(..)) = delivery.wish else { panic!("{delivery:?}") };
        let message = xdelay::message::Message {
            uid: delivery.uid,
            id: None,
            delay_ms: None,
            content: delivery.content,
        };
        entries.push(Entry::Park {
            message,
            when: When::AtOnce,
            priority: 0,
            by: Author::Producer,
        });
        receipts.push(delivery.receipt);
    }
    let parked = store.park_read(&destination, &entries, &origins).await;
    let parkings: Parkings = parked.expect("parked");
    for (receipt, parking) in receipts.into_iter().zip(parkings.entries) {
        receipt.ack(parking.proof);
    }
}

async fn leases(store: &dyn Store, destination: &Destination) -> Vec<Lease> {
    let limit =
        Limit { messages: 500, bytes: 1 << 20, lease: Duration::from_secs(60), alone: true };
    store.claim(destination, limit).await.expect("a claim").leases
}

/// Captures come in the order they were published, with what their producer asked for.
pub async fn captures_in_order(fixture: &dyn Fixture) {
    let broker = fixture.broker();
    let mut intake = broker.intake().await;
    for n in 0..20 {
        fixture.publish(&n.to_string(), 5_000 + n).await;
    }
    let taken = take(&mut *intake, 20).await;
    for (n, delivery) in (0_u64..).zip(&taken) {
        assert_eq!(body(&delivery.content), n.to_string());
        match &delivery.wish {
            Ok(Wish::Hold(When::Since { ms, .. }, None)) => assert_eq!(*ms, 5_000 + n),
            wish => assert_eq!(wish, &Ok(Wish::Hold(When::In(5_000 + n), None))),
        }
        assert_eq!(delivery.destination, fixture.destination());
    }
    let uids: BTreeSet<_> = taken.iter().map(|delivery| delivery.uid.clone()).collect();
    assert_eq!(uids.len(), 20);
    intake.stop().await;
}

/// What is not acked comes again to the next process, in order; what is acked does not.
pub async fn redelivers_what_is_not_acked(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = fixture.broker();
    let mut intake = first.intake().await;
    for n in 0..10 {
        fixture.publish(&n.to_string(), 5_000).await;
    }
    let mut taken = take(&mut *intake, 10).await;
    let unacked = taken.split_off(4);
    park_and_ack(&*store, taken).await;
    intake.stop().await;
    intake.flush().await;
    drop((unacked, intake));
    first.close().await;
    let second = fixture.broker();
    let mut intake = second.intake().await;
    let again = take(&mut *intake, 6).await;
    let bodies: Vec<_> = again.iter().map(|delivery| body(&delivery.content)).collect();
    assert_eq!(bodies, ["4", "5", "6", "7", "8", "9"]);
    intake.stop().await;
}

/// A proof means that it arrived: once, and in the order of the batch.
pub async fn releases_in_order(fixture: &dyn Fixture) {
    let store = fixture.store();
    let broker = fixture.broker();
    let mut intake = broker.intake().await;
    for n in 0..50 {
        fixture.publish(&n.to_string(), 1).await;
    }
    let taken = take(&mut *intake, 50).await;
    park_and_ack(&*store, taken).await;
    let leases = leases(&*store, &fixture.destination()).await;
    let expected: Vec<_> = leases.iter().map(|lease| body(&lease.message().content)).collect();
    let soon = Instant::now() + Duration::from_secs(10);
    let outcomes = broker.release(&fixture.destination(), &leases, soon).await;
    for (lease, outcome) in leases.iter().zip(outcomes) {
        assert_eq!(outcome.expect("released").uid(), &lease.message().uid);
    }
    let received = eventually("all arrived", || async {
        let received = fixture.received().await;
        (received.len() >= 50).then_some(received)
    })
    .await;
    assert_eq!(received, expected);
    intake.stop().await;
}

/// A stopped intake hands out what it has, then ends; its receipts can still be acked.
pub async fn stops_in_order(fixture: &dyn Fixture) {
    let store = fixture.store();
    let broker = fixture.broker();
    let mut intake = broker.intake().await;
    fixture.publish("a", 5_000).await;
    let taken = take(&mut *intake, 1).await;
    intake.stop().await;
    assert!(intake.next().await.is_none(), "nothing is left");
    park_and_ack(&*store, taken).await;
    intake.flush().await;
    drop(intake);
    broker.close().await;
    let again = fixture.broker();
    let mut intake = again.intake().await;
    fixture.publish("b", 5_000).await;
    let taken = take(&mut *intake, 1).await;
    assert_eq!(body(&taken[0].content), "b", "a was acked");
    intake.stop().await;
}
