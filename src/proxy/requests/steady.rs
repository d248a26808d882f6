//! The store's clock as one client's publishes see it: it does not go back by the little that it
//! seems to when more is learned of it.
//!
//! Messages of one delay would otherwise be due in another order than they were published in.

use crate::clock::UnixMs;

/// More than what is learned of it amounts to, which is less than a round trip to the store. A clock
/// that goes back further was set, and is followed.
const STEP_BACK_MAX: u64 = 1_000;

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct Steady {
    last: UnixMs,
}

impl Steady {
    /// A reading, or the one before it where that is a little later.
    pub(super) fn from(&mut self, now: UnixMs) -> UnixMs {
        let is_step_back = now < self.last && self.last - now <= STEP_BACK_MAX;
        if !is_step_back {
            self.last = now;
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_back_only_where_the_clock_was_set() {
        let mut steady = Steady::default();
        let seen = [1_000_000, 1_000_007, 1_000_003, 1_000_008, 900_000, 900_001];
        let told = [1_000_000, 1_000_007, 1_000_007, 1_000_008, 900_000, 900_001];
        assert_eq!(seen.map(|now| steady.from(now)), told);
    }
}
