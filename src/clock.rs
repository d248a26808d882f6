//! The one place that reads a wall clock.
//!
//! Whether a message is due is decided by the store's clock alone, read inside its scripts, so
//! that two replicas never disagree. What is left for a clock of our own is small: to tell how
//! far an absolute due lies ahead when a message is captured, for which a reading of the store's
//! clock is carried along by the monotonic clock of this process.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An instant in Unix milliseconds.
pub type UnixMs = u64;

/// The store's clock as last seen, carried forward by this process's monotonic clock.
#[derive(Debug)]
pub struct StoreClock {
    seen: Mutex<(UnixMs, Instant)>,
}

/// This host's clock, rounded down: the clock of a store that has none of its own.
#[expect(clippy::disallowed_methods, reason = "this is the one file that reads the wall clock")]
pub fn host_now() -> UnixMs {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

impl StoreClock {
    /// Starts from this host's clock, until the store's is first seen.
    pub fn new() -> Self {
        Self { seen: Mutex::new((host_now(), Instant::now())) }
    }

    /// Takes note of the store's clock, as it was answered a moment ago.
    pub fn observe(&self, now: UnixMs) {
        *self.lock() = (now, Instant::now());
    }

    /// The store's clock now, to within one round trip and the drift since it was last seen.
    pub fn now(&self) -> UnixMs {
        let (now, at) = *self.lock();
        now + millis(at.elapsed())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (UnixMs, Instant)> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Whole milliseconds of a duration, saturating where a duration of 584 million years would not fit.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_what_was_observed_and_not_the_host() {
        let clock = StoreClock::new();
        clock.observe(1_000);
        assert!((1_000..2_000).contains(&clock.now()));
    }
}
