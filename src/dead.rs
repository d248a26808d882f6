//! How many dead a destination may have, and what is said when it has them.
//!
//! The dead are never removed but by an operator, so something else has to give when nobody looks
//! after them: releases that would end in a burial are put off instead, and tried again at the
//! longest wait of `release.retry`. What comes in dead, because its delay cannot be read, is buried
//! all the same: to refuse it would hold up everything behind it in its queue.

use std::num::NonZeroU32;

use crate::finding::Finding;
use crate::message::Destination;

/// `release.dead_max`: the most dead messages of one destination; `None` is no limit.
pub type DeadMax = Option<NonZeroU32>;

/// How many more may be buried.
pub fn room(max: DeadMax, dead: u64) -> usize {
    let left = |max: NonZeroU32| u64::from(max.get()).saturating_sub(dead);
    max.map_or(usize::MAX, |max| usize::try_from(left(max)).unwrap_or(usize::MAX))
}

/// Whether there are too many, in words; nothing without a limit.
pub fn finding(max: DeadMax, destination: &Destination, dead: u64) -> Option<Finding> {
    let max_count = max?;
    let subject = format!("dead {destination}");
    Some(match room(max, dead) {
        0 => Finding::warning(
            subject,
            format!(
                "release.dead_max = {max_count} is reached: what cannot be released is tried again \
                 and again instead of being buried. `xdelay ls --state dead` shows the dead: revive \
                 or cancel them"
            ),
        ),
        _ => Finding::good(subject, format!("fewer than release.dead_max = {max_count}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Grade;

    #[test]
    fn the_last_place_is_given_and_not_one_more() {
        let max = NonZeroU32::new(3);
        assert_eq!([0, 2, 3, 9].map(|dead| room(max, dead)), [3, 1, 0, 0]);
        assert_eq!(room(None, u64::MAX), usize::MAX);
        let grade = |dead| finding(max, &Destination::amqp("orders"), dead).map(|it| it.grade);
        assert_eq!([2, 3].map(grade), [Some(Grade::Good), Some(Grade::Warning)]);
        assert!(finding(None, &Destination::amqp("orders"), 9).is_none());
    }
}
