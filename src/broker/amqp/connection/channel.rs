//! One channel: its calls, what it hands over to be written, and what the reader hears for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, channel, constants};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::writer::Chunk;
use super::{End, Heard, RawError, RawFrame, Role, Shared, encode};
use crate::broker::amqp::link::ANSWER_WITHIN;

/// A channel that is open; dropped, it is closed.
pub(in super::super) struct Channel<R: Role> {
    number: u16,
    state: Arc<State<R>>,
    shared: Arc<Shared<R>>,
    frame_max: usize,
}

/// What the reader hears for a channel, and whoever uses it waits for.
pub(in super::super) struct State<R> {
    inner: Mutex<Inner<R>>,
    changed: Notify,
}

pub(in super::super) struct Inner<R> {
    pub(in super::super) role: R,
    /// The answer to the one call under way.
    reply: Option<AMQPClass>,
    pub(in super::super) end: Option<End>,
}

impl<R: Role> Channel<R> {
    pub(super) fn new(
        number: u16,
        state: Arc<State<R>>,
        shared: Arc<Shared<R>>,
        frame_max: usize,
    ) -> Self {
        Self { number, state, shared, frame_max }
    }

    pub(in super::super) fn number(&self) -> u16 {
        self.number
    }

    /// The largest frame that was agreed, in bytes.
    pub(in super::super) fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// What was heard for it.
    pub(in super::super) fn state(&self) -> &State<R> {
        &self.state
    }

    /// Whether it can be used.
    pub(in super::super) fn is_open(&self) -> bool {
        !self.state.is_over()
    }

    /// Hands over whole frames of this channel to be written, and is told at `written` when they
    /// were; false when the channel ended meanwhile.
    pub(in super::super) async fn send(
        &self,
        bytes: Vec<u8>,
        written: Option<oneshot::Sender<()>>,
    ) -> bool {
        let chunk = Chunk { bytes, channel: Arc::clone(&self.state), written };
        self.shared.chunks.send(chunk).await.is_ok() && self.is_open()
    }

    /// Asks the broker for something and gives its answer. One call at a time.
    ///
    /// # Errors
    /// Why it was not answered as it should be; `what` begins the text.
    pub(in super::super) async fn call(
        &self,
        what: &str,
        request: AMQPClass,
    ) -> Result<AMQPClass, String> {
        // In AMQP each answer's number is the one after its request's.
        let awaited = (request.get_amqp_class_id(), request.get_amqp_method_id() + 1);
        self.shared.control(self.number, request);
        let reply = self.state.wait(|inner| inner.reply.take());
        match timeout(ANSWER_WITHIN, reply).await {
            Err(_) => Err(format!("{what}: no answer in {} s", ANSWER_WITHIN.as_secs())),
            Ok(None) => Err(format!("{what}: {}", self.state.why_over())),
            Ok(Some(reply)) => {
                let got = (reply.get_amqp_class_id(), reply.get_amqp_method_id());
                if got == awaited { Ok(reply) } else { Err(format!("{what}: answered by {got:?}")) }
            }
        }
    }

    /// Closes it, and waits for the broker to have dealt with all that was written before.
    pub(in super::super) async fn close(self) {
        let closing = async {
            // In turn with what was handed over before: the broker takes nothing after it.
            let frame = encode(&AMQPFrame::Method(self.number, goodbye())).unwrap_or_default();
            if self.send(frame, None).await {
                self.state.wait(|_| None::<()>).await;
            }
        };
        if timeout(ANSWER_WITHIN, closing).await.is_err() {
            // It was said once, which is enough.
            self.shared.forget(self.number);
        }
    }
}

impl<R: Role> Drop for Channel<R> {
    fn drop(&mut self) {
        let was_closed = self.state.inner().end.replace(End::Late);
        // Twice would be an error, and so would be a close of what the broker has closed.
        let is_known = self.shared.state_of(self.number);
        let is_known = is_known.is_some_and(|state| Arc::ptr_eq(&state, &self.state));
        if is_known && matches!(was_closed, None | Some(End::Late)) {
            self.shared.control(self.number, goodbye());
        }
    }
}

fn goodbye() -> AMQPClass {
    let close = channel::Close {
        reply_code: constants::REPLY_SUCCESS,
        reply_text: "bye".into(),
        ..channel::Close::default()
    };
    AMQPClass::Channel(channel::AMQPMethod::Close(close))
}

impl<R: Role> Default for State<R> {
    fn default() -> Self {
        let inner = Inner { role: R::default(), reply: None, end: None };
        Self { inner: Mutex::new(inner), changed: Notify::new() }
    }
}

impl<R: Role> State<R> {
    /// Nothing more is heard on it, and nothing more is written to it.
    pub(in super::super) fn end(&self, end: End) {
        self.inner().end.get_or_insert(end);
        self.announce();
    }

    pub(in super::super) fn is_over(&self) -> bool {
        self.inner().end.is_some()
    }

    /// Why it is over, for people.
    pub(in super::super) fn why_over(&self) -> String {
        match self.inner().end.clone() {
            Some(End::Refused(refusal)) => refusal.to_string(),
            Some(End::Lost(why)) => why,
            Some(End::Late) | None => "the channel was given up".to_owned(),
        }
    }

    /// Takes in a frame; whether somebody may wait for it.
    pub(super) fn hear(&self, frame: &RawFrame) -> Result<bool, RawError> {
        let mut inner = self.inner();
        if inner.end.is_some() {
            return Ok(false);
        }
        Ok(match inner.role.hear(frame)? {
            Heard::Nothing => false,
            Heard::News => true,
            Heard::Answer(reply) => {
                inner.reply = Some(reply);
                true
            }
        })
    }

    /// A call was answered.
    pub(super) fn reply(&self, reply: AMQPClass) {
        self.inner().reply = Some(reply);
        self.announce();
    }

    /// Wakes whoever waits.
    pub(super) fn announce(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until there is something; `None` when the channel ended first.
    pub(in super::super) async fn wait<T>(
        &self,
        mut look: impl FnMut(&mut Inner<R>) -> Option<T>,
    ) -> Option<T> {
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

    pub(in super::super) fn inner(&self) -> MutexGuard<'_, Inner<R>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
