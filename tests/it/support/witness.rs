//! A store that writes down what becomes of every message, for the invariants.
//!
//! It looks before and after each call, so nothing else may change the same messages in between: a test
//! uses it one call at a time, or on a store that applies each call at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use xdelay::broker::Released;
use xdelay::clock::WallClock;
use xdelay::finding::Finding;
use xdelay::message::{BrokerKind, Destination, Message, ProducerId, Reason, Uid};
use xdelay::store::{
    Census, Claim, Entry, Error, Found, Handle, Limit, Listing, Mark, NOT_YOURS, Name, NotDone,
    Origin, Outcome, Parkings, Postponed, Recovery, Start, State, Steer, Steered, Step, Store,
    Ticket,
};

use super::body;
use super::invariants::{Count, Event, History};

/// What was seen, by all who look on.
#[derive(Debug, Default)]
pub struct Log {
    time: WallClock,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    history: History,
    names: HashMap<Uid, String>,
    /// Whom a producer's id stands for.
    holders: HashMap<ProducerId, Uid>,
    /// The last lease of each, while nothing has ended it.
    tokens: HashMap<Uid, String>,
}

impl Log {
    pub fn new(time: WallClock) -> Self {
        Self { time, inner: Mutex::default() }
    }

    pub fn now(&self) -> u64 {
        self.time.now()
    }

    /// Notes an event of a message by its name.
    pub fn note(&self, name: &str, event: Event) {
        let now = self.now();
        self.lock().history.note(name, now, event);
    }

    /// Notes one of a message by its uid.
    pub fn note_uid(&self, uid: &Uid, event: Event) {
        let (now, mut inner) = (self.now(), self.lock());
        let name = inner.names.get(uid).cloned().unwrap_or_else(|| uid.to_string());
        inner.history.note_of(&name, Some(&uid.to_string()), now, event);
    }

    /// From here on this uid is known to be this message's.
    pub fn call(&self, uid: &Uid, name: String) {
        self.lock().names.insert(uid.clone(), name);
    }

    /// Whose uid this is.
    pub fn name_of(&self, uid: &Uid) -> Option<String> {
        self.lock().names.get(uid).cloned()
    }

    pub fn count(&self, count: Count) {
        self.lock().history.count(count);
    }

    pub fn history(&self) -> History {
        self.lock().history.clone()
    }

    /// Looks at the history without a copy of it.
    pub fn look<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        look(&self.lock().history)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("not poisoned")
    }

    fn parked(&self, message: &Message, outcome: Outcome) {
        use Outcome::{Parked, Replaced, ReplacedLeased};
        let (Parked(due) | Replaced(due) | ReplacedLeased(due)) = outcome else { return };
        self.call(&message.uid, body(&message.content));
        if let Some(id) = &message.id {
            let before = self.lock().holders.insert(id.clone(), message.uid.clone());
            let certain = matches!(outcome, Replaced(_));
            if let Some(before) = before.filter(|_| !matches!(outcome, Parked(_))) {
                self.ended(&before, Event::Replaced { certain });
            }
        }
        self.note_uid(&message.uid, Event::Parked { due });
    }

    fn applied(&self, entry: &Entry, outcome: Outcome) {
        match entry {
            Entry::Park { message, .. } if outcome == Outcome::NotYours => {
                self.call(&message.uid, body(&message.content));
                self.note_uid(&message.uid, Event::Dead { reason: NOT_YOURS.to_owned() });
            }
            Entry::Park { message, .. } => self.parked(message, outcome),
            Entry::Bury { message, reason } => {
                self.call(&message.uid, body(&message.content));
                self.note_uid(&message.uid, Event::Dead { reason: reason.as_str().to_owned() });
            }
            Entry::Cancel { uid, id, .. } => {
                let certain = outcome == Outcome::Cancelled;
                let holder = self.lock().holders.get(id).cloned();
                if let Some(holder) =
                    holder.filter(|_| !matches!(outcome, Outcome::UnknownId | Outcome::NotYours))
                {
                    self.ended(&holder, Event::Cancelled { certain });
                }
                self.note_uid(uid, Event::Obeyed);
            }
        }
    }

    fn ended(&self, uid: &Uid, event: Event) {
        self.lock().tokens.remove(uid);
        self.note_uid(uid, event);
    }

    fn leased(&self, ticket: &Ticket) {
        self.lock().tokens.insert(ticket.uid().clone(), ticket.token().to_owned());
        self.note_uid(ticket.uid(), Event::Leased);
    }

    fn holds(&self, ticket: &Ticket) -> bool {
        self.lock().tokens.get(ticket.uid()).is_some_and(|token| token == ticket.token())
    }
}

