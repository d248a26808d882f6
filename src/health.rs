//! What state every part of xdelay is in, said once when it changes and shown for as long as it lasts.
//!
//! Parts report [`Finding`]s under their subject; a part that is well again says so itself.
//! `/ready` and the metric `xdelay_healthy` read them from here, the log gets every change.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::finding::{Finding, Grade};

/// The last finding of every part.
#[derive(Debug, Default)]
pub struct Health {
    parts: Mutex<BTreeMap<String, Finding>>,
}

/// The part that is bad until the store is open and the broker known.
pub const START: &str = "start";

impl Health {
    /// Not ready before this part has reported that it is well; says nothing in the log.
    pub fn expect(&self, subject: &str) {
        let starting = Finding::bad(subject, "starting");
        self.parts().entry(subject.to_owned()).or_insert(starting);
    }

    /// Takes note of a finding, and logs it when it differs in grade from the one before.
    pub fn report(&self, finding: Finding) {
        let mut parts = self.parts();
        let before = parts.get(&finding.subject).map(|before| before.grade);
        if before != Some(finding.grade) {
            log(&finding, before);
        }
        parts.insert(finding.subject.clone(), finding);
    }

    /// Forgets a part that is no more.
    pub fn forget(&self, subject: &str) {
        self.parts().remove(subject);
    }

    /// Everything known, by subject.
    pub fn findings(&self) -> Vec<Finding> {
        self.parts().values().cloned().collect()
    }

    /// Whether nothing is bad.
    pub fn is_ready(&self) -> bool {
        self.parts().values().all(|finding| finding.grade != Grade::Bad)
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<String, Finding>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(finding: &Finding, before: Option<Grade>) {
    let Finding { subject, grade, detail } = finding;
    match grade {
        Grade::Bad => tracing::error!(%subject, "{detail}"),
        Grade::Warning => tracing::warn!(%subject, "{detail}"),
        Grade::Good if before.is_some() => tracing::info!(%subject, "well again: {detail}"),
        Grade::Good => tracing::debug!(%subject, "{detail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_part_is_waited_for() {
        let health = Health::default();
        health.expect(START);
        assert!(!health.is_ready());
        health.report(Finding::good(START, "open"));
        health.expect(START);
        assert!(health.is_ready());
    }

    #[test]
    fn one_bad_part_makes_it_unready_until_it_says_that_it_is_well() {
        let health = Health::default();
        assert!(health.is_ready());
        health.report(Finding::bad("redis", "away"));
        health.report(Finding::warning("release", "slow"));
        assert!(!health.is_ready());
        health.report(Finding::good("redis", "back"));
        assert!(health.is_ready());
        assert_eq!(health.findings().len(), 2);
        health.forget("release");
        assert_eq!(health.findings().len(), 1);
    }
}
