//! The time of day, which is what a due is compared with.
//!
//! Redis, RabbitMQ, xdelay and this program run on one host and so read one clock; a step of that
//! clock during a round would show as lateness, or as a message that came early.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "xdelay's own clock is what is being checked")]
pub(crate) fn now_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// Seconds from one such instant to a later one; 0 when it is not later.
pub(crate) fn seconds(from_us: u64, to_us: u64) -> f64 {
    Duration::from_micros(to_us.saturating_sub(from_us)).as_secs_f64()
}
