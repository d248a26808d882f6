//! Short scenes that hold every step of the protocol.

use super::story::{Deed, Fate, Refusal, Steering, Step, Story};

use Deed::*;

const fn at_once(deed: Deed) -> Step {
    Step { after: 0, deed }
}

const fn later(after: u64, deed: Deed) -> Step {
    Step { after, deed }
}

const fn publish(id: Option<u8>, delay: u64) -> Deed {
    Publish { id, delay }
}

const fn steer(how: Steering) -> Deed {
    Steer { which: 0, how }
}

/// What is done, and how it ends when nothing goes wrong.
pub struct Scene {
    pub name: &'static str,
    pub steps: &'static [Step],
    /// Each message with the last that is seen of it.
    pub ends: &'static [&'static str],
}

/// All of them.
pub const SCENES: &[Scene] = &[
    Scene {
        name: "two are released",
        steps: &[at_once(publish(None, 40)), at_once(publish(None, 40))],
        ends: &["m1 delivered", "m2 delivered"],
    },
    Scene {
        name: "one replaces the other before it is due, or while it is released",
        steps: &[at_once(publish(Some(0), 60)), later(40, publish(Some(0), 30))],
        ends: &["m1 replaced", "m2 delivered"],
    },
    Scene {
        name: "one is cancelled in time, one while it is released",
        steps: &[
            at_once(publish(Some(0), 80)),
            at_once(publish(Some(1), 20)),
            later(22, Cancel { id: 0 }),
            at_once(Cancel { id: 1 }),
        ],
        ends: &[
            "c3 what it asks for is done",
            "c4 what it asks for is done",
            "m1 cancelled",
            "m2 delivered",
        ],
    },
    Scene {
        name: "an operator cancels one and releases the other now",
        steps: &[
            at_once(publish(Some(0), 400)),
            at_once(publish(None, 500)),
            later(30, steer(Steering::Cancel)),
            later(10, steer(Steering::ReleaseNow)),
        ],
        ends: &["m1 cancelled", "m2 delivered"],
    },
    Scene {
        name: "an operator puts one off, buries it and revives it",
        steps: &[
            at_once(publish(Some(0), 300)),
            later(30, steer(Steering::Reschedule(600))),
            later(10, steer(Steering::Bury)),
            later(10, steer(Steering::Revive)),
        ],
        ends: &["m1 delivered"],
    },
    Scene {
        name: "an operator cancels one and puts off the other while they are released",
        steps: &[
            at_once(publish(Some(0), 20)),
            at_once(publish(None, 20)),
            later(22, steer(Steering::Cancel)),
            at_once(Steer { which: 1, how: Steering::Reschedule(200) }),
        ],
        ends: &["m1 delivered", "m2 delivered"],
    },
    Scene {
        name: "an operator revives one whose id is published anew",
        steps: &[
            at_once(RefuseNext(Refusal::Hopeless)),
            at_once(publish(Some(0), 20)),
            later(100, publish(Some(0), 60)),
            at_once(steer(Steering::Revive)),
        ],
        ends: &["m1 dead", "m2 delivered"],
    },
    Scene {
        name: "one is refused until it is buried, what is nonsense is buried at once",
        steps: &[
            at_once(PublishNonsense),
            at_once(RefuseAll(Some(Refusal::Refused))),
            at_once(publish(Some(0), 20)),
            later(2_000, RefuseAll(None)),
            later(10, publish(Some(0), 20)),
        ],
        ends: &["m2 dead", "m3 delivered", "n1 dead"],
    },
    Scene {
        name: "the destination takes nothing for a while",
        steps: &[
            at_once(RefuseAll(Some(Refusal::Waiting))),
            at_once(publish(None, 10)),
            at_once(publish(Some(1), 10)),
            later(300, RefuseAll(None)),
        ],
        ends: &["m1 delivered", "m2 delivered"],
    },
    Scene {
        name: "a confirm is missing, and captures change hands",
        steps: &[
            at_once(RefuseNext(Refusal::Unconfirmed)),
            at_once(publish(None, 10)),
            later(5, HandOver),
            later(5, publish(Some(0), 10)),
        ],
        ends: &["m1 delivered", "m2 delivered"],
    },
];

/// A scene in which these calls meet these fates.
pub fn story(steps: &[Step], fates: &[(usize, Fate)]) -> Story {
    let most = fates.iter().map(|(call, _)| call + 1).max().unwrap_or(0);
    let mut all = vec![Fate::Passes; most];
    for (call, fate) in fates {
        all[*call] = *fate;
    }
    Story { steps: steps.to_vec(), fates: all, seed: 1 }
}
