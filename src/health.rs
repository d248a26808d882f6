//! What state every part of xdelay is in, said once when it changes and shown for as long as it lasts.
//!
//! Parts report [`Finding`]s under their subject; a part that is well again says so itself.
//! `/ready` and the metric `xdelay_healthy` read them from here, the log gets every change.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::finding::{Finding, Grade};

/// The last finding of every part.
#[derive(Debug, Default)]
pub struct Health {
    parts: Mutex<BTreeMap<String, Part>>,
}

#[derive(Debug)]
struct Part {
    finding: Finding,
    /// It was logged, and need not be as long as it stays the same.
    said: bool,
    /// What is only seen when it happens is forgotten when it has not for so long.
    until: Option<Instant>,
}

/// The part that is bad until the store is open and the broker known.
pub const START: &str = "start";

impl Health {
    /// Not ready before this part has reported that it is well; says nothing in the log yet.
    pub fn expect(&self, subject: &str) {
        let finding = Finding::bad(subject, "starting");
        let part = Part { finding, said: false, until: None };
        self.parts().entry(subject.to_owned()).or_insert(part);
    }

    /// Takes note of a finding, and logs it when it is not what was said before.
    pub fn report(&self, finding: Finding) {
        self.note(finding, None);
    }

    /// The same for what nobody will report as mended: it lasts for a time after the last report.
    pub fn report_for(&self, finding: Finding, lasting: Duration) {
        self.note(finding, Some(Instant::now() + lasting));
    }

    /// Forgets a part that is no more.
    pub fn forget(&self, subject: &str) {
        self.parts().remove(subject);
    }

    /// Everything known, by subject.
    pub fn findings(&self) -> Vec<Finding> {
        self.parts().values().map(|part| part.finding.clone()).collect()
    }

    /// Whether the store is open and the broker known: before that nothing can be said of messages.
    pub fn is_open(&self) -> bool {
        self.parts().get(START).is_none_or(|part| part.finding.grade == Grade::Good)
    }

    /// Whether nothing is bad.
    pub fn is_ready(&self) -> bool {
        self.parts().values().all(|part| part.finding.grade != Grade::Bad)
    }

    fn note(&self, finding: Finding, until: Option<Instant>) {
        let mut parts = self.parts();
        let before = parts.get(&finding.subject).filter(|part| part.said);
        if before.is_none_or(|part| differs(&part.finding, &finding)) {
            log(&finding, before.map(|part| part.finding.grade));
        }
        let part = Part { finding, said: true, until };
        parts.insert(part.finding.subject.clone(), part);
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<String, Part>> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|_, part| part.until.is_none_or(|until| Instant::now() < until));
        parts
    }
}

/// Whether there is something new to say: another grade, or another reason for not being well.
fn differs(before: &Finding, now: &Finding) -> bool {
    before.grade != now.grade || (now.grade != Grade::Good && before.detail != now.detail)
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
        health.report_for(Finding::bad("policy", "seen"), Duration::ZERO);
        assert!(health.is_ready(), "it was long ago");
    }
}
