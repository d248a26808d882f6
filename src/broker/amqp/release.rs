//! Publishes due messages to their exchanges.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Mutex as AsyncMutex;

use super::lane::{Lane, Said, Word};
use super::link::Link;
use super::outgoing::{Outgoing, outgoing};
use super::publisher::{self, Publisher};
use super::refusal::Blame;
use crate::broker::{NotReleased, Released};
use crate::config::OnUnroutable;
use crate::message::{Destination, Reason};
use crate::metrics::{DestinationMetrics, Metrics};
use crate::store::Lease;

type Outcome = Result<Released, NotReleased>;

/// The releasing side of the adapter.
pub(super) struct Releaser {
    pub link: Link<Publisher>,
    on_unroutable: OnUnroutable,
    metrics: Arc<Metrics>,
    lanes: Mutex<HashMap<Destination, Arc<AsyncMutex<Lane>>>>,
}

impl Releaser {
    pub(super) fn new(
        link: Link<Publisher>,
        on_unroutable: OnUnroutable,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { link, on_unroutable, metrics, lanes: Mutex::default() }
    }

    /// See [`crate::broker::Broker::release`].
    pub(super) async fn release(
        &self,
        destination: &Destination,
        batch: &[Lease],
        deadline: Instant,
    ) -> Vec<Outcome> {
        let lane = self.lane(destination);
        let mut lane = lane.lock().await;
        let mut outcomes: Vec<Option<Outcome>> = batch.iter().map(|_| None).collect();
        let prepared = match self.link.connection().await {
            Ok(connection) => prepare(batch, connection.frame_max(), &mut outcomes),
            Err(why) => return answer(batch, outcomes, &Blame::Connection(why)),
        };
        if let Err(blame) = lane.open(&self.link).await {
            return answer(batch, outcomes, &blame);
        }
        if Instant::now() >= deadline {
            let late = Blame::Connection("opening a channel took too long".into());
            return answer(batch, outcomes, &late);
        }
        let (places, messages): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
        let Said { words, broken } = lane.publish(&messages, deadline).await;
        let metrics = self.metrics.of(destination);
        let mut uncertain = Vec::new();
        for (place, word) in places.into_iter().zip(words) {
            match self.judge(&batch[place], word, &metrics) {
                Some(outcome) => outcomes[place] = Some(outcome),
                None => uncertain.push(place),
            }
        }
        let blame = match broken {
            Some(Blame::Message(_)) => {
                let rest = (batch, uncertain, deadline);
                self.one_by_one(&mut lane, rest, &mut outcomes, &metrics).await
            }
            Some(blame) => blame,
            None => Blame::Connection("no word of it".into()),
        };
        answer(batch, outcomes, &blame)
    }

    /// Publishes what is uncertain alone, so that the message that broke the batch is found and
    /// its neighbours are not published again and again with it.
    async fn one_by_one(
        &self,
        lane: &mut Lane,
        (batch, uncertain, deadline): (&[Lease], Vec<usize>, Instant),
        outcomes: &mut [Option<Outcome>],
        metrics: &DestinationMetrics,
    ) -> Blame {
        for place in uncertain {
            if Instant::now() >= deadline {
                return Blame::Connection("no time was left to try it alone".into());
            }
            if let Err(blame) = lane.open(&self.link).await {
                return blame;
            }
            let message = match outgoing(&batch[place]) {
                Ok(message) => message,
                Err(reason) => {
                    outcomes[place] = Some(Err(NotReleased::Hopeless(reason)));
                    continue;
                }
            };
            let Said { words, broken } = lane.publish(&[message], deadline).await;
            let word = words.into_iter().next().unwrap_or(Word::Nothing);
            outcomes[place] = match (self.judge(&batch[place], word, metrics), broken) {
                (Some(outcome), _) => Some(outcome),
                (None, Some(Blame::Message(why))) => {
                    Some(Err(NotReleased::Refused(Reason::new("refused", why))))
                }
                (None, Some(blame)) => return blame,
                (None, None) => None,
            };
        }
        Blame::Connection("no word of it".into())
    }

    /// The one place where a release is proven: the broker confirmed it and did not return it,
    /// or returned it and the operator said to drop what no queue wants.
    fn judge(&self, lease: &Lease, word: Word, metrics: &DestinationMetrics) -> Option<Outcome> {
        let dropped = matches!(word, Word::Returned(_)) && self.on_unroutable == OnUnroutable::Drop;
        if dropped {
            metrics.dropped();
            tracing::debug!(uid = %lease.message().uid, "drops what no queue wants");
        }
        match word {
            _ if dropped || word == Word::Confirmed => {
                Some(Ok(Released::confirmed(lease.message().uid.clone())))
            }
            Word::Confirmed | Word::Nothing => None,
            Word::Returned(why) => {
                let text = format!("no queue is bound for it: {why}");
                Some(Err(NotReleased::Refused(Reason::new("unroutable", text))))
            }
            Word::Nacked => {
                let text = "the broker did not take it: is a queue full?";
                Some(Err(NotReleased::Refused(Reason::new("nacked", text))))
            }
        }
    }

    fn lane(&self, destination: &Destination) -> Arc<AsyncMutex<Lane>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes
            .entry(destination.clone())
            .or_insert_with(|| Arc::new(AsyncMutex::new(Lane::new(&destination.name))));
        Arc::clone(lane)
    }
}

/// Fills in for those that nothing certain was heard of.
fn answer(batch: &[Lease], outcomes: Vec<Option<Outcome>>, blame: &Blame) -> Vec<Outcome> {
    let unreleased = match blame {
        Blame::Destination(why) => NotReleased::Waiting(Reason::new("destination", why.as_str())),
        Blame::Connection(why) | Blame::Message(why) => {
            NotReleased::Waiting(Reason::new("connection", why.as_str()))
        }
        Blame::Confirms(why) => NotReleased::Unconfirmed(Reason::new("unconfirmed", why.as_str())),
    };
    debug_assert_eq!(batch.len(), outcomes.len());
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(unreleased.clone()))).collect()
}

/// Prepares every message that can be published; the others are answered at once.
fn prepare(
    batch: &[Lease],
    frame_max: usize,
    outcomes: &mut [Option<Outcome>],
) -> Vec<(usize, Outgoing)> {
    let mut prepared = Vec::with_capacity(batch.len());
    for (place, lease) in batch.iter().enumerate() {
        let hopeless = match outgoing(lease) {
            Ok(message) if !publisher::fits(&message, frame_max) => {
                let text = format!("its headers do not fit a frame of {frame_max} bytes");
                Reason::new("too-large", text)
            }
            Ok(message) => {
                prepared.push((place, message));
                continue;
            }
            Err(reason) => reason,
        };
        outcomes[place] = Some(Err(NotReleased::Hopeless(hopeless)));
    }
    prepared
}
