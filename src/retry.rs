//! How long to wait before something is tried again.

use std::time::Duration;

/// Exponential backoff with jitter, for ever.
///
/// Each wait is drawn from the upper half of a bound that doubles from `first` to `max`, so that
/// replicas that failed together do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Waits between half of `first` and `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failures: 0 }
    }

    /// For connections: from a quarter of a second to ten seconds.
    pub fn for_connections() -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(10))
    }

    /// The wait after one more failure.
    pub fn failed(&mut self) -> Duration {
        let wait = wait_after(self.failures, self.first, self.max);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// It worked: the next failure waits the shortest time again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

/// The wait after `failures` earlier ones, between half of it and all of it.
pub fn wait_after(failures: u32, first: Duration, max: Duration) -> Duration {
    let factor = 2_u32.saturating_pow(failures.min(30));
    let bound = first.saturating_mul(factor).min(max);
    bound.mul_f64(0.5 + 0.5 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_longest_and_start_anew_after_a_reset() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 5 * second);
        for bound in [1, 2, 4, 5, 5] {
            let wait = backoff.failed();
            assert!(wait >= bound * second / 2 && wait <= bound * second, "{wait:?}");
        }
        backoff.reset();
        assert!(backoff.failed() <= second);
        assert!(wait_after(u32::MAX, second, 5 * second) <= 5 * second);
    }
}
