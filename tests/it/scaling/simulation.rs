//! A second at a time: messages fall due and come in by chance, wait in their buckets, and each
//! master does as much as one core can.

use super::model::{Load, STORE_US, master_of};

/// Parking is taken for half of a message's work: the figures do not tell it apart.
const PARK_US: f64 = STORE_US / 2.0;
const RELEASE_US: f64 = STORE_US - PARK_US;
/// Given up after so many times what was asked for.
const PATIENCE: u64 = 4;

#[derive(Clone, Copy, Default)]
struct Bucket {
    uncaptured: f64,
    overdue: f64,
    parked: f64,
}

/// Seconds from the end of an outage until nothing is overdue or waiting to be parked that came in
/// more than a second ago; none when that never happens. The time one core has is used whole: what
/// the model leaves free is not needed here.
pub fn drain_s(load: &Load, masters: u32, buckets: u32) -> Option<u64> {
    let mut chance = fastrand::Rng::with_seed(7);
    let share = 1.0 / f64::from(buckets);
    let rate = load.rate as f64 * share;
    let fresh = Bucket { parked: load.backlog as f64 * share, ..Bucket::default() };
    let mut all = vec![fresh; buckets as usize];
    let mean_delay = load.backlog as f64 / load.rate as f64;
    for second in 0..load.outage_s + PATIENCE * load.drained_within_s {
        let mut budgets = vec![if second < load.outage_s { 0.0 } else { 1e6 }; masters as usize];
        let mut late = 0.0_f64;
        for (number, bucket) in all.iter_mut().enumerate() {
            bucket.uncaptured += by_chance(&mut chance, rate);
            let due = by_chance(&mut chance, bucket.parked / mean_delay).min(bucket.parked);
            bucket.parked -= due;
            bucket.overdue += due;
            let budget = &mut budgets[master_of(number as u32, masters)];
            // What is due goes first; when all is done does not depend on it.
            let released = bucket.overdue.min(*budget / RELEASE_US);
            bucket.overdue -= released;
            *budget -= released * RELEASE_US;
            let parked = bucket.uncaptured.min(*budget / PARK_US);
            bucket.uncaptured -= parked;
            bucket.parked += parked;
            *budget -= parked * PARK_US;
            late = late.max(bucket.overdue + bucket.uncaptured - 2.0 * rate);
        }
        if second >= load.outage_s && late <= 0.0 {
            return Some(second - load.outage_s);
        }
    }
    None
}

/// About as many as happen in a second, of what happens at this rate: the normal distribution by the
/// sum of twelve.
fn by_chance(chance: &mut fastrand::Rng, rate: f64) -> f64 {
    let spread: f64 = (0..12).map(|_| chance.f64()).sum::<f64>() - 6.0;
    (rate + spread * rate.sqrt()).max(0.0)
}
