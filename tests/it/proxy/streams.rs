//! Publishing as fast as confirms allow, through broken connections, and what arrives of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::rabbit::{Rabbit, table};
use crate::support::{a_while, eventually};

/// Publishes that wait for their confirms at once.
const WINDOW: usize = 500;
/// How long a single exchange may take before its connection is given up.
const GIVE_UP: Duration = Duration::from_secs(5);

/// A message: which of the channels that followed each other carried it, and as which of its own.
type Place = (u32, u32);

/// What became of the publishes of one producer.
#[derive(Clone, Default)]
pub struct Stream(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    confirmed: HashSet<Place>,
    /// In the order in which they came, copies left out.
    arrived: Vec<Place>,
    known: HashSet<Place>,
}

impl Stream {
    /// Publishes until so many are confirmed. One that is not confirmed is not sent again: it may
    /// arrive or not.
    pub fn produce(
        &self,
        url: &str,
        exchange: &str,
        properties: BasicProperties,
        count: usize,
    ) -> JoinHandle<()> {
        let (stream, url, exchange) = (self.clone(), url.to_owned(), exchange.to_owned());
        tokio::spawn(async move {
            for number in 0.. {
                if stream.confirmed() >= count {
                    return;
                }
                let Some(channel) = open(&url).await else { continue };
                stream.fill(&channel, number, &exchange, &properties, count).await;
            }
        })
    }

    /// Publishes on one channel until it breaks, or enough are confirmed.
    async fn fill(
        &self,
        channel: &Channel,
        number: u32,
        exchange: &str,
        properties: &BasicProperties,
        count: usize,
    ) -> Option<()> {
        let mut waiting = VecDeque::new();
        let mut next = 0;
        loop {
            let wanted = self.confirmed() + waiting.len() < count;
            if wanted && waiting.len() < WINDOW {
                let options = BasicPublishOptions { mandatory: true, immediate: false };
                let (exchange, body) = (exchange.into(), format!("{number} {next}"));
                let (key, body) = ("key".into(), body.as_bytes());
                let publish =
                    channel.basic_publish(exchange, key, options, body, properties.clone());
                let confirm = timeout(GIVE_UP, publish).await.ok()?.ok()?;
                waiting.push_back(((number, next), confirm));
                next += 1;
                continue;
            }
            let (place, confirm) = waiting.pop_front()?;
            let confirm = timeout(GIVE_UP, confirm).await.ok()?.ok()?;
            assert!(confirm.is_ack() && confirm.take_message().is_none(), "it came back");
            self.seen().confirmed.insert(place);
        }
    }

    /// Takes what arrives in a queue.
    pub async fn collect(&self, rabbit: &Rabbit, queue: &str) -> JoinHandle<()> {
        let options = BasicConsumeOptions::default();
        let consumer = rabbit.channel.basic_consume(queue.into(), "".into(), options, table([]));
        let mut consumer = consumer.await.expect("a consumer");
        let stream = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(got)) = consumer.next().await {
                let body = String::from_utf8_lossy(&got.data).into_owned();
                let (channel, number) = body.split_once(' ').expect("two numbers");
                let place = (channel.parse().expect("one"), number.parse().expect("the other"));
                stream.note(place);
                let _ = got.acker.ack(BasicAckOptions::default()).await;
            }
        })
    }

    fn note(&self, place: Place) {
        let mut seen = self.seen();
        if seen.known.insert(place) {
            seen.arrived.push(place);
        }
    }

    pub fn confirmed(&self) -> usize {
        self.seen().confirmed.len()
    }

    fn missing(&self) -> usize {
        let seen = self.seen();
        seen.confirmed.difference(&seen.known).count()
    }

    /// Waits for the last that was confirmed, however long it takes as long as some arrive.
    pub async fn all_arrived(&self) {
        let mut missing = self.missing();
        while missing > 0 {
            eventually("more messages arrive", || async {
                (self.missing() < missing).then_some(())
            })
            .await;
            missing = self.missing();
        }
    }

    /// How many messages have to be left out for the rest of each channel to be in the order of
    /// publish; the last channel by itself.
    pub fn out_of_place(&self) -> (usize, usize) {
        let mut channels: HashMap<u32, Vec<u32>> = HashMap::new();
        for (channel, number) in &self.seen().arrived {
            channels.entry(*channel).or_default().push(*number);
        }
        let last = channels.keys().max().copied();
        let last = last.and_then(|last| channels.remove(&last)).unwrap_or_default();
        (channels.values().map(|numbers| displaced(numbers)).sum(), displaced(&last))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("not poisoned")
    }
}

/// How many numbers are outside of a longest ascending row of them.
fn displaced(numbers: &[u32]) -> usize {
    // The least end of all ascending rows of each length.
    let mut ends: Vec<u32> = Vec::new();
    for number in numbers {
        let place = ends.partition_point(|end| end < number);
        match ends.get_mut(place) {
            Some(end) => *end = *number,
            None => ends.push(*number),
        }
    }
    numbers.len() - ends.len()
}

/// A confirming channel of a new connection, if there is one to be had.
async fn open(url: &str) -> Option<Channel> {
    let connecting = Connection::connect(url, ConnectionProperties::default());
    let Ok(Ok(connection)) = timeout(GIVE_UP, connecting).await else {
        a_while(50..51).await;
        return None;
    };
    let channel = timeout(GIVE_UP, connection.create_channel()).await.ok()?.ok()?;
    let confirms = channel.confirm_select(Default::default());
    timeout(GIVE_UP, confirms).await.ok()?.ok()?;
    Some(channel)
}

#[test]
fn what_is_out_of_place_is_counted() {
    assert_eq!(displaced(&[]), 0);
    assert_eq!(displaced(&[0, 1, 4, 9]), 0);
    assert_eq!(displaced(&[0, 5, 6, 1, 2, 7]), 2);
    assert_eq!(displaced(&[2, 1, 0]), 2);
}
