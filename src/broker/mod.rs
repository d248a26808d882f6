//! The seam to where messages come from and go to.
//!
//! The loops know a [`Broker`] and nothing of AMQP. It hands out [`Delivery`]s, each with a
//! [`Receipt`], and takes batches to release, for each of which it answers with a [`Released`] or
//! says why not. Prefetch, delivery tags, channels and offsets are each adapter's own secret.
//!
//! Reconnecting is the adapter's business too: neither intake nor release ever ends because a
//! connection did. And the two laws hold by type: [`Receipt::ack`] needs a proof that only the
//! store or a broker can make, and only a broker can make a [`Released`].
//!
//! ```compile_fail,E0061
//! // No ack without a proof:
//! fn ack(receipt: xdelay::broker::Receipt) { receipt.ack(); }
//! ```
//! ```compile_fail,E0382
//! // No second ack:
//! # use xdelay::{broker::Receipt, store::Secured};
//! fn twice(receipt: Receipt, one: Secured, two: Secured) {
//!     receipt.ack(one);
//!     receipt.ack(two);
//! }
//! ```
//! ```compile_fail,E0599
//! // A receipt is never cloned:
//! fn copy(receipt: &xdelay::broker::Receipt) -> xdelay::broker::Receipt { receipt.clone() }
//! ```
//! ```compile_fail,E0624
//! // Nobody but a broker says that something was released:
//! let proof = xdelay::broker::Released::confirmed(xdelay::message::Uid::fresh());
//! ```
//! ```compile_fail,E0624
//! // Nor can a receipt be made up:
//! # use std::sync::Arc;
//! fn forge(ledger: Arc<dyn xdelay::broker::Ledger>) -> xdelay::broker::Receipt {
//!     xdelay::broker::Receipt::new(xdelay::message::Uid::fresh(), ledger, 1)
//! }
//! ```

pub mod amqp;
pub mod kafka;
#[cfg(any(test, feature = "test-support"))]
pub mod memory;
pub mod portrait;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::delay::Wish;
use crate::finding::Finding;
use crate::message::{BrokerKind, Content, Destination, Reason, Uid};
use crate::store::{Lease, Origin, Secured};

/// A message broker that xdelay stands beside.
#[async_trait]
pub trait Broker: Send + Sync + 'static {
    /// Which kind it is.
    fn kind(&self) -> BrokerKind;

    /// What it captures for, by configuration.
    fn destinations(&self) -> Vec<Destination>;

    /// What tells this broker from others: where messages were captured, they must be released.
    ///
    /// # Errors
    /// Why it cannot be told now.
    async fn identity(&self) -> Result<String, String>;

    /// Begins to take captured messages.
    async fn intake(&self) -> Box<dyn Intake>;

    /// Publishes a batch to `destination` and answers for each lease in turn, at the latest soon
    /// after `deadline`. What was not confirmed by then counts as not released.
    async fn release(
        &self,
        destination: &Destination,
        batch: &[Lease],
        deadline: Instant,
    ) -> Vec<Result<Released, NotReleased>>;

    /// Looks at connections, rights, topology and versions.
    async fn check(&self) -> Vec<Finding>;

    /// Ends its connections.
    async fn close(&self);
}

/// Captured messages as they come in.
#[async_trait]
pub trait Intake: Send {
    /// The next ones, in order for each destination; waits until there is one, through any
    /// outage. `None` after [`stop`](Self::stop), once all were handed out. Cancel-safe.
    async fn next(&mut self) -> Option<Vec<Delivery>>;

    /// Takes no more from the broker. Receipts already handed out can still be acked.
    async fn stop(&mut self);

    /// Waits until every ack given so far is written to the broker, or cannot be any more.
    async fn flush(&mut self);
}

/// One captured message.
#[derive(Debug)]
#[must_use = "a delivery that is dropped stays unacked"]
pub struct Delivery {
    /// Where it was bound for, by the queue or topic it was captured on.
    pub destination: Destination,
    /// Its name from here on.
    pub uid: Uid,
    /// Its bytes.
    pub content: Content,
    /// AMQP priority, 0 where there is none.
    pub priority: u8,
    /// What its producer asked for, or why that cannot be read.
    pub wish: Result<Wish, Reason>,
    /// The delay asked for, in milliseconds, for the header on release.
    pub delay_ms: Option<u64>,
    /// Where it was read, if it was read from a log.
    pub origin: Option<Origin>,
    /// To ack it by.
    pub receipt: Receipt,
}

/// The right to ack one capture, once.
#[derive(Debug)]
#[must_use = "a receipt that is dropped never acks"]
pub struct Receipt {
    uid: Uid,
    ledger: Arc<dyn Ledger>,
    number: u64,
}

/// Where an adapter keeps what was acked until the broker is told.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// The capture with this number is safe. Must not block.
    fn secured(&self, number: u64);

    /// The broker can no longer be told: it delivers again whatever was not acked.
    fn is_void(&self) -> bool;

    /// The store stands elsewhere in the log that the capture was read from: all that was handed
    /// out of it is void, and reading begins anew where the store stands. Must not block.
    fn moved(&self) {}
}

impl Receipt {
    pub(in crate::broker) fn new(uid: Uid, ledger: Arc<dyn Ledger>, number: u64) -> Self {
        Self { uid, ledger, number }
    }

    /// The broker has taken this delivery back and gives it to somebody else: whoever holds it
    /// should forget it. Parking it late would bring back what was cancelled meanwhile.
    pub fn is_void(&self) -> bool {
        self.ledger.is_void()
    }

    /// The store refused this capture, since it stands elsewhere in the log it was read from.
    pub fn moved(&self) {
        self.ledger.moved();
    }

    /// Tells the broker, soon and in order, that it may forget this message.
    ///
    /// # Panics
    /// When the proof is another message's: going on would ack what is not safe.
    pub fn ack(self, proof: Secured) {
        assert_eq!(&self.uid, proof.uid(), "a proof acks its own message");
        self.ledger.secured(self.number);
    }
}

/// The broker confirmed this message, and did not return it.
#[derive(Debug)]
#[must_use = "a release is settled with this"]
pub struct Released(Uid);

impl Released {
    pub(in crate::broker) fn confirmed(uid: Uid) -> Self {
        Self(uid)
    }

    /// Which message was released.
    pub fn uid(&self) -> &Uid {
        &self.0
    }
}

/// Why a message was not released, by what is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReleased {
    /// The broker refused this very message: postpone it, and count the attempt.
    Refused(Reason),
    /// It can never be released as it is: bury it.
    Hopeless(Reason),
    /// The destination takes nothing for now, whatever the message: wait, and count nothing.
    Waiting(Reason),
    /// Too little of its lease was left to try: claim it again, and count nothing.
    Late(Reason),
    /// It was published, but not confirmed in time: try it later, and count nothing. One queue
    /// without a majority can do this to its own messages alone.
    Unconfirmed(Reason),
}

impl NotReleased {
    /// Why, in words.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Refused(reason)
            | Self::Hopeless(reason)
            | Self::Waiting(reason)
            | Self::Late(reason)
            | Self::Unconfirmed(reason) => reason,
        }
    }
}
