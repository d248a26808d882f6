//! Wakes a destination's release loop when something is parked that is due before it would wake.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::clock::UnixMs;

/// Shared by the release loop of one destination, which sleeps on it, and by whoever parks.
#[derive(Debug)]
pub struct Alarm {
    notify: Notify,
    /// When the sleeper wakes by itself; zero while it is awake.
    sleeps_until: AtomicU64,
}

/// A sleeper that is awake may be about to look past what was just parked, so it is rung at once:
/// the permit that [`Notify`] then keeps makes it look once more.
const AWAKE: UnixMs = 0;

impl Default for Alarm {
    fn default() -> Self {
        Self { notify: Notify::new(), sleeps_until: AtomicU64::new(AWAKE) }
    }
}

impl Alarm {
    /// Something was parked that is due at `due`.
    pub fn ring_for(&self, due: UnixMs) {
        let until = self.sleeps_until.load(Ordering::SeqCst);
        if until == AWAKE || due < until {
            self.notify.notify_one();
        }
    }

    /// Wakes the sleeper whatever it waits for.
    pub fn ring(&self) {
        self.notify.notify_one();
    }

    /// Waits until it is rung. `until` is when the caller means to wake by itself. Cancel-safe.
    pub async fn rung(&self, until: UnixMs) {
        let _awake_after = Awake(self);
        self.sleeps_until.store(until, Ordering::SeqCst);
        self.notify.notified().await;
    }
}

/// Marks the sleeper as awake however its sleep ends.
struct Awake<'a>(&'a Alarm);

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.0.sleeps_until.store(AWAKE, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_ring_while_awake_is_not_lost() {
        let alarm = Alarm::default();
        alarm.ring_for(5_000);
        alarm.rung(1_000).await;
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_earlier_due_wakes_a_sleeper() {
        let alarm = Alarm::default();
        let sleep = alarm.rung(1_000);
        tokio::pin!(sleep);
        let soon = Duration::from_millis(10);
        assert!(timeout(soon, &mut sleep).await.is_err());
        alarm.ring_for(1_000);
        assert!(timeout(soon, &mut sleep).await.is_err());
        alarm.ring_for(999);
        assert!(timeout(soon, &mut sleep).await.is_ok());
    }
}
