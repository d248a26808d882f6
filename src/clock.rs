//! The one place that reads a wall clock.
//!
//! Whether a message is due is decided by the store's clock alone, read inside its scripts, so
//! that two replicas never disagree. What is left for a clock of our own is small: to tell how
//! far an absolute due lies ahead when a message is captured, for which a reading of the store's
//! clock is carried along by the monotonic clock of this process.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An instant in Unix milliseconds.
pub type UnixMs = u64;

/// The store's clock as last seen, carried forward by this process's monotonic clock.
#[derive(Debug)]
pub struct StoreClock {
    seen: Mutex<Seen>,
}

/// What is known of the store's clock.
#[derive(Clone, Copy, Debug)]
struct Seen {
    now: UnixMs,
    at: Instant,
    /// Microseconds that the store's clock had certainly not passed at `limit_at`.
    limit_us: u64,
    limit_at: Instant,
}

/// The monotonic clock of this process. Where a test holds tokio's clock, it holds this one too.
pub fn instant() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The clock of a store that has none of its own.
#[derive(Clone, Copy, Debug, Default)]
pub enum WallClock {
    /// This host's.
    #[default]
    Host,
    /// One that shows `at` at `since` and goes with [`instant`], for simulations.
    #[cfg(any(test, feature = "test-support"))]
    Simulated {
        /// What it shows.
        at: UnixMs,
        /// When it shows that.
        since: Instant,
    },
}

impl WallClock {
    /// What it shows, rounded down.
    pub fn now(self) -> UnixMs {
        match self {
            Self::Host => host_now(),
            #[cfg(any(test, feature = "test-support"))]
            Self::Simulated { at, since } => at + millis(instant() - since),
        }
    }
}

/// This host's clock, rounded down.
pub fn host_now() -> UnixMs {
    millis(host_time().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

/// This host's clock, for what is told to others: it decides nothing.
#[expect(clippy::disallowed_methods, reason = "this is the one file that reads the wall clock")]
pub fn host_time() -> SystemTime {
    SystemTime::now()
}

impl StoreClock {
    /// Starts from this host's clock, until the store's is first seen.
    pub fn new() -> Self {
        Self { seen: Mutex::new(Seen::fresh(host_now(), instant())) }
    }

    /// Takes note of the store's clock, as it was answered a moment ago to what was `asked` then.
    pub fn observe(&self, now: UnixMs, asked: Instant) {
        let mut seen = self.lock();
        *seen = seen.updated(now, asked, instant());
    }

    /// The store's clock now, to within one round trip and the drift since it was last seen.
    pub fn now(&self) -> UnixMs {
        let Seen { now, at, .. } = *self.lock();
        now + millis(instant().saturating_duration_since(at))
    }

    /// What the store's clock has certainly not passed yet: a delay that counts from here does not
    /// end too early. It is ahead by no more than the shortest round trip of late.
    pub fn latest(&self) -> UnixMs {
        let seen = *self.lock();
        seen.limit_us_at(instant()).div_ceil(1_000)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Seen {
    /// Two clocks may drift apart by one part in so many.
    const DRIFT: u64 = 10_000;

    /// `now` was read at `at`, rounded to a millisecond in either direction.
    fn fresh(now: UnixMs, at: Instant) -> Self {
        Self { now, at, limit_us: (now + 1) * 1_000, limit_at: at }
    }

    /// The answer lay between `asked` and `answered`, so the limit is as good as the round trip was
    /// short: a tighter one from before is kept, until the drift has made it the looser.
    fn updated(self, now: UnixMs, asked: Instant, answered: Instant) -> Self {
        let fresh = Self { at: answered, ..Self::fresh(now, asked) };
        let carried = self.limit_us_at(asked);
        let passed = (now.saturating_sub(1) * 1_000).saturating_sub(micros(answered - asked));
        // Below what has certainly passed already, the store's clock was set forward.
        if carried >= fresh.limit_us || carried < passed {
            return fresh;
        }
        Self { limit_us: carried, ..fresh }
    }

    fn limit_us_at(&self, at: Instant) -> u64 {
        let elapsed = micros(at.saturating_duration_since(self.limit_at));
        let before = micros(self.limit_at.saturating_duration_since(at));
        (self.limit_us + elapsed + elapsed / Self::DRIFT).saturating_sub(before)
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::new()
    }
}

/// An instant as people write it, in UTC; beyond the year 9999 as the number it is.
pub fn rfc3339(at: UnixMs) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000);
    let text = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    text.unwrap_or_else(|| at.to_string())
}

/// Whole milliseconds of a duration, saturating where a duration of 584 million years would not fit.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_what_was_observed_and_not_the_host() {
        let clock = StoreClock::new();
        clock.observe(1_000, Instant::now());
        assert!((1_000..2_000).contains(&clock.now()));
        assert!((1_001..2_000).contains(&clock.latest()));
    }

    #[test]
    fn instants_are_told_in_utc() {
        assert_eq!(rfc3339(1_795_276_800_004), "2026-11-21T16:00:00.004Z");
        assert_eq!(rfc3339(u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn the_limit_is_as_tight_as_the_shortest_round_trip() {
        let at = Instant::now();
        let after = |ms| at + Duration::from_millis(ms);
        let close = Seen::fresh(0, at).updated(1_000, after(0), after(1));
        assert_eq!(close.limit_us_at(after(0)), 1_001_000);
        // An answer that took long says less than what is known already.
        let slow = close.updated(1_060, after(10), after(100));
        assert_eq!(slow.limit_us_at(after(100)), 1_101_010);
        // A clock that was set forward, or back, is believed.
        let forward = slow.updated(9_000, after(200), after(201));
        assert_eq!(forward.limit_us_at(after(200)), 9_001_000);
        let back = forward.updated(500, after(300), after(301));
        assert_eq!(back.limit_us_at(after(300)), 501_000);
    }
}
