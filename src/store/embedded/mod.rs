//! The store in one file on this machine: no Redis needed.
//!
//! For a single xdelay. The file is held by one process at a time, so there is nobody to agree
//! with: every change is one transaction of one thread ([`writer`]), synced to disk before it is
//! answered, and the clock is this host's. The steps are those of the scripts in `lua/`, and the
//! contract suite holds both stores to the same promises.
//!
//! Leases outlive neither their process nor its file lock: whatever is leased when the file is
//! opened belonged to a holder that is gone, and is given back at once.

mod calendar;
mod claim;
mod conclude;
mod file;
mod page;
mod park;
mod record;
mod steer;
mod writer;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use self::conclude::Stub;
use self::file::Place;
use self::page::Page;
use self::record::Room;
use self::writer::Writer;
use super::mark::Stretches;
use super::{
    Census, Claim, DUE_IN_BOUNDS_MS, Entry, Error, Found, Handle, Limit, Listing, Mark, Name,
    NotDone, Origin, Parkings, Postponed, Recovery, Start, State, Steer, Steered, Step, Store,
    Ticket,
};
use crate::broker::Released;
use crate::clock::{StoreClock, UnixMs, WallClock, host_now, instant, millis};
use crate::crash::{self, Point};
use crate::finding::Finding;
use crate::message::{BrokerKind, Destination, ProducerId, Reason};

/// Most leases given back in one transaction.
const RECOVER_MAX: usize = 500;
/// Most messages of one listing.
const LIST_MAX: usize = 500;

/// Messages parked in a file.
pub struct EmbeddedStore {
    place: Arc<Place>,
    writer: Writer,
    time: WallClock,
    clock: Arc<StoreClock>,
    /// The answer to the next conclusion is lost.
    #[cfg(any(test, feature = "test-support"))]
    loses_answer: std::sync::atomic::AtomicBool,
}

impl EmbeddedStore {
    /// Opens the file in `directory`, which is made when it is not there.
    ///
    /// # Errors
    /// What is wrong with it, in words that say what to do: in use by another process, damaged,
    /// of a newer version, or not to be written.
    pub fn open(directory: &Path, clock: Arc<StoreClock>) -> Result<Self, Error> {
        let place = Arc::new(Place::take(directory)?);
        let database = place.open()?;
        let recovery =
            give_back_all(&database, host_now()).map_err(|error| place.in_words(&error))?;
        let Recovery { recovered, buried } = recovery;
        if recovery != Recovery::default() {
            crash::pass(Point::RecoveredUnannounced);
            tracing::warn!(recovered, buried, "the last process was lost with these in hand");
        }
        let writer = Writer::start(Arc::clone(&place), database)
            .map_err(|error| Error::Unavailable(format!("no thread for the store: {error}")))?;
        Ok(Self::new(place, writer, WallClock::Host, clock))
    }

    fn new(place: Arc<Place>, writer: Writer, time: WallClock, clock: Arc<StoreClock>) -> Self {
        Self {
            place,
            writer,
            time,
            clock,
            #[cfg(any(test, feature = "test-support"))]
            loses_answer: false.into(),
        }
    }

    /// One in memory, gone when dropped. It has no thread: each call is applied where it is made, at
    /// once, so that a simulation alone decides what happens when.
    ///
    /// # Errors
    /// When the tables cannot be made.
    #[cfg(any(test, feature = "test-support"))]
    pub fn in_memory(time: WallClock, clock: Arc<StoreClock>) -> Result<Self, Error> {
        let place = Arc::new(Place::Memory);
        let writer = Writer::without_thread(Arc::clone(&place), place.open()?);
        Ok(Self::new(place, writer, time, clock))
    }