/// The store and its log.
pub struct Witness {
    store: Arc<dyn Steer>,
    log: Arc<Log>,
}

/// A conclusion about to be written: of which message, whether by its holder, and where it is.
struct Concluded {
    uid: Uid,
    holds: bool,
    before: Option<State>,
}

impl Witness {
    pub fn new(store: Arc<dyn Steer>, log: Arc<Log>) -> Self {
        Self { store, log }
    }

    async fn state(&self, destination: &Destination, uid: &Uid) -> Option<State> {
        let found = self.store.find(destination, &Name::Uid(uid.clone())).await;
        found.expect("an answer").map(|found| found.seen.state)
    }

    async fn before(
        &self,
        destination: &Destination,
        tickets: impl Iterator<Item = (Uid, bool)>,
    ) -> Vec<Concluded> {
        let mut all = Vec::new();
        for (uid, holds) in tickets {
            let before = self.state(destination, &uid).await;
            all.push(Concluded { uid, holds, before });
        }
        all
    }

    async fn after(&self, destination: &Destination, all: Vec<Concluded>, event: Option<Event>) {
        // Its holder may have been given the same message again since.
        let held: Vec<Uid> = all.iter().filter(|it| it.holds).map(|it| it.uid.clone()).collect();
        for Concluded { uid, holds, before } in all {
            if !holds && held.contains(&uid) {
                continue;
            }
            if self.state(destination, &uid).await == before {
                continue;
            }
            match (&event, holds) {
                (Some(event), true) => self.log.ended(&uid, event.clone()),
                (None, true) => drop(self.log.lock().tokens.remove(&uid)),
                (_, false) => self.log.note_uid(&uid, Event::TouchedByOldToken),
            }
        }
    }

    /// The time of the first message in a state: cheaper to ask for than a census.
    pub async fn first(&self, destination: &Destination, state: State) -> Option<u64> {
        let listing = self.store.list(destination, state, Start::At(0), 1).await;
        listing.expect("a listing").seen.first().map(|seen| seen.at)
    }

    /// Notes all that is left, and whether the store knows how much that is.
    pub async fn take_stock(&self, destination: &Destination) {
        let census = self.store.census(destination).await.expect("a census");
        let told = [census.parked, census.leased, census.dead];
        for (state, told) in State::ALL.into_iter().zip(told) {
            let listing = self.store.list(destination, state, Start::At(0), 500).await;
            let seen = listing.expect("a listing").seen;
            for seen in &seen {
                let found = self.store.find(destination, &Name::Uid(seen.uid.clone())).await;
                let whole = found.expect("an answer").is_some_and(|found| found.message.is_ok());
                self.log.note_uid(&seen.uid, Event::Left { state, whole });
            }
            self.log.count(Count { state, told, found: seen.len() as u64 });
        }
    }
}

#[async_trait]
impl Store for Witness {
    async fn open(&self, destination: &Destination) -> Result<(), Error> {
        self.store.open(destination).await
    }

    async fn destinations(&self) -> Result<Vec<Destination>, Error> {
        self.store.destinations().await
    }

    async fn bind(&self, broker: BrokerKind, identity: &str) -> Result<(), Error> {
        self.store.bind(broker, identity).await
    }

    async fn park_read(
        &self,
        destination: &Destination,
        batch: &[Entry],
        origins: &[Origin],
    ) -> Result<Parkings, Error> {
        let parkings = self.store.park_read(destination, batch, origins).await?;
        for (entry, parking) in batch.iter().zip(&parkings.entries) {
            self.log.applied(entry, parking.outcome);
        }
        Ok(parkings)
    }

    async fn mark(&self, destination: &Destination, log: u32) -> Result<Option<Mark>, Error> {
        self.store.mark(destination, log).await
    }

    async fn set_mark(&self, destination: &Destination, log: u32, mark: Mark) -> Result<(), Error> {
        self.store.set_mark(destination, log, mark).await
    }

