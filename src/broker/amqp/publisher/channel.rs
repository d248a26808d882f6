//! Batches on a channel in confirm mode.

use std::time::Instant;

use tokio::time::timeout_at;

use super::{Channel, Confirming, Heard, frames};
use crate::broker::amqp::connection::{End, State};
use crate::broker::amqp::outgoing::Outgoing;

/// Bytes that are written at once. A chunk holds whole messages.
const CHUNK_BYTES: usize = 64 * 1024;

impl Channel {
    /// Publishes a batch and hears what the broker says, at the latest until `deadline`. All is
    /// heard, or the channel is of no more use.
    pub(in super::super) async fn publish(
        &self,
        exchange: &str,
        batch: &[Outgoing],
        deadline: Instant,
    ) -> Heard {
        self.state().inner().role.confirms.begin(batch.len());
        let hearing = async {
            if self.send_batch(exchange, batch).await {
                let is_complete = |role: &Confirming| role.confirms.are_complete().then_some(());
                self.state().wait(|inner| is_complete(&inner.role)).await;
            }
        };
        {
            let _given_up = GivenUp(self.state());
            let _ = timeout_at(deadline.into(), hearing).await;
        }
        let mut inner = self.state().inner();
        let end = if inner.role.confirms.are_complete() { None } else { inner.end.clone() };
        inner.role.confirms.take(end)
    }

    /// Hands whole messages to the writer; false when the channel ended meanwhile.
    async fn send_batch(&self, exchange: &str, batch: &[Outgoing]) -> bool {
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        for (place, message) in batch.iter().enumerate() {
            frames::publish(&mut bytes, self.number(), exchange, message, self.frame_max());
            let is_last = place + 1 == batch.len();
            if bytes.len() < CHUNK_BYTES && !is_last {
                continue;
            }
            let room = if is_last { 0 } else { CHUNK_BYTES };
            let chunk = std::mem::replace(&mut bytes, Vec::with_capacity(room));
            if !self.send(chunk, None).await {
                return false;
            }
        }
        true
    }
}

/// Ends a channel on which a batch is heard no further, unless all of it was: a guard, since whoever
/// waits for it may be dropped.
struct GivenUp<'a>(&'a State<Confirming>);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let is_heard_out = self.0.inner().role.confirms.are_complete();
        if !is_heard_out {
            self.0.end(End::Late);
        }
    }
}
