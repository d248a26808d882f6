//! Tells every loop that it is time to stop.

use tokio::sync::watch;

/// One end of a signal that is given once and never taken back. Clones share it.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// The other end: triggers the signal, also when it is dropped.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// A signal and what triggers it.
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Gives the signal.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits for the signal. Cancel-safe.
    pub async fn requested(&mut self) {
        // An error means that the trigger was dropped, which is a signal too.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether it was given.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
