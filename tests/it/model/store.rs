//! The store as one replica sees it: behind a gate.

use std::sync::Arc;

use async_trait::async_trait;
use xdelay::broker::Released;
use xdelay::finding::Finding;
use xdelay::message::{BrokerKind, Destination, Reason};
use xdelay::store::embedded::EmbeddedStore;
use xdelay::store::{
    Census, Claim, Entry, Error, Limit, Mark, NotDone, Origin, Parkings, Postponed, Recovery,
    State, Store, Ticket,
};

use super::gate::{Gate, Passage};
use crate::support::witness::Witness;

pub struct GatedStore {
    pub witness: Arc<Witness>,
    /// The same store, to make it lose answers.
    pub embedded: Arc<EmbeddedStore>,
    pub gate: Gate,
}

fn away() -> Error {
    Error::Unavailable("the model wants it so".to_owned())
}

impl GatedStore {
    /// Meets the fate of a conclusion: the batch has to come back when its answer is lost.
    async fn conclude<T, F, W>(
        &self,
        call: &str,
        batch: Vec<T>,
        write: F,
    ) -> Result<usize, NotDone<T>>
    where
        T: std::fmt::Debug,
        F: FnOnce(Vec<T>) -> W,
        W: Future<Output = Result<usize, NotDone<T>>>,
    {
        let (passage, fate) = self.gate.enter(call).await;
        match passage {
            Passage::Refused => return Err(NotDone { source: away(), batch }),
            Passage::Unanswered => self.embedded.lose_next_answer(),
            Passage::Made => {}
        }
        let answer = write(batch).await;
        self.gate.leave(fate).await;
        answer
    }

    async fn pass<T>(
        &self,
        call: &str,
        made: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let (passage, fate) = self.gate.enter(call).await;
        if passage == Passage::Refused {
            return Err(away());
        }
        let answer = made.await;
        self.gate.leave(fate).await;
        if passage == Passage::Unanswered { Err(away()) } else { answer }
    }
}

#[async_trait]
impl Store for GatedStore {
    async fn open(&self, destination: &Destination) -> Result<(), Error> {
        self.witness.open(destination).await
    }

    async fn destinations(&self) -> Result<Vec<Destination>, Error> {
        self.witness.destinations().await
    }

    async fn bind(&self, broker: BrokerKind, identity: &str) -> Result<(), Error> {
        self.witness.bind(broker, identity).await
    }

    async fn park_read(
        &self,
        destination: &Destination,
        batch: &[Entry],
        origins: &[Origin],
    ) -> Result<Parkings, Error> {
        self.pass("park", self.witness.park_read(destination, batch, origins)).await
    }

    async fn mark(&self, destination: &Destination, log: u32) -> Result<Option<Mark>, Error> {
        self.witness.mark(destination, log).await
    }

    async fn set_mark(&self, destination: &Destination, log: u32, mark: Mark) -> Result<(), Error> {
        self.witness.set_mark(destination, log, mark).await
    }

    /// A look that finds nothing is no call worth a fate.
    async fn claim(&self, destination: &Destination, limit: Limit) -> Result<Claim, Error> {
        let first = self.witness.first(destination, State::Parked).await;
        if first.is_none_or(|at| at > self.gate.time.now()) {
            return self.witness.claim(destination, limit).await;
        }
        self.pass("claim", self.witness.claim(destination, limit)).await
    }

    async fn settle(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Released)>,
    ) -> Result<usize, NotDone<(Ticket, Released)>> {
        self.conclude("settle", batch, |batch| self.witness.settle(destination, batch)).await
    }

    async fn postpone(
        &self,
        destination: &Destination,
        batch: Vec<Postponed>,
    ) -> Result<usize, NotDone<Postponed>> {
        self.conclude("postpone", batch, |batch| self.witness.postpone(destination, batch)).await
    }

    async fn bury(
        &self,
        destination: &Destination,
        batch: Vec<(Ticket, Reason)>,
    ) -> Result<usize, NotDone<(Ticket, Reason)>> {
        self.conclude("bury", batch, |batch| self.witness.bury(destination, batch)).await
    }

    async fn recover(&self, destination: &Destination) -> Result<Recovery, Error> {
        if self.witness.first(destination, State::Leased).await.is_none() {
            return self.witness.recover(destination).await;
        }
        self.pass("recover", self.witness.recover(destination)).await
    }

    async fn census(&self, destination: &Destination) -> Result<Census, Error> {
        self.witness.census(destination).await
    }

    async fn check(&self) -> Vec<Finding> {
        self.witness.check().await
    }
}