    /// Applies the next settle, postpone or bury, and answers that it does not know.
    #[cfg(any(test, feature = "test-support"))]
    pub fn lose_next_answer(&self) {
        self.loses_answer.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    /// Gives the batch back when it may not have been applied.
    fn done<T: std::fmt::Debug>(
        &self,
        answer: Result<usize, Error>,
        batch: Vec<T>,
    ) -> Result<usize, NotDone<T>> {
        #[cfg(any(test, feature = "test-support"))]
        let answer = match self.loses_answer.swap(false, std::sync::atomic::Ordering::SeqCst) {
            true => Err(Error::Unavailable("the answer was lost".to_owned())),
            false => answer,
        };
        answer.map_err(|source| NotDone { source, batch })
    }

    /// Runs `apply` on the room of a destination, with the time.
    async fn on<T, F>(&self, destination: &Destination, apply: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Page<'_>, Room, UnixMs) -> Result<T, redb::Error> + Send + 'static,
    {
        let listed = destination.listing();
        let time = self.time;
        let answer = self.writer.call(move |page| {
            let room = page.room(&listed)?;
            apply(page, room, time.now())
        });
        let answer = answer.await?;
        self.clock.observe(time.now(), instant());
        Ok(answer)
    }
}

/// What was leased when the last process ended.
fn give_back_all(database: &redb::Database, now: UnixMs) -> Result<Recovery, redb::Error> {
    let mut sum = Recovery::default();
    let transaction = database.begin_write()?;
    let mut page = Page::open(&transaction)?;
    for room in page.all_rooms()? {
        loop {
            let found = claim::recover(&mut page, room, UnixMs::MAX, now, RECOVER_MAX)?;
            if found == Recovery::default() {
                break;
            }
            sum.recovered += found.recovered;
            sum.buried += found.buried;
        }
    }
    page.close()?;
    transaction.commit()?;
    Ok(sum)
}

/// What the thread that writes needs of a ticket. A token of another store holds nothing.
fn stub(ticket: &Ticket) -> Stub {
    Stub { uid: ticket.uid().as_bytes().to_vec(), token: ticket.token().parse().unwrap_or(0) }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn open(&self, destination: &Destination) -> Result<(), Error> {
        self.on(destination, |_, _, _| Ok(())).await
    }

    async fn destinations(&self) -> Result<Vec<Destination>, Error> {
        let listed = self.writer.call(|page| page.all_listings()).await?;
        let mut found: Vec<_> =
            listed.iter().filter_map(|text| Destination::from_listing(text)).collect();
        found.sort();
        Ok(found)
    }

    async fn bind(&self, broker: BrokerKind, identity: &str) -> Result<(), Error> {
        let field = format!("broker:{}", broker.as_str());
        let ours = identity.to_owned();
        let bound = self.writer.call(move |page| page.fix(&field, &ours)).await?;
        if bound == identity {
            return Ok(());
        }
        Err(Error::Foreign(format!(
            "{} parks for {bound}, and this broker is {identity}: name another store.path",
            self.place
        )))
    }

    async fn park_read(
        &self,
        destination: &Destination,
        batch: &[Entry],
        origins: &[Origin],
    ) -> Result<Parkings, Error> {
        let (entries, origins) = (batch.to_vec(), origins.to_vec());
        let applied = self.on(destination, move |page, room, now| {
            let mut stretches = Stretches::of(&origins);
            // What it learns is so within this transaction: the second time no mark is elsewhere.
            while let Err(stands) = park::move_marks(page, room, stretches.moves())? {
                if let Err(moved) = stretches.learn(&stands) {
                    return Ok(Err(moved));
                }
            }
            let is_known = |index| stretches.is_known(index);
            let applied = park::park(page, room, &entries, is_known, now)?;
            crash::pass(Point::ParkedUnanswered);
            Ok(Ok((applied, now + 1)))
        });
        let (applied, now) = applied.await??;
        crash::pass(Point::ParkedUnproven);
        Ok(Parkings::prove(batch, applied.outcomes, now, applied.earliest_due))
    }

    async fn mark(&self, destination: &Destination, log: u32) -> Result<Option<Mark>, Error> {
        self.on(destination, move |page, room, _| page.mark(room, log)).await
    }

    async fn set_mark(&self, destination: &Destination, log: u32, mark: Mark) -> Result<(), Error> {
        self.on(destination, move |page, room, _| page.set_mark(room, log, &mark)).await
    }

    async fn claim(&self, destination: &Destination, limit: Limit) -> Result<Claim, Error> {
        self.on(destination, move |page, room, now| claim::claim(page, room, limit, now)).await
    }

    async fn settle(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Released)>,
    ) -> Result<usize, NotDone<(Ticket, Released)>> {
        let stubs: Vec<_> = batch
            .iter()
            .map(|(ticket, released)| {
                assert_eq!(ticket.uid(), released.uid(), "a release settles its own ticket");
                (stub(ticket), ticket.id().cloned())
            })
            .collect();
        let answer = self.on(destination, move |page, room, _| {
            count(stubs, |(stub, id)| {
                conclude::settle(page, room, &stub, id.as_ref().map(ProducerId::as_str))
            })
        });
        let answer = answer.await;
        crash::pass(Point::SettledUnanswered);
        self.done(answer, batch)
    }

    async fn postpone(
        &self,
        destination: &Destination,
        batch: Vec<Postponed>,
    ) -> Result<usize, NotDone<Postponed>> {
        let stubs: Vec<_> =
            batch.iter().map(|it| (stub(&it.ticket), (millis(it.wait), it.counts))).collect();
        let answer = self.on(destination, move |page, room, now| {
            count(stubs, |(stub, how)| conclude::postpone(page, room, &stub, how, now))
        });
        self.done(answer.await, batch)
    }

    async fn bury(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Reason)>,
    ) -> Result<usize, NotDone<(Ticket, Reason)>> {
        let stubs: Vec<_> =
            batch.iter().map(|(ticket, reason)| (stub(ticket), reason.clone())).collect();
        let answer = self.on(destination, move |page, room, now| {
            count(stubs, |(stub, reason)| conclude::bury(page, room, &stub, reason.as_str(), now))
        });
        self.done(answer.await, batch)
    }

