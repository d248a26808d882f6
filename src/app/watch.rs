//! Looks at the store and the brokers from time to time, so that `/ready` also knows of what no
//! message has run into yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, ready};
use futures_util::stream::{StreamExt, iter};

use crate::broker::Broker;
use crate::dead::{self, DeadMax};
use crate::finding::{Finding, Grade};
use crate::health::Health;
use crate::shutdown::Shutdown;
use crate::store::Store;

/// Between two looks while something is bad, and while nothing is.
const LOOK_WHEN_BAD: Duration = Duration::from_secs(2);
const LOOK_WHEN_GOOD: Duration = Duration::from_secs(15);
/// Destinations that are counted at a time.
const AT_ONCE: usize = 8;

/// What is looked at.
pub struct Watched {
    pub(super) brokers: Vec<Arc<dyn Broker>>,
    pub(super) store: Arc<dyn Store>,
    pub(super) health: Arc<Health>,
    /// `release.dead_max`
    pub(super) dead_max: DeadMax,
}

impl Watched {
    /// Looks once.
    pub async fn look(&self) -> Vec<Finding> {
        let brokers = join_all(self.brokers.iter().map(|broker| broker.check()));
        let (mut findings, brokers, dead) =
            tokio::join!(self.store.check(), brokers, self.look_at_the_dead());
        findings.extend(brokers.into_iter().flatten());
        findings.extend(dead);
        findings
    }

    /// Whether a destination has too many. A store that does not answer says so itself.
    async fn look_at_the_dead(&self) -> Vec<Finding> {
        if self.dead_max.is_none() {
            return Vec::new();
        }
        let all = self.store.destinations().await.unwrap_or_default();
        let looks = all.into_iter().map(|destination| async move {
            let census = self.store.census(&destination).await.ok()?;
            dead::finding(self.dead_max, &destination, census.dead)
        });
        iter(looks).buffered(AT_ONCE).filter_map(ready).collect().await
    }
}

/// Looks until shutdown.
pub(super) async fn watch_health(watched: Watched, mut shutdown: Shutdown) {
    let mut before = BTreeSet::new();
    loop {
        let findings = watched.look().await;
        let bad = findings.iter().any(|finding| finding.grade == Grade::Bad);
        let subjects: BTreeSet<String> =
            findings.iter().map(|finding| finding.subject.clone()).collect();
        for gone in before.difference(&subjects) {
            watched.health.forget(gone);
        }
        before = subjects;
        for finding in findings {
            watched.health.report(finding);
        }
        tokio::select! {
            () = tokio::time::sleep(if bad { LOOK_WHEN_BAD } else { LOOK_WHEN_GOOD }) => {}
            () = shutdown.requested() => return,
        }
    }
}
