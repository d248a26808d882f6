//! Which exchanges are captured for: those configured, and those that turn up while running.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The names, configured ones first; grows, and never shrinks.
#[derive(Debug)]
pub(super) struct Captures {
    configured: BTreeSet<String>,
    names: watch::Sender<Vec<String>>,
}

/// What the proxy needs to know before it sends a publish to a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// It stands, and what comes is consumed.
    Stands,
    /// The destination itself is not there, so nothing was declared for it.
    NoDestination,
}

impl Captures {
    pub(super) fn new(configured: &[String]) -> Self {
        let names = watch::Sender::new(configured.to_vec());
        Self { configured: configured.iter().cloned().collect(), names }
    }

    /// One more, unless it is there already. Its consumer starts by itself.
    pub(super) fn add(&self, exchange: &str) {
        self.names.send_if_modified(|names| {
            let is_new = names.iter().all(|name| name != exchange);
            if is_new {
                names.push(exchange.to_owned());
            }
            is_new
        });
    }

    pub(super) fn is_configured(&self, exchange: &str) -> bool {
        self.configured.contains(exchange)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.names.borrow().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.names.borrow().len()
    }

    /// Changes whenever there is one more.
    pub(super) fn watch(&self) -> watch::Receiver<Vec<String>> {
        self.names.subscribe()
    }
}
