//! One channel in confirm mode: its calls, its batches, and what the reader heard of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use amq_protocol::protocol::{AMQPClass, channel, confirm, constants};
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};

use super::confirms::Confirms;
use super::writer::Chunk;
use super::{End, Heard, Shared, frames};
use crate::broker::amqp::link::ANSWER_WITHIN;
use crate::broker::amqp::outgoing::Outgoing;

/// Bytes that are written at once. A chunk holds whole messages.
const CHUNK_BYTES: usize = 64 * 1024;

/// A channel that is open; dropped, it is closed.
pub(in super::super) struct Channel {
    number: u16,
    state: Arc<State>,
    shared: Arc<Shared>,
    frame_max: usize,
}

/// What the reader hears for a channel, and whoever uses it waits for.
#[derive(Default)]
pub(super) struct State {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    confirms: Confirms,
    /// The answer to the one call under way.
    reply: Option<AMQPClass>,
    /// Why a message that is just coming back does.
    returning: Option<String>,
    end: Option<End>,
}

impl Channel {
    pub(super) async fn open(
        number: u16,
        state: Arc<State>,
        shared: Arc<Shared>,
        frame_max: usize,
    ) -> Result<Self, String> {
        let opened = Self { number, state, shared, frame_max };
        let open = AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}));
        opened.call("opening a channel", open).await?;
        let select = confirm::Select { nowait: false };
        let select = AMQPClass::Confirm(confirm::AMQPMethod::Select(select));
        opened.call("confirm.select", select).await?;
        Ok(opened)
    }

    /// Whether messages can be published on it.
    pub(in super::super) fn is_open(&self) -> bool {
        self.state.inner().end.is_none()
    }

    /// Publishes a batch and hears what the broker says, at the latest until `deadline`. All is
    /// heard, or the channel is of no more use.
    pub(in super::super) async fn publish(
        &self,
        exchange: &str,
        batch: &[Outgoing],
        deadline: Instant,
    ) -> Heard {
        self.state.inner().confirms.begin(batch.len());
        let hearing = async {
            if self.send(exchange, batch).await {
                self.state.wait(|inner| inner.confirms.are_complete().then_some(())).await;
            }
        };
        {
            let _given_up = GivenUp(&self.state);
            let _ = timeout_at(deadline.into(), hearing).await;
        }
        let mut inner = self.state.inner();
        let end = if inner.confirms.are_complete() { None } else { inner.end.clone() };
        inner.confirms.take(end)
    }

    /// Hands whole messages to the writer; false when the channel ended meanwhile.
    async fn send(&self, exchange: &str, batch: &[Outgoing]) -> bool {
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        for (place, message) in batch.iter().enumerate() {
            frames::publish(&mut bytes, self.number, exchange, message, self.frame_max);
            let is_last = place + 1 == batch.len();
            if bytes.len() < CHUNK_BYTES && !is_last {
                continue;
            }
            let room = if is_last { 0 } else { CHUNK_BYTES };
            let bytes = std::mem::replace(&mut bytes, Vec::with_capacity(room));
            let chunk = Chunk { bytes, channel: Arc::clone(&self.state) };
            if self.shared.chunks.send(chunk).await.is_err() || !self.is_open() {
                return false;
            }
        }
        true
    }

    async fn call(&self, what: &str, request: AMQPClass) -> Result<(), String> {
        // In AMQP each answer's number is the one after its request's.
        let awaited = (request.get_amqp_class_id(), request.get_amqp_method_id() + 1);
        self.shared.control(self.number, request);
        let reply = self.state.wait(|inner| inner.reply.take());
        match timeout(ANSWER_WITHIN, reply).await {
            Err(_) => Err(format!("{what}: no answer in {} s", ANSWER_WITHIN.as_secs())),
            Ok(None) => match self.state.inner().end.clone() {
                Some(End::Refused(refusal)) => Err(format!("{what}: {refusal}")),
                Some(End::Lost(why)) => Err(format!("{what}: {why}")),
                Some(End::Late) | None => Err(format!("{what}: the channel was given up")),
            },
            Ok(Some(reply)) => {
                let got = (reply.get_amqp_class_id(), reply.get_amqp_method_id());
                if got == awaited { Ok(()) } else { Err(format!("{what}: answered by {got:?}")) }
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let was_closed = self.state.inner().end.replace(End::Late);
        if matches!(was_closed, None | Some(End::Late)) {
            let close = channel::Close {
                reply_code: constants::REPLY_SUCCESS,
                reply_text: "bye".into(),
                ..channel::Close::default()
            };
            let close = AMQPClass::Channel(channel::AMQPMethod::Close(close));
            self.shared.control(self.number, close);
        }
    }
}

/// Ends a channel on which a batch is heard no further, unless all of it was: a guard, since whoever
/// waits for it may be dropped.
struct GivenUp<'a>(&'a State);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let is_heard_out = self.0.inner().confirms.are_complete();
        if !is_heard_out {
            self.0.end(End::Late);
        }
    }
}

impl State {
    /// Nothing more is heard on it, and nothing more is written to it.
    pub(super) fn end(&self, end: End) {
        self.inner().end.get_or_insert(end);
        self.changed.notify_waiters();
    }

    pub(super) fn is_over(&self) -> bool {
        self.inner().end.is_some()
    }

    /// A call was answered.
    pub(super) fn reply(&self, reply: AMQPClass) {
        self.inner().reply = Some(reply);
        self.changed.notify_waiters();
    }

    /// Messages were confirmed or refused.
    pub(super) fn confirms(&self, hear: impl FnOnce(&mut Confirms)) {
        let mut inner = self.inner();
        hear(&mut inner.confirms);
        let complete = inner.confirms.are_complete();
        drop(inner);
        if complete {
            self.changed.notify_waiters();
        }
    }

    /// A message begins to come back.
    pub(super) fn returning(&self, why: String) {
        self.inner().returning = Some(why);
    }

    /// Its uid was seen.
    pub(super) fn returned(&self, uid: String) {
        let mut inner = self.inner();
        if let Some(why) = inner.returning.take() {
            inner.confirms.returned(uid, why);
        }
    }

    /// Waits until there is something; `None` when the channel ended first.
    async fn wait<T>(&self, mut look: impl FnMut(&mut Inner) -> Option<T>) -> Option<T> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that no change in between is missed.
            changed.as_mut().enable();
            {
                let mut inner = self.inner();
                if let Some(found) = look(&mut inner) {
                    return Some(found);
                }
                if inner.end.is_some() {
                    return None;
                }
            }
            changed.await;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
