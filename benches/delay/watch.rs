//! Finds the instant at which xdelay has parked everything, which no producer can see: a publish
//! is confirmed as soon as the capture queue has it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::clock::now_us;
use crate::fleet::Fleet;
use crate::role::Role;

/// How far the instant found may be off; every look costs xdelay a few commands to Redis.
const EVERY: Duration = Duration::from_millis(100);
/// How long what is published may take to be parked once publishing is over.
const PATIENCE: Duration = Duration::from_secs(60);

/// When xdelay had taken in `count`; `None` when it did not, long after the load's end.
pub(crate) fn until_captured(
    fleet: &Fleet,
    count: u64,
    load: &mut Role,
) -> anyhow::Result<Option<u64>> {
    let mut ended: Option<Instant> = None;
    loop {
        if fleet.captured()? >= count {
            return Ok(Some(now_us()));
        }
        if load.has_ended()? && ended.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Ok(None);
        }
        sleep(EVERY);
    }
}
