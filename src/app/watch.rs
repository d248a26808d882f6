//! Looks at the store and the broker from time to time, so that `/ready` also knows of what no
//! message has run into yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::finding::{Finding, Grade};
use crate::health::Health;
use crate::shutdown::Shutdown;
use crate::store::Store;

/// Between two looks while something is bad, and while nothing is.
const LOOK_WHEN_BAD: Duration = Duration::from_secs(2);
const LOOK_WHEN_GOOD: Duration = Duration::from_secs(15);

/// What is looked at.
pub struct Watched {
    pub(super) broker: Arc<dyn Broker>,
    pub(super) store: Arc<dyn Store>,
    pub(super) health: Arc<Health>,
}

impl Watched {
    /// Looks once.
    pub async fn look(&self) -> Vec<Finding> {
        let (mut findings, broker) = tokio::join!(self.store.check(), self.broker.check());
        findings.extend(broker);
        findings
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
