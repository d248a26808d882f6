//! How many messages a consumer may have unacked at once: as many as fit its memory.

/// The window of a consumer that does not know how large its messages are.
pub(super) const UNKNOWN: u16 = 64;
/// How much wider a window gets at a time.
const WIDENING: usize = 8;

/// How large the messages of a window are.
#[derive(Default)]
pub(super) struct Sizes {
    count: usize,
    bytes: u64,
}

impl Sizes {
    pub(super) fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u64;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The window for messages of these sizes after this one: what fits `memory`, in bytes, but no
    /// more than `prefetch`, widened by degrees.
    pub(super) fn wanted(&self, window: u16, prefetch: u16, memory: u64) -> u16 {
        let mean = (self.bytes / self.count.max(1) as u64).max(1);
        let fits = usize::try_from(memory / mean).unwrap_or(usize::MAX).max(1);
        let most = fits.min(usize::from(prefetch));
        let wanted = most.min(usize::from(window) * WIDENING);
        // A window is changed only when it is worth it.
        let near = wanted >= usize::from(window) / 2 && wanted < usize::from(window) * 2;
        let at_most = wanted == usize::from(prefetch);
        if near && !at_most { window } else { wanted as u16 }
    }
}
