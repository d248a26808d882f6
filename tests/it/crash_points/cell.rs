//! One cell of the matrix, and the accounting at its end.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;

use nix::sys::signal::Signal;
use redis::AsyncTypedCommands;
use tempfile::TempDir;
use xdelay::crash::Point;

use super::load::{Load, destination};
use crate::support::load::{Account, all_arrived, consume};
use crate::support::rabbit::Rabbit;
use crate::support::redis::connection;
use crate::support::sidecar::Sidecar;
use crate::support::{a_while, eventually_is, eventually_or, setting};

/// Most captures that may be unacked, and most messages that may be in flight, in one process:
/// what each end without a goodbye may cost in copies.
const PREFETCH: usize = 50;
const IN_FLIGHT: usize = 40;

/// What happens at the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Abort,
    Stop,
    Term,
}

/// How many replicas there are, and where they park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    OneOnRedis,
    ThreeOnRedis,
    OneOnItsFile,
}

/// A point, what happens there, and to whom.
#[derive(Clone, Copy)]
pub struct Cell {
    pub point: Point,
    pub action: Action,
    pub arrangement: Arrangement,
}

impl Action {
    /// What `CRASH_AT` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Stop => "stop",
            Self::Term => "term",
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}, {:?}", self.point.name(), self.action, self.arrangement)
    }
}

impl Cell {
    /// Every point has so many.
    pub const OF_A_POINT: usize = 9;

    pub fn all_of(point: Point) -> [Self; Self::OF_A_POINT] {
        let actions = [Action::Abort, Action::Stop, Action::Term];
        let arrangements =
            [Arrangement::OneOnRedis, Arrangement::ThreeOnRedis, Arrangement::OneOnItsFile];
        std::array::from_fn(|place| Self {
            point,
            action: actions[place / 3],
            arrangement: arrangements[place % 3],
        })
    }

    /// Runs it; answers how many copies were too many.
    pub async fn run(self) -> usize {
        let rabbit = Rabbit::connect().await;
        let orders = destination(&rabbit).await;
        let account = Arc::new(Account::default());
        let consumer = consume(&setting("TEST_AMQP_URL"), &orders, &account);
        let mut fleet = Fleet::of(self, &orders);
        let load = fleet.reach(self, &account).await;
        fleet.suffer(self).await;
        let nowhere = load.end().await;
        all_arrived(&account).await;
        fleet.rests(&nowhere, self.copies_max()).await;
        eventually_is(0, || rabbit.ready(&orders)).await;
        let copies = account.settle_up();
        assert!(copies <= self.copies_max(), "{self}: {copies} copies");
        consumer.abort();
        copies
    }

    /// What `CRASH_AT` is to be.
    fn plan(self) -> String {
        // Late enough that much is under way.
        let nth = match self.point {
            Point::CapturedUnparked
            | Point::ParkedUnanswered
            | Point::ParkedUnproven
            | Point::ParkedUnacked
            | Point::AckedUnnoted
            | Point::ClaimedUnpublished
            | Point::PublishedUnconfirmed
            | Point::ConfirmedUnsettled
            | Point::SettledUnanswered => 3,
            Point::UnreleasedUnpostponed | Point::UnreleasedUnburied => 2,
            Point::RecoveredUnannounced | Point::OpenedUnserved | Point::StoppedUnflushed => 1,
        };
        format!("{}:{nth}:{}", self.point.name(), self.action.name())
    }

    /// A graceful stop costs no copy. Who freezes for a while loses its leases; the broker does not
    /// notice.
    fn copies_max(self) -> usize {
        let kill = PREFETCH + IN_FLIGHT;
        let before = if self.point == Point::RecoveredUnannounced { kill } else { 0 };
        before
            + match self.action {
                Action::Abort => kill,
                Action::Stop => IN_FLIGHT,
                Action::Term => 0,
            }
    }

    /// Short where it must run out. Where it need not, a slow machine shall cost no copy.
    fn lease(self) -> &'static str {
        match self.action {
            Action::Term if self.point != Point::RecoveredUnannounced => "20s",
            _ => "2s",
        }
    }
}

/// The replica that it happens to, others beside it, and the last of them to be asked.
struct Fleet {
    orders: String,
    victim: Sidecar,
    others: Vec<Sidecar>,
    /// Where the victim parks, unless in Redis.
    _directory: Option<TempDir>,
}

impl Fleet {
    fn of(cell: Cell, orders: &str) -> Self {
        let mut victim = Sidecar::new(&[orders]);
        victim.set("RELEASE__LEASE", cell.lease());
        victim.set("RELEASE__BATCH", "20");
        victim.set("RELEASE__MAX_IN_FLIGHT", &IN_FLIGHT.to_string());
        victim.set("INTAKE__PREFETCH", &PREFETCH.to_string());
        // What has nowhere to go is refused twice.
        victim.set("RELEASE__RETRY__FIRST", "100ms");
        victim.set("RELEASE__RETRY__MAX", "200ms");
        victim.set("RELEASE__RETRY__ATTEMPTS", "2");
        let directory = (cell.arrangement == Arrangement::OneOnItsFile).then(|| {
            let directory = tempfile::tempdir().expect("a directory");
            victim.park_in(directory.path());
            directory
        });
        let others = match cell.arrangement {
            Arrangement::ThreeOnRedis => vec![victim.twin(), victim.twin()],
            Arrangement::OneOnRedis | Arrangement::OneOnItsFile => Vec::new(),
        };
        Self { orders: orders.to_owned(), victim, others, _directory: directory }
    }

