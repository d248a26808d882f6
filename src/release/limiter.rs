//! `release.rate_limit`: how many messages may be claimed now.

use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::instant;

/// A token bucket of one tenth of a second, shared by all destinations of a replica.
#[derive(Debug)]
pub struct Limiter(Option<Mutex<Bucket>>);

#[derive(Debug)]
struct Bucket {
    per_second: f64,
    tokens: f64,
    filled: Instant,
}

impl Limiter {
    /// `None` limits nothing.
    pub fn new(per_second: Option<NonZeroU32>) -> Self {
        Self(per_second.map(|rate| {
            Mutex::new(Bucket { per_second: f64::from(rate.get()), tokens: 0.0, filled: instant() })
        }))
    }

    /// Takes up to `wanted` messages' worth; answers how many it got, which may be none.
    pub fn take(&self, wanted: usize) -> usize {
        let Some(mut bucket) = self.bucket() else {
            return wanted;
        };
        bucket.fill(instant());
        let got = (bucket.tokens as usize).min(wanted);
        bucket.tokens -= got as f64;
        got
    }

    /// Puts back what was not used.
    pub fn give_back(&self, unused: usize) {
        if let Some(mut bucket) = self.bucket() {
            bucket.tokens += unused as f64;
        }
    }

    /// How long to wait when [`take`](Self::take) gave nothing.
    pub fn refill(&self) -> Duration {
        let one = self.bucket().map_or(0.0, |bucket| 1.0 / bucket.per_second);
        Duration::from_secs_f64(one).max(Duration::from_millis(5))
    }

    fn bucket(&self) -> Option<MutexGuard<'_, Bucket>> {
        let bucket = self.0.as_ref()?;
        Some(bucket.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        let most = (self.per_second / 10.0).max(1.0);
        self.tokens = (self.tokens + passed * self.per_second).min(most);
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_gives_all_and_a_limit_no_more_than_its_share() {
        assert_eq!(Limiter::new(None).take(200), 200);
        let limiter = Limiter::new(NonZeroU32::new(1_000));
        let start = Instant::now();
        let mut taken = 0;
        while start.elapsed() < Duration::from_millis(100) {
            let got = limiter.take(30);
            limiter.give_back(got / 3);
            taken += got - got / 3;
        }
        let most = start.elapsed().as_secs_f64() * 1_000.0 + 1.0;
        assert!((taken as f64) <= most, "{taken} of {most}");
        assert!(taken >= 50, "{taken}");
    }

    #[test]
    fn a_slow_limit_still_lets_one_through() {
        let mut bucket = Bucket { per_second: 0.5, tokens: 0.0, filled: Instant::now() };
        bucket.fill(bucket.filled + Duration::from_secs(60));
        assert!((bucket.tokens - 1.0).abs() < f64::EPSILON);
    }
}
