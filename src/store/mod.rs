//! The seam to where messages are parked.
//!
//! The loops know a [`Store`] and nothing of Redis. A store keeps three promises that the types
//! here carry to the rest of the house:
//!
//! 1. A [`Parked`] or [`Buried`] exists only when what it proves is as durable as the operator
//!    asked for. A capture can be acked with nothing less (see [`crate::broker::Receipt::ack`]).
//! 2. A message leaves the store only by [`Store::settle`], for a [`Released`] that the broker
//!    gave, or because its producer replaced or cancelled it.
//! 3. A [`Ticket`] is good for one holder and one use. It moves, is never cloned, and a ticket
//!    whose lease went to another changes nothing. One that is dropped only lets its lease expire.
//!
//! ```compile_fail,E0423
//! // A proof cannot be made outside the store:
//! let proof = xdelay::store::Parked(xdelay::message::Uid::fresh());
//! ```
//! ```compile_fail,E0624
//! let proof = xdelay::store::Parked::new(xdelay::message::Uid::fresh());
//! ```
//! ```compile_fail,E0624
//! let proof = xdelay::store::Buried::new(xdelay::message::Uid::fresh());
//! ```
//! ```compile_fail,E0308
//! // Settling takes the broker's word, not the store's own:
//! # use xdelay::{message::Destination, store::{Buried, Store, Ticket}};
//! async fn settle(store: &dyn Store, to: &Destination, ticket: Ticket, proof: Buried) {
//!     let _ = store.settle(to, vec![(ticket, proof)]).await;
//! }
//! ```
//! ```compile_fail,E0382
//! // One ticket, one use:
//! # use xdelay::{broker::Released, message::{Destination, Reason}, store::{Store, Ticket}};
//! async fn twice(store: &dyn Store, to: &Destination, ticket: Ticket, proof: Released) {
//!     let _ = store.settle(to, vec![(ticket, proof)]).await;
//!     let _ = store.bury(to, vec![(ticket, Reason::new("twice", "again"))]).await;
//! }
//! ```
//! ```compile_fail,E0599
//! // A ticket is never cloned:
//! fn copy(ticket: &xdelay::store::Ticket) -> xdelay::store::Ticket { ticket.clone() }
//! ```
//! ```compile_fail,E0382
//! // One release settles one ticket:
//! # use xdelay::{broker::Released, message::Destination, store::{Store, Ticket}};
//! async fn both(store: &dyn Store, to: &Destination, a: Ticket, b: Ticket, proof: Released) {
//!     let _ = store.settle(to, vec![(a, proof), (b, proof)]).await;
//! }
//! ```
//! ```compile_fail
//! // And a claim that nobody looks at does not pass unseen:
//! #![deny(unused_must_use)]
//! # use std::time::Duration;
//! # use xdelay::{message::Destination, store::{Limit, Store}};
//! async fn forget(store: &dyn Store, to: &Destination, limit: Limit) {
//!     store.claim(to, limit).await;
//! }
//! ```

pub mod embedded;
mod entry;
mod envelope;
#[cfg(any(test, feature = "test-support"))]
pub mod fuzz;
mod lease;
mod mark;
#[cfg(any(test, feature = "test-support"))]
pub mod packing;
mod proof;
pub mod redis;
mod steer;
pub mod transfer;

use std::time::Duration;

use async_trait::async_trait;

pub use entry::{Author, Entry, NOT_YOURS, Outcome, Parking, Parkings};
pub use envelope::{Fault, Head};
pub use lease::{Claim, Lease, Postponed, Ticket, Unreadable};
pub use mark::{Mark, Origin, Stand};
pub use proof::{Buried, Parked, Secured};
pub use steer::{Found, Handle, Listing, Name, Place, Seen, Start, State, Steer, Steered, Step};

use crate::broker::Released;
use crate::clock::UnixMs;
use crate::finding::Finding;
use crate::message::{BrokerKind, Destination, Reason};

/// How often a lease may run out before its message is claimed alone. When it runs out once more
/// the message itself is what ends its holders, and it is buried.
pub const EXPIRIES_BEFORE_ALONE: u32 = 3;

/// Upper bounds, in milliseconds, by which a census sorts the backlog by time to due.
pub const DUE_IN_BOUNDS_MS: [u64; 7] =
    [1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000, 604_800_000];