    /// Starts everything, in an order that lets the victim reach the point.
    async fn reach(&mut self, cell: Cell, account: &Arc<Account>) -> Load {
        let load = match cell.point {
            Point::OpenedUnserved => {
                // Somebody must have declared the capture exchange.
                self.victim.start().await;
                assert!(self.victim.stop().await);
                self.start_others().await;
                let load = Load::start(&self.orders, account).await;
                self.victim.crash_at(&cell.plan());
                self.victim.spawn();
                load
            }
            Point::RecoveredUnannounced => {
                self.victim.crash_at("claimed-unpublished:1:abort");
                self.victim.start().await;
                let load = Load::start(&self.orders, account).await;
                self.victim.ended().await;
                self.victim.crash_at(&cell.plan());
                self.victim.spawn();
                load
            }
            _ => {
                // First, so that it is the active consumer.
                self.victim.crash_at(&cell.plan());
                self.victim.start().await;
                self.start_others().await;
                let load = Load::start(&self.orders, account).await;
                if cell.point == Point::StoppedUnflushed {
                    a_while(200..1_000).await;
                    self.victim.signal(Signal::SIGTERM);
                }
                load
            }
        };
        let reached = format!("crash point {}", cell.point.name());
        let look = || async { self.victim.log().contains(&reached).then_some(()) };
        eventually_or(&format!("{cell} is reached"), look, || self.victim.log()).await;
        if cell.point == Point::RecoveredUnannounced {
            // Not earlier: they would have been quicker.
            self.start_others().await;
        }
        load
    }

    async fn start_others(&mut self) {
        for other in &mut self.others {
            other.start().await;
        }
    }

    /// What follows the crash: others take over, or the only one is started again.
    async fn suffer(&mut self, cell: Cell) {
        let stops = cell.point == Point::StoppedUnflushed;
        match cell.action {
            Action::Abort => {
                let status = self.victim.ended().await;
                assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "{cell}: {status}");
            }
            Action::Stop => {
                // Beyond its lease, and what others need to notice.
                a_while(2_600..3_600).await;
                self.victim.signal(Signal::SIGCONT);
                if stops {
                    assert!(self.victim.ended().await.success(), "{cell}: it stops");
                }
            }
            Action::Term => assert!(self.victim.ended().await.success(), "{cell}: it stops"),
        }
        self.victim.crash_at("");
        if self.others.is_empty() && (cell.action != Action::Stop || stops) {
            self.victim.start().await;
        }
        if cell.action == Action::Stop && !stops {
            self.victim.ready().await;
        }
    }

    /// Nothing is left but what had nowhere to go, which is dead, and all of it.
    async fn rests(&self, nowhere: &BTreeSet<String>, copies_max: usize) {
        let asked = self.others.last().unwrap_or(&self.victim);
        // In one look: between two of them a message may be given back.
        eventually_is(0.0, || async { asked.metrics(&["xdelay_parked", "xdelay_leased"]) }).await;
        let path = format!("/v1/messages?state=dead&destination={}&limit=500", self.orders);
        let (status, page) = asked.get(&path).expect("an answer");
        assert_eq!(status, 200, "{page}");
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        let messages = page["messages"].as_array().expect("messages");
        let dead: Vec<_> =
            messages.iter().map(|it| it["id"].as_str().unwrap_or("?").to_owned()).collect();
        assert!(dead.len() <= nowhere.len() + copies_max, "{} dead", dead.len());
        assert_eq!(dead.iter().cloned().collect::<BTreeSet<_>>(), *nowhere);
        if !asked.setting("REDIS__URL").is_empty() {
            self.bodies_are_indexed(asked, dead.len()).await;
        }
    }

    /// A body for every dead message, and for nothing else.
    async fn bodies_are_indexed(&self, asked: &Sidecar, dead: usize) {
        let mut redis = connection(asked.setting("REDIS__URL")).await;
        let pattern = format!("{}:{{amqp*", asked.setting("REDIS__NAMESPACE"));
        let keys: Vec<String> = redis.keys(pattern).await.expect("keys");
        let mut bodies = 0;
        for key in keys {
            assert!(!key.ends_with(":due") && !key.ends_with(":lease"), "{key} is not empty");
            if key.ends_with(":msg") {
                bodies += redis.hlen(&key).await.expect("a hash");
            }
        }
        assert_eq!(bodies, dead);
    }
}
