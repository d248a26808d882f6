//! Loop 3: gives back the messages of holders that are gone.
//!
//! Every replica does it, every quarter of a lease, always: not only at start, without a leader
//! and without a lock. Only leases that ran out by the store's clock are touched, and a holder
//! that comes back to life finds its tickets worthless.

use std::sync::Arc;
use std::time::Duration;

use crate::crash::{self, Point};
use crate::destinations::Destinations;
use crate::message::{Destination, Reason};
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::store::{Recovery, Store};

/// A look that gave back so many has probably left some: look again at once.
const FULL: u64 = 500;

/// Watches over the leases of all destinations.
pub struct RecoverLoop {
    /// Where the leases are.
    pub store: Arc<dyn Store>,
    /// `release.lease`
    pub lease: Duration,
    /// Those to watch, rung when something was given back.
    pub destinations: Arc<Destinations>,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

impl RecoverLoop {
    /// Runs until shutdown.
    pub async fn run(self, mut shutdown: Shutdown) {
        loop {
            // Also those that another replica met, and may not live to release.
            if let Err(error) = self.destinations.open_all(&[]).await {
                tracing::debug!(%error, "cannot look for new destinations");
            }
            for destination in self.destinations.all() {
                while self.run_once(&destination).await.recovered >= FULL {}
            }
            tokio::select! {
                () = tokio::time::sleep(self.lease / 4) => {}
                () = shutdown.requested() => return,
            }
        }
    }

    /// Looks once. A store that does not answer is looked at again next time: whoever releases
    /// says that it is away.
    pub async fn run_once(&self, destination: &Destination) -> Recovery {
        let recovery = match self.store.recover(destination).await {
            Ok(recovery) => recovery,
            Err(error) => {
                tracing::debug!(%destination, %error, "cannot look for lost leases");
                return Recovery::default();
            }
        };
        let metrics = self.metrics.of(destination);
        metrics.recovered(recovery.recovered);
        if recovery.buried > 0 {
            let reason = Reason::new("crash", "its holders were lost");
            metrics.buried_by_store(reason.label(), recovery.buried);
            tracing::warn!(%destination, buried = recovery.buried, "buried what ended its holders");
        }
        if recovery.recovered > 0 {
            crash::pass(Point::RecoveredUnannounced);
            tracing::info!(%destination, recovered = recovery.recovered, "took over from a lost holder");
            if let Some(alarm) = self.destinations.alarm(destination) {
                alarm.ring();
            }
        }
        recovery
    }
}
