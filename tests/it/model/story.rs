//! What happens: deeds of producers and operators, and what becomes of the calls between.

use proptest::collection::vec;
use proptest::prelude::*;

/// What becomes of one call across a seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is made, and answered.
    Passes,
    /// It is never made, and fails.
    Fails,
    /// It is made, and its answer is lost.
    AnswerLost,
    /// It is made so many ms later.
    Late(u64),
    /// It is made, and answered so many ms later.
    AnswerLate(u64),
    /// The replica ends before it is made.
    CrashBefore,
    /// The replica ends when it was made, before the answer.
    CrashAfter,
}

/// Beyond any lease of the model.
pub const BEYOND_LEASE: u64 = 2_600;

impl Fate {
    /// Everything that can go wrong.
    pub const MISHAPS: [Self; 8] = [
        Self::Fails,
        Self::AnswerLost,
        Self::Late(700),
        Self::Late(BEYOND_LEASE),
        Self::AnswerLate(700),
        Self::AnswerLate(BEYOND_LEASE),
        Self::CrashBefore,
        Self::CrashAfter,
    ];
}

/// Why the broker does not release, as far as the loops tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Refused,
    Hopeless,
    Waiting,
    Unconfirmed,
}

/// What an operator does with a message that is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    Cancel,
    ReleaseNow,
    Reschedule(u64),
    Bury,
    Revive,
}

/// What is done from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A producer publishes with this delay in ms, with one of two ids or none.
    Publish { id: Option<u8>, delay: u64 },
    /// A producer publishes what asks for a delay that cannot be read.
    PublishNonsense,
    /// A producer cancels an id.
    Cancel { id: u8 },
    /// An operator steers one of those in the store, counted round.
    Steer { which: u8, how: Steering },
    /// An operator holds releases back, or lets them go.
    Pause(bool),
    /// A replica is killed, and started again.
    Kill { replica: u8, away: u64 },
    /// A replica is stopped in order, and started again.
    Restart { replica: u8 },
    /// The broker takes back what is not acked, and gives it to the other replica.
    HandOver,
    /// The broker refuses the next message so.
    RefuseNext(Refusal),
    /// The broker refuses all, or takes them again.
    RefuseAll(Option<Refusal>),
}

/// A deed, so many ms after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub after: u64,
    pub deed: Deed,
}

/// All that happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    pub steps: Vec<Step>,
    /// What becomes of the calls, in the order in which they are made; those beyond pass.
    pub fates: Vec<Fate>,
    /// Draws waits and jitter.
    pub seed: u64,
}

impl Story {
    /// Whether anything in it excuses a copy.
    pub fn mishaps(&self) -> usize {
        let odd = |step: &&Step| {
            matches!(step.deed, Deed::Kill { .. } | Deed::HandOver | Deed::RefuseNext(_))
                || matches!(step.deed, Deed::RefuseAll(Some(_)))
        };
        self.fates.iter().filter(|fate| **fate != Fate::Passes).count()
            + self.steps.iter().filter(odd).count()
    }
}

fn id() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![Just(None), Just(Some(0)), Just(Some(1))]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    use Refusal::*;
    prop_oneof![Just(Refused), Just(Hopeless), Just(Waiting), Just(Unconfirmed)]
}

fn steering() -> impl Strategy<Value = Steering> {
    use Steering::*;
    prop_oneof![
        3 => Just(Cancel),
        1 => Just(ReleaseNow),
        1 => (0_u64..500).prop_map(Reschedule),
        1 => Just(Bury),
        1 => Just(Revive),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (id(), 0_u64..300).prop_map(|(id, delay)| Deed::Publish { id, delay }),
        3 => (0_u8..2).prop_map(|id| Deed::Cancel { id }),
        3 => (any::<u8>(), steering()).prop_map(|(which, how)| Deed::Steer { which, how }),
        1 => Just(Deed::PublishNonsense),
        1 => any::<bool>().prop_map(Deed::Pause),
        1 => (0_u8..2, 0_u64..4_000).prop_map(|(replica, away)| Deed::Kill { replica, away }),
        1 => (0_u8..2).prop_map(|replica| Deed::Restart { replica }),
        1 => Just(Deed::HandOver),
        2 => refusal().prop_map(Deed::RefuseNext),
        1 => proptest::option::of(refusal()).prop_map(Deed::RefuseAll),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        16 => Just(Fate::Passes),
        1 => Just(Fate::Fails),
        2 => Just(Fate::AnswerLost),
        1 => (1_u64..1_000).prop_map(Fate::Late),
        1 => (1_u64..1_000).prop_map(Fate::AnswerLate),
        1 => Just(Fate::Late(BEYOND_LEASE)),
        1 => Just(Fate::AnswerLate(BEYOND_LEASE)),
        1 => Just(Fate::CrashBefore),
        1 => Just(Fate::CrashAfter),
    ]
}

/// Any story of a few messages.
pub fn any_story() -> impl Strategy<Value = Story> {
    let step = (0_u64..150, deed()).prop_map(|(after, deed)| Step { after, deed });
    (vec(step, 1..14), vec(fate(), 0..40), any::<u64>()).prop_map(|(steps, fates, seed)| Story {
        steps,
        fates,
        seed,
    })
}
