//! Every destination there is: configured, found in the store, or met on the way.
//!
//! Each is opened in the store before anything is parked for it, and each gets a release loop,
//! also one that is no longer configured: what was parked for it must still go out.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::alarm::Alarm;
use crate::message::Destination;
use crate::store::{Error, Store};

/// All destinations and the alarms of their release loops.
pub struct Destinations {
    store: Arc<dyn Store>,
    alarms: RwLock<BTreeMap<Destination, Arc<Alarm>>>,
    count: watch::Sender<usize>,
}

impl Destinations {
    /// None yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, alarms: RwLock::default(), count: watch::Sender::new(0) }
    }

    /// The alarm of a destination, which is opened in the store when it is new.
    ///
    /// # Errors
    /// When the store does not answer, or the namespace is not ours.
    pub async fn open(&self, destination: &Destination) -> Result<Arc<Alarm>, Error> {
        if let Some(alarm) = self.alarm(destination) {
            return Ok(alarm);
        }
        self.store.open(destination).await?;
        let mut alarms = self.alarms.write().unwrap_or_else(PoisonError::into_inner);
        let alarm = Arc::clone(alarms.entry(destination.clone()).or_default());
        self.count.send_replace(alarms.len());
        Ok(alarm)
    }

    /// Opens those configured and those that the store knows of.
    ///
    /// # Errors
    /// When the store does not answer, or the namespace is not ours.
    pub async fn open_all(&self, configured: &[Destination]) -> Result<(), Error> {
        for destination in configured {
            self.open(destination).await?;
        }
        for destination in self.store.destinations().await? {
            self.open(&destination).await?;
        }
        Ok(())
    }

    /// Those opened so far.
    pub fn all(&self) -> Vec<Destination> {
        let alarms = self.alarms.read().unwrap_or_else(PoisonError::into_inner);
        alarms.keys().cloned().collect()
    }

    /// The alarm of one that was opened.
    pub fn alarm(&self, destination: &Destination) -> Option<Arc<Alarm>> {
        let alarms = self.alarms.read().unwrap_or_else(PoisonError::into_inner);
        alarms.get(destination).cloned()
    }

    /// Changes whenever there is one more.
    pub fn watch(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }
}
