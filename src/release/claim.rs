//! Claims what is due, as much as the limits allow.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

use super::ReleaseLoop;
use crate::clock::instant;
use crate::store::{Claim, Error, Lease, Limit};

/// Most claims that make up one batch while there is a backlog. A batch is decided when its last
/// confirm is in, so a larger one waits less often; five of 200 messages keep a broker busy for
/// some ten times the time that a confirm takes.
const CLAIMS_MAX: usize = 5;

/// Leases to publish, and until when their confirms are waited for.
pub(super) struct Batch {
    pub leases: Vec<Lease>,
    pub deadline: Instant,
    pub permit: OwnedSemaphorePermit,
}

impl Batch {
    fn bytes(&self) -> u64 {
        self.leases.iter().map(|lease| lease.message().size() as u64).sum()
    }
}

impl ReleaseLoop {
    /// Claims until nothing more is due or the batch is large enough; `None` when the limits
    /// allow nothing. `idle`: nothing is in hand, so one may be claimed that must be alone.
    pub(super) async fn claim_ahead(&self, idle: bool) -> Result<Option<(Claim, Batch)>, Error> {
        let Some((mut claim, mut batch)) = self.claim(idle).await? else {
            return Ok(None);
        };
        for _ in 1..CLAIMS_MAX {
            let backlog = claim.next_due.is_some_and(|due| due <= claim.now);
            let room = batch.bytes() < self.shared.claim_bytes;
            if !backlog || !room || claim.alone || self.probe_at.is_some() {
                break;
            }
            // What is claimed already is not given up for an error: the next turn will meet it.
            let Ok(Some((more, further))) = self.claim(false).await else {
                break;
            };
            let none = further.leases.is_empty();
            batch.leases.extend(further.leases);
            batch.permit.merge(further.permit);
            claim.unreadable.extend(more.unreadable);
            claim.bodiless += more.bodiless;
            (claim.now, claim.next_due) = (more.now, more.next_due);
            if none {
                // Others were quicker, or the next one is to be claimed alone.
                break;
            }
        }
        Ok(Some((claim, batch)))
    }

    async fn claim(&self, alone: bool) -> Result<Option<(Claim, Batch)>, Error> {
        let settings = &self.shared.settings;
        if self.probe_at.is_some_and(|at| instant() < at) {
            return Ok(None);
        }
        let wanted = if self.probe_at.is_some() { 1 } else { settings.batch };
        let free = self.shared.in_flight.available_permits().clamp(1, wanted);
        let allowed = self.shared.limiter.take(free);
        if allowed == 0 {
            return Ok(None);
        }
        // Never waited for: what frees permits may be this very turn's own batch.
        let permits = Arc::clone(&self.shared.in_flight);
        let Ok(mut permit) = permits.try_acquire_many_owned(allowed as u32) else {
            self.shared.limiter.give_back(allowed);
            return Ok(None);
        };
        let deadline = instant() + settings.lease / 2;
        let bytes = self.shared.claim_bytes;
        let limit = Limit { messages: allowed, bytes, lease: settings.lease, alone };
        let claimed = self.shared.store.claim(&self.destination, limit).await;
        let mut claim = claimed.inspect_err(|_| self.shared.limiter.give_back(allowed))?;
        let leases = std::mem::take(&mut claim.leases);
        self.shared.limiter.give_back(allowed.saturating_sub(leases.len()));
        drop(permit.split(allowed.saturating_sub(leases.len())));
        Ok(Some((claim, Batch { leases, deadline, permit })))
    }
}
