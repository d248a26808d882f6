//! Crash points: places between two steps where a test lets this very process die, freeze, or be
//! told to stop.
//!
//! Kills at random moments seldom fall between two lines that stand side by side, and those are
//! the ones that the two laws are about. A build with the feature `crash-points`, as tests have
//! it, reads the variable `CRASH_AT`, such as `parked-unacked:3:abort`: at the third pass of the
//! point `parked-unacked` the process kills itself. The variable has no prefix `XDELAY_`, since it
//! is no setting. A build without the feature, which is every build that is not for tests, has
//! neither the variable nor the names: [`pass`] is empty and [`sent`] is its argument.
//!
//! | action | what it does |
//! | --- | --- |
//! | `abort` | SIGKILL, as by `kill -9` or the kernel that is out of memory |
//! | `stop` | SIGSTOP: whoever sends SIGCONT later than a lease lasts has made a zombie |
//! | `term` | SIGTERM, and goes on: a graceful stop that begins here |

/// Between which two steps. Each is named after what was just done and what is not done yet.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "crash-points", derive(Debug))]
pub enum Point {
    /// Captures were handed out, and none of them is on its way to the store.
    CapturedUnparked,
    /// A park is on its way: Redis may or may not have it, the file has it unsynced.
    ParkedUnanswered,
    /// The store answered a park, and nobody has made a proof of it.
    ParkedUnproven,
    /// Captures are proven to be durable, and none of them is acked.
    ParkedUnacked,
    /// An ack (on Kafka a commit) is written, and nobody has taken note of it.
    AckedUnnoted,
    /// Messages are leased, and none of them is published.
    ClaimedUnpublished,
    /// Messages are written to the broker, and their confirms are not here.
    PublishedUnconfirmed,
    /// Releases are confirmed, and the store was not told.
    ConfirmedUnsettled,
    /// The store has settled, and nobody has seen its answer.
    SettledUnanswered,
    /// Leases of lost holders were given back, and no release loop was woken.
    RecoveredUnannounced,
    /// Messages could not be released, and are not given back yet.
    UnreleasedUnpostponed,
    /// Messages are given up, and are not buried yet.
    UnreleasedUnburied,
    /// Store and broker are open, and neither intake nor release has begun.
    OpenedUnserved,
    /// Stopping: all that was captured is parked, and its acks are not flushed.
    StoppedUnflushed,
}

/// This place was reached.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub(crate) const fn pass(_: Point) {}

/// The place is reached when `work` was begun and waits for its answer.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub(crate) const fn sent<F>(_: Point, work: F) -> F {
    work
}

#[cfg(feature = "crash-points")]
pub(crate) use self::armed::{pass, sent};

#[cfg(feature = "crash-points")]
mod armed {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::str::FromStr;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use nix::sys::signal::{Signal, raise};

    use super::Point;

    impl Point {
        /// Every point there is.
        pub const ALL: [Self; 14] = [
            Self::CapturedUnparked,
            Self::ParkedUnanswered,
            Self::ParkedUnproven,
            Self::ParkedUnacked,
            Self::AckedUnnoted,
            Self::ClaimedUnpublished,
            Self::PublishedUnconfirmed,
            Self::ConfirmedUnsettled,
            Self::SettledUnanswered,
            Self::RecoveredUnannounced,
            Self::UnreleasedUnpostponed,
            Self::UnreleasedUnburied,
            Self::OpenedUnserved,
            Self::StoppedUnflushed,
        ];

        /// What `CRASH_AT` calls it.
        pub const fn name(self) -> &'static str {
            match self {
                Self::CapturedUnparked => "captured-unparked",
                Self::ParkedUnanswered => "parked-unanswered",
                Self::ParkedUnproven => "parked-unproven",
                Self::ParkedUnacked => "parked-unacked",
                Self::AckedUnnoted => "acked-unnoted",
                Self::ClaimedUnpublished => "claimed-unpublished",
                Self::PublishedUnconfirmed => "published-unconfirmed",
                Self::ConfirmedUnsettled => "confirmed-unsettled",
                Self::SettledUnanswered => "settled-unanswered",
                Self::RecoveredUnannounced => "recovered-unannounced",
                Self::UnreleasedUnpostponed => "unreleased-unpostponed",
                Self::UnreleasedUnburied => "unreleased-unburied",
                Self::OpenedUnserved => "opened-unserved",
                Self::StoppedUnflushed => "stopped-unflushed",
            }
        }
    }

    /// What this process is to do, and at which pass of which point.
    struct Plan {
        point: Point,
        nth: u32,
        signal: Signal,
        passed: AtomicU32,
    }

    static PLAN: LazyLock<Option<Plan>> = LazyLock::new(|| {
        let text = std::env::var("CRASH_AT").ok()?;
        let Ok(plan) = text.parse() else {
            // A test that misspells its point must not pass for want of a crash.
            eprintln!("CRASH_AT={text} is not <point>:<nth>:<abort|stop|term>");
            std::process::abort();
        };
        Some(plan)
    });

    impl FromStr for Plan {
        type Err = ();

        fn from_str(text: &str) -> Result<Self, ()> {
            let mut parts = text.split(':');
            let (Some(name), Some(nth), Some(action), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(());
            };
            let signal = match action {
                "abort" => Signal::SIGKILL,
                "stop" => Signal::SIGSTOP,
                "term" => Signal::SIGTERM,
                _ => return Err(()),
            };
            let point = Point::ALL.into_iter().find(|point| point.name() == name).ok_or(())?;
            let nth = nth.parse().map_err(drop)?;
            Ok(Self { point, nth, signal, passed: AtomicU32::new(0) })
        }
    }

    pub(crate) fn pass(point: Point) {
        let Some(plan) = PLAN.as_ref().filter(|plan| plan.point == point) else { return };
        if plan.passed.fetch_add(1, Ordering::Relaxed) + 1 == plan.nth {
            eprintln!("crash point {}: {}", point.name(), plan.signal);
            if let Err(error) = raise(plan.signal) {
                eprintln!("crash point {}: {error}", point.name());
            }
        }
    }

    pub(crate) async fn sent<F: Future>(point: Point, work: F) -> F::Output {
        let mut work = pin!(work);
        let mut waits = false;
        poll_fn(|context| {
            let answer = work.as_mut().poll(context);
            if answer.is_pending() && !std::mem::replace(&mut waits, true) {
                pass(point);
            }
            answer
        })
        .await
    }
}