    async fn claim(&self, destination: &Destination, limit: Limit) -> Result<Claim, Error> {
        let claim = self.store.claim(destination, limit).await?;
        let leases = claim.leases.iter().map(|lease| lease.ticket());
        leases
            .chain(claim.unreadable.iter().map(|it| &it.ticket))
            .for_each(|it| self.log.leased(it));
        Ok(claim)
    }

    async fn settle(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Released)>,
    ) -> Result<usize, NotDone<(Ticket, Released)>> {
        let all = batch.iter().map(|(it, _)| (it.uid().clone(), self.log.holds(it)));
        let all = self.before(destination, all).await;
        let answer = self.store.settle(destination, batch).await;
        self.after(destination, all, Some(Event::Settled)).await;
        answer
    }

    async fn postpone(
        &self,
        destination: &Destination,
        batch: Vec<Postponed>,
    ) -> Result<usize, NotDone<Postponed>> {
        let all = batch.iter().map(|it| (it.ticket.uid().clone(), self.log.holds(&it.ticket)));
        let all = self.before(destination, all).await;
        let answer = self.store.postpone(destination, batch).await;
        self.after(destination, all, None).await;
        answer
    }

    async fn bury(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Reason)>,
    ) -> Result<usize, NotDone<(Ticket, Reason)>> {
        let all = batch.iter().map(|(it, _)| (it.uid().clone(), self.log.holds(it)));
        let all = self.before(destination, all).await;
        let reason = batch.first().map_or(String::new(), |(_, reason)| reason.to_string());
        let answer = self.store.bury(destination, batch).await;
        self.after(destination, all, Some(Event::Dead { reason })).await;
        answer
    }

    async fn recover(&self, destination: &Destination) -> Result<Recovery, Error> {
        let leased: Vec<Uid> = self.log.lock().tokens.keys().cloned().collect();
        let recovery = self.store.recover(destination).await?;
        for uid in leased {
            let state = self.state(destination, &uid).await;
            if state == Some(State::Dead) {
                let reason = "it ended its holders".to_owned();
                self.log.ended(&uid, Event::Dead { reason });
            } else if state != Some(State::Leased) {
                self.log.lock().tokens.remove(&uid);
            }
        }
        Ok(recovery)
    }

    async fn census(&self, destination: &Destination) -> Result<Census, Error> {
        self.store.census(destination).await
    }

    async fn check(&self) -> Vec<Finding> {
        self.store.check().await
    }
}

#[async_trait]
impl Steer for Witness {
    async fn list(
        &self,
        destination: &Destination,
        state: State,
        start: Start,
        most: usize,
    ) -> Result<Listing, Error> {
        self.store.list(destination, state, start, most).await
    }

    async fn find(&self, destination: &Destination, name: &Name) -> Result<Option<Found>, Error> {
        self.store.find(destination, name).await
    }

    async fn steer(
        &self,
        destination: &Destination,
        step: &Step,
        whom: &[Handle],
    ) -> Result<Vec<Steered>, Error> {
        let steered = self.store.steer(destination, step, whom).await?;
        for (handle, steered) in whom.iter().zip(&steered) {
            match steered {
                Steered::Cancelled => {
                    self.log.ended(handle.uid(), Event::Cancelled { certain: true });
                }
                Steered::CancelledLeased => {
                    self.log.ended(handle.uid(), Event::Cancelled { certain: false });
                }
                Steered::Rescheduled(due) => {
                    self.log.note_uid(handle.uid(), Event::Rescheduled { due: *due });
                }
                Steered::Buried => {
                    let reason = "an operator wanted it so".to_owned();
                    self.log.note_uid(handle.uid(), Event::Dead { reason });
                }
                _ => {}
            }
        }
        Ok(steered)
    }

    async fn restore(
        &self,
        destination: &Destination,
        whom: &Handle,
        attempts: u32,
    ) -> Result<bool, Error> {
        self.store.restore(destination, whom, attempts).await
    }

    async fn backlog(&self, destination: &Destination, until: &[u64]) -> Result<Vec<u64>, Error> {
        self.store.backlog(destination, until).await
    }

    async fn pause(&self, destination: &Destination, paused: bool) -> Result<(), Error> {
        self.store.pause(destination, paused).await
    }
}