/// Where messages are parked until they are due.
///
/// Every call is bounded in time and safe to repeat: one whose answer was lost has happened or
/// has not, and doing it again makes no difference. All methods fail with [`Error`] alone, which
/// is never the fault of a message.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Makes a destination known, so that what is parked for it is found after a restart even
    /// when it is no longer in the configuration.
    async fn open(&self, destination: &Destination) -> Result<(), Error>;

    /// Every destination ever opened.
    async fn destinations(&self) -> Result<Vec<Destination>, Error>;

    /// Binds this namespace to one broker, at the first call for good.
    ///
    /// # Errors
    /// [`Error::Foreign`] when it is bound to another: its messages must not end up here.
    async fn bind(&self, broker: BrokerKind, identity: &str) -> Result<(), Error>;

    /// Applies a batch in order and as durably as configured; answers for each entry in turn.
    async fn park(&self, destination: &Destination, batch: &[Entry]) -> Result<Parkings, Error> {
        self.park_read(destination, batch, &[]).await
    }

    /// The same for a batch that was read from logs: with it the mark of each log moves. `origins`
    /// says where each entry was read; it is empty for a batch that comes from no log. An entry
    /// before its log's mark is known, whatever became of it since.
    ///
    /// # Errors
    /// [`Error::Moved`] when a mark is not where the reader believed it to be; then nothing has
    /// changed.
    async fn park_read(
        &self,
        destination: &Destination,
        batch: &[Entry],
        origins: &[Origin],
    ) -> Result<Parkings, Error>;

    /// How far a log was parked: the lowest of its marks, `None` when one is missing.
    async fn mark(&self, destination: &Destination, log: u32) -> Result<Option<Mark>, Error>;

    /// Puts all marks of a log here, wherever they are. For its only reader, before it begins.
    async fn set_mark(&self, destination: &Destination, log: u32, mark: Mark) -> Result<(), Error>;

    /// Leases what is due by the store's clock, earliest first.
    async fn claim(&self, destination: &Destination, limit: Limit) -> Result<Claim, Error>;

    /// Removes messages whose release was confirmed. Answers how many it still held: a missing
    /// one was replaced, cancelled or taken over meanwhile, which is no error.
    async fn settle(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Released)>,
    ) -> Result<usize, NotDone<(Ticket, Released)>>;

    /// Gives back messages that were not released.
    async fn postpone(
        &self,
        destination: &Destination,
        batch: Vec<Postponed>,
    ) -> Result<usize, NotDone<Postponed>>;

    /// Keeps messages that cannot be released as dead.
    async fn bury(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Reason)>,
    ) -> Result<usize, NotDone<(Ticket, Reason)>>;

    /// Gives back messages whose lease ran out.
    async fn recover(&self, destination: &Destination) -> Result<Recovery, Error>;

    /// Counts what is there, at a cost that does not grow with the backlog.
    async fn census(&self, destination: &Destination) -> Result<Census, Error>;

    /// Looks at the store's version and settings against the durability asked for.
    async fn check(&self) -> Vec<Finding>;
}

/// How much one claim may take.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Most messages.
    pub messages: usize,
    /// Most bytes; a single message may exceed it.
    pub bytes: u64,
    /// How long the lease is.
    pub lease: Duration,
    /// Whether a message that is to be claimed alone may be taken: nothing else is in hand.
    pub alone: bool,
}

/// What [`Store::recover`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Given back to be claimed again.
    pub recovered: u64,
    /// Buried, since they ended every holder they had.
    pub buried: u64,
}

/// What a destination has in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// The store's clock.
    pub now: UnixMs,
    /// Waiting for their due.
    pub parked: u64,
    /// Held by a replica.
    pub leased: u64,
    /// Buried.
    pub dead: u64,
    /// Parked although they may be tried: their due has come, and so has the next try of what failed.
    pub overdue: u64,
    /// An operator holds its releases back.
    pub paused: bool,
    /// When the first parked one may be tried; long ago, it should have been.
    pub next: Option<UnixMs>,
    /// Parked with at most [`DUE_IN_BOUNDS_MS`] to go, bound by bound, cumulative.
    pub due_within: [u64; DUE_IN_BOUNDS_MS.len()],
}

/// Why a store did not answer. Never a message's fault: wait, and try again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, or cannot serve for now.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// It answered, but not as durably as configured.
    #[error("{0}")]
    NotDurable(String),
    /// The namespace belongs to another broker or was laid out otherwise.
    #[error("{0}")]
    Foreign(String),
    /// Marks are not where the reader of a log believed them to be: it must read from there.
    #[error("the store is not where the reader of a log believed it to be")]
    Moved(Vec<Stand>),
    /// It answered something this version does not understand.
    #[error("the store gave an answer that is not understood: {0}")]
    Garbled(String),
}

/// A batch that may not have been applied, given back so that it can be tried again.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct NotDone<T: std::fmt::Debug> {
    /// Why.
    pub source: Error,
    /// All of the batch.
    pub batch: Vec<T>,
}