    async fn recover(&self, destination: &Destination) -> Result<Recovery, Error> {
        self.on(destination, |page, room, now| claim::recover(page, room, now, now, RECOVER_MAX))
            .await
    }

    async fn census(&self, destination: &Destination) -> Result<Census, Error> {
        self.on(destination, |page, room, now| {
            let [parked, leased, dead] = page.counts(room)?;
            let overdue = page.parked_until(room, now)?;
            let mut due_within = [0; DUE_IN_BOUNDS_MS.len()];
            for (within, bound) in due_within.iter_mut().zip(DUE_IN_BOUNDS_MS) {
                *within = page.parked_until(room, now + bound)?;
            }
            let paused = page.is_paused(room)?;
            let next = page.next_due(room)?;
            Ok(Census { now, parked, leased, dead, overdue, paused, next, due_within })
        })
        .await
    }

    async fn check(&self) -> Vec<Finding> {
        match self.writer.call(|page| page.all_listings()).await {
            Ok(_) => vec![Finding::good("store", format!("{}, synced on every write", self.place))],
            Err(error) => vec![Finding::bad("store", error.to_string())],
        }
    }
}

#[async_trait]
impl Steer for EmbeddedStore {
    async fn list(
        &self,
        destination: &Destination,
        state: State,
        start: Start,
        most: usize,
    ) -> Result<Listing, Error> {
        let most = most.clamp(1, LIST_MAX);
        self.on(destination, move |page, room, _| steer::list(page, room, state, &start, most))
            .await
    }

    async fn find(&self, destination: &Destination, name: &Name) -> Result<Option<Found>, Error> {
        let name = name.clone();
        self.on(destination, move |page, room, _| steer::find(page, room, &name)).await
    }

    async fn steer(
        &self,
        destination: &Destination,
        step: &Step,
        whom: &[Handle],
    ) -> Result<Vec<Steered>, Error> {
        let (step, whom) = (step.clone(), whom.to_vec());
        self.on(destination, move |page, room, now| {
            whom.iter().map(|handle| steer::steer(page, room, &step, handle, now)).collect()
        })
        .await
    }

    async fn restore(
        &self,
        destination: &Destination,
        whom: &Handle,
        attempts: u32,
    ) -> Result<bool, Error> {
        let whom = whom.clone();
        self.on(destination, move |page, room, _| steer::restore(page, room, &whom, attempts)).await
    }

    async fn backlog(
        &self,
        destination: &Destination,
        until: &[UnixMs],
    ) -> Result<Vec<u64>, Error> {
        let until = until.to_vec();
        self.on(destination, move |page, room, _| page.backlog(room, &until)).await
    }

    async fn pause(&self, destination: &Destination, paused: bool) -> Result<(), Error> {
        self.on(destination, move |page, room, _| page.pause(room, paused)).await
    }
}

/// How many of these were still held.
fn count<T>(
    of: Vec<T>,
    mut conclude: impl FnMut(T) -> Result<bool, redb::Error>,
) -> Result<usize, redb::Error> {
    of.into_iter().try_fold(0, |held, it| Ok(held + usize::from(conclude(it)?)))
}
