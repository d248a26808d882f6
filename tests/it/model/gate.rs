//! What every call across a seam passes, and where it meets its fate.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use xdelay::clock::WallClock;

use super::story::Fate;

/// How long a call takes either way, so that others come in between.
const WAY: Duration = Duration::from_millis(1);

/// The fates still to be met, and the calls that met them.
#[derive(Debug, Default)]
pub struct Plan {
    inner: Mutex<Inner>,
    /// Rung when a replica crashed.
    pub crashed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    fates: VecDeque<Fate>,
    /// How many calls were made.
    calls: usize,
    /// Those that did not pass, for a person to read.
    told: Vec<String>,
    /// Replicas that ended and were not yet cleared away.
    down: Vec<usize>,
}

impl Plan {
    pub fn new(fates: &[Fate]) -> Arc<Self> {
        let inner = Inner { fates: fates.iter().copied().collect(), ..Inner::default() };
        Arc::new(Self { inner: Mutex::new(inner), crashed: Notify::new() })
    }

    /// No call meets anything from here on.
    pub fn heal(&self) {
        self.lock().fates.clear();
    }

    pub fn calls(&self) -> usize {
        self.lock().calls
    }

    /// Takes note of something worth telling.
    pub fn tell(&self, line: String) {
        self.lock().told.push(line);
    }

    pub fn told(&self) -> Vec<String> {
        self.lock().told.clone()
    }

    /// The next replica that ended and is still to be cleared away.
    pub fn take_crashed(&self) -> Option<usize> {
        self.lock().down.pop()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("not poisoned")
    }
}

/// One replica's gate.
#[derive(Clone, Debug)]
pub struct Gate {
    pub plan: Arc<Plan>,
    pub replica: usize,
    /// When the story began.
    pub begin: tokio::time::Instant,
    /// The store's clock.
    pub time: WallClock,
}

/// A call that is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    Made,
    /// Its answer will be lost.
    Unanswered,
    /// It must not be made.
    Refused,
}

impl Gate {
    /// Meets the fate of a call, up to where it is made.
    pub async fn enter(&self, call: &str) -> (Passage, Fate) {
        let fate = {
            let mut plan = self.plan.lock();
            plan.calls += 1;
            let fate = plan.fates.pop_front().unwrap_or(Fate::Passes);
            if fate != Fate::Passes || std::env::var_os("MODEL_TRACE").is_some() {
                let at = self.begin.elapsed().as_millis();
                let (number, replica) = (plan.calls, self.replica);
                plan.told.push(format!(
                    "{at:>8} ms  replica {replica}, call {number}, {call}: {fate:?}"
                ));
            }
            fate
        };
        match fate {
            Fate::Fails => return (Passage::Refused, fate),
            Fate::Late(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Fate::CrashBefore => self.crash().await,
            Fate::Passes | Fate::AnswerLost | Fate::AnswerLate(_) | Fate::CrashAfter => {}
        }
        tokio::time::sleep(WAY).await;
        let unanswered = fate == Fate::AnswerLost;
        (if unanswered { Passage::Unanswered } else { Passage::Made }, fate)
    }

    /// Meets the rest of it, when the call was made.
    pub async fn leave(&self, fate: Fate) {
        tokio::time::sleep(WAY).await;
        match fate {
            Fate::AnswerLate(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Fate::CrashAfter => self.crash().await,
            _ => {}
        }
    }

    /// The replica ends here: none of its futures goes on.
    async fn crash(&self) {
        self.plan.lock().down.push(self.replica);
        self.plan.crashed.notify_one();
        std::future::pending().await
    }
}
