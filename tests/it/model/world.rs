//! Two replicas, a store and a broker, and the clock that they share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use xdelay::broker::memory::{MemoryBroker, Published};
use xdelay::broker::{Broker, NotReleased};
use xdelay::clock::{StoreClock, WallClock, instant};
use xdelay::config::{OnInvalid, OnUnroutable, Release, Retry};
use xdelay::delay::{When, Wish};
use xdelay::destinations::Destinations;
use xdelay::health::Health;
use xdelay::intake::IntakeLoop;
use xdelay::message::{Destination, ProducerId, Reason};
use xdelay::metrics::Metrics;
use xdelay::recover::RecoverLoop;
use xdelay::release::{Limiter, ReleaseLoop, Shared};
use xdelay::shutdown::{self, Trigger};
use xdelay::store::embedded::EmbeddedStore;
use xdelay::store::{Seen, Start, State, Steer, Step as Steer_, Store};

use super::broker::{GatedBroker, Turn};
use super::gate::{Gate, Plan};
use super::operator::Operator;
use super::store::GatedStore;
use super::story::{Deed, Refusal, Steering, Step, Story};
use crate::support::invariants::{self, Event, History, Terms};
use crate::support::witness::{Log, Witness};

/// What the clock shows when a story begins.
const BEGIN: u64 = 1_800_000_000_000;
const LEASE: Duration = Duration::from_secs(2);
/// How long a replica that crashed stays away.
const AWAY: Duration = Duration::from_millis(300);
/// How late a message may be once nothing is wrong: a lease, until somebody looks, and the longest
/// waits of the loops.
const PATIENCE: Duration = Duration::from_secs(30);

/// Both replicas, and all that they meet.
struct World {
    begin: Instant,
    time: WallClock,
    broker: MemoryBroker,
    embedded: Arc<EmbeddedStore>,
    witness: Arc<Witness>,
    log: Arc<Log>,
    plan: Arc<Plan>,
    turn: watch::Sender<Turn>,
    replicas: [Option<Replica>; 2],
    /// When those that are away come back.
    back: [Option<Instant>; 2],
    /// Those who wait for an answer.
    operators: JoinSet<()>,
    published: usize,
}

struct Replica {
    tasks: JoinSet<()>,
    stop: Trigger,
}

/// What a story came to.
pub struct Told {
    pub history: History,
    /// How many calls met a fate.
    pub calls: usize,
}

/// Tells a story to its end.
///
/// # Errors
/// Which invariants it broke, and what happened.
pub fn tell(story: &Story) -> Result<Told, String> {
    fastrand::seed(story.seed);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let mut world = World::begin(story);
        for step in &story.steps {
            world.step(*step).await;
        }
        let healed = world.heal().await;
        let messages = world.published;
        let terms = Terms {
            copies: Some(story.mishaps() * messages),
            healed: Some((healed, PATIENCE.as_millis() as u64)),
            may_lose: false,
        };
        let history = world.log.history();
        let told = world.plan.told().join("\n");
        invariants::check(&history, &terms).map_err(|report| format!("{report}\n{told}\n"))?;
        Ok(Told { history, calls: world.plan.calls() })
    })
}

fn orders() -> Destination {
    Destination::amqp("orders")
}

fn producer_id(id: u8) -> ProducerId {
    ProducerId::new(&[b'a' + id]).expect("an id")
}

fn refusal(of: Refusal) -> NotReleased {
    let reason = Reason::new("model", "the model wants it so");
    match of {
        Refusal::Refused => NotReleased::Refused(reason),
        Refusal::Hopeless => NotReleased::Hopeless(reason),
        Refusal::Waiting => NotReleased::Waiting(reason),
        Refusal::Unconfirmed => NotReleased::Unconfirmed(reason),
    }
}

fn settings() -> Release {
    Release {
        batch: 2,
        lease: LEASE,
        max_in_flight: 4,
        dead_max: None,
        rate_limit: None,
        on_unroutable: OnUnroutable::Retry,
        retry: Retry {
            first: Duration::from_millis(50),
            max: Duration::from_millis(500),
            attempts: 3,
        },
    }
}

impl World {
    fn begin(story: &Story) -> Self {
        let time = WallClock::Simulated { at: BEGIN, since: instant() };
        let embedded = EmbeddedStore::in_memory(time, Arc::default()).expect("a store");
        let (embedded, log) = (Arc::new(embedded), Arc::new(Log::new(time)));
        let mut world = Self {
            begin: Instant::now(),
            time,
            broker: MemoryBroker::new("orders"),
            witness: Arc::new(Witness::new(Arc::clone(&embedded) as _, Arc::clone(&log))),
            embedded,
            log,
            plan: Plan::new(&story.fates),
            turn: watch::Sender::new((0, 0)),
            replicas: [None, None],
            back: [None, None],
            operators: JoinSet::new(),
            published: 0,
        };
        (0..2).for_each(|which| world.start(which));
        world
    }

    fn start(&mut self, which: usize) {
        let gate = self.gate(which);
        let store: Arc<dyn Store> = Arc::new(GatedStore {
            witness: Arc::clone(&self.witness),
            embedded: Arc::clone(&self.embedded),
            gate: gate.clone(),
        });
        let broker: Arc<dyn Broker> = Arc::new(GatedBroker {
            inner: self.broker.clone(),
            store: Arc::clone(&self.witness),
            gate,
            log: Arc::clone(&self.log),
            turn: self.turn.subscribe(),
        });
        self.replicas[which] = Some(Replica::start(broker, store));
        self.back[which] = None;
        if self.replicas[self.turn.borrow().0].is_none() {
            self.hand_over(which);
        }
    }

    /// The way to a replica, and from it.
    fn gate(&self, replica: usize) -> Gate {
        Gate { plan: Arc::clone(&self.plan), replica, begin: self.begin, time: self.time }
    }

    /// The broker gives captures to this replica, beginning with what is not acked.
    fn hand_over(&self, to: usize) {
        self.turn.send_modify(|turn| *turn = (to, turn.1 + 1));
    }

    /// A replica is gone from one moment to the next.
    async fn end(&mut self, which: usize, away: Duration) {
        let Some(mut replica) = self.replicas[which].take() else { return };
        replica.tasks.shutdown().await;
        self.back[which] = Some(Instant::now() + away);
        if self.turn.borrow().0 == which {
            self.hand_over(1 - which);
        }
        self.look().await;
    }

    /// Lets time go on, with replicas that crash and come back.
    async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            while let Some(which) = self.plan.take_crashed() {
                self.end(which, AWAY).await;
            }
            for which in 0..2 {
                if self.back[which].is_some_and(|back| back <= Instant::now()) {
                    self.start(which);
                }
            }
            if Instant::now() >= end {
                return;
            }
            let next = self.back.iter().flatten().copied().chain([end]).min().unwrap_or(end);
            tokio::select! {
                biased;
                () = self.plan.crashed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    async fn step(&mut self, Step { after, deed }: Step) {
        self.pass(Duration::from_millis(after)).await;
        let at = self.begin.elapsed().as_millis();
        self.plan.tell(format!("{at:>8} ms  {deed:?}"));
        match deed {
            Deed::Publish { id, delay } => {
                let wish = Ok(Wish::Hold(When::In(delay), id.map(producer_id)));
                self.publish("m", self.log.now() + delay, wish);
            }
            Deed::PublishNonsense => {
                let reason = Reason::new("invalid", "x-delay cannot be read");
                self.publish("n", self.log.now(), Err(reason));
            }
            Deed::Cancel { id } => {
                self.publish("c", self.log.now(), Ok(Wish::Cancel(producer_id(id))));
            }
            Deed::Steer { which, how } => self.steer(which, how).await,
            Deed::Pause(paused) => {
                self.witness.pause(&orders(), paused).await.expect("an answer");
            }
            Deed::Kill { replica, away } => {
                self.end(usize::from(replica), Duration::from_millis(away)).await;
            }
            Deed::Restart { replica } => self.restart(usize::from(replica)).await,
            Deed::HandOver => {
                let (now, _) = *self.turn.borrow();
                self.hand_over(1 - now);
            }
            Deed::RefuseNext(of) => self.broker.answer_next(refusal(of)),
            Deed::RefuseAll(of) => self.broker.refuse_all(of.map(refusal)),
        }
        self.look().await;
    }

    fn publish(&mut self, kind: &str, not_before: u64, wish: Result<Wish, Reason>) {
        self.published += 1;
        let name = format!("{kind}{}", self.published);
        self.log.note(&name, Event::Published { not_before });
        self.broker.publish(Published { body: Bytes::from(name.clone()), wish, priority: 0 });
        self.log.note(&name, Event::Confirmed);
    }

    /// Stops a replica in order, as far as its calls let it, and starts it again.
    async fn restart(&mut self, which: usize) {
        let Some(mut replica) = self.replicas[which].take() else { return };
        replica.stop.stop();
        let all = async { while replica.tasks.join_next().await.is_some() {} };
        let _ = timeout(2 * LEASE, all).await;
        self.replicas[which] = Some(replica);
        self.end(which, Duration::ZERO).await;
    }

    async fn all_seen(&self) -> Vec<Seen> {
        let mut all = Vec::new();
        for state in State::ALL {
            let listing = self.witness.list(&orders(), state, Start::At(0), 500).await;
            all.extend(listing.expect("a listing").seen);
        }
        all
    }

    /// Somebody asks for it; what comes of that is seen while the story goes on.
    async fn steer(&mut self, which: u8, how: Steering) {
        let all = self.all_seen().await;
        if all.is_empty() {
            return;
        }
        let whom = all[usize::from(which) % all.len()].handle();
        let step = match how {
            Steering::Cancel => Steer_::Cancel,
            Steering::ReleaseNow => Steer_::Reschedule(When::AtOnce),
            Steering::Reschedule(ms) => Steer_::Reschedule(When::In(ms)),
            Steering::Bury => Steer_::Bury(Reason::new("model", "an operator wants it so")),
            Steering::Revive => Steer_::Revive(None),
        };
        let first = usize::from(which) % 2;
        let gates = [self.gate(first), self.gate(1 - first)];
        let operator = Operator { witness: Arc::clone(&self.witness), gates };
        self.operators.spawn(operator.ask(orders(), step, whom));
    }

    /// Notes what was acked, and what a crash would lose now.
    async fn look(&self) {
        let unacked = self.broker.unacked_bodies();
        let mut safe: Vec<String> =
            unacked.iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect();
        let acked = self.log.look(|history| {
            let acked = |(name, lines): (&str, &[invariants::Line])| {
                let told = lines.iter().any(|line| line.event == Event::Acked);
                (!told && !safe.iter().any(|it| it == name)).then(|| name.to_owned())
            };
            history.messages().filter_map(acked).collect::<Vec<_>>()
        });
        acked.iter().for_each(|name| self.log.note(name, Event::Acked));
        for seen in self.all_seen().await {
            safe.extend(self.log.name_of(&seen.uid));
        }
        let nowhere = self.log.look(|history| {
            let open = history.messages().filter(|(_, lines)| !invariants::is_over(lines));
            let names = open.map(|(name, _)| name.to_owned());
            names.filter(|name| !safe.contains(name)).collect::<Vec<_>>()
        });
        nowhere.iter().for_each(|name| self.log.note(name, Event::Nowhere));
    }

    /// Ends all faults, waits until nothing is left to do, and takes stock. Answers when that began.
    async fn heal(&mut self) -> u64 {
        self.plan.heal();
        self.broker.refuse_all(None);
        self.witness.pause(&orders(), false).await.expect("an answer");
        let healed = self.log.now();
        for _ in 0..PATIENCE.as_millis() / 100 {
            self.pass(Duration::from_millis(100)).await;
            let parked = self.witness.first(&orders(), State::Parked).await;
            let leased = self.witness.first(&orders(), State::Leased).await;
            while let Some(answered) = self.operators.try_join_next() {
                answered.expect("an operator asks to the end");
            }
            let at_rest = self.broker.unacked() == 0 && self.operators.is_empty();
            if at_rest && parked.or(leased).is_none() {
                break;
            }
        }
        self.look().await;
        self.witness.take_stock(&orders()).await;
        for which in 0..2 {
            if let Some(mut replica) = self.replicas[which].take() {
                replica.tasks.shutdown().await;
            }
        }
        healed
    }
}

impl Replica {
    fn start(broker: Arc<dyn Broker>, store: Arc<dyn Store>) -> Self {
        let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::default()));
        let destinations = Arc::new(Destinations::new(Arc::clone(&store)));
        let (stop, shutdown) = shutdown::channel();
        let mut tasks = JoinSet::new();
        let shared = Arc::new(Shared {
            broker: Arc::clone(&broker),
            store: Arc::clone(&store),
            in_flight: Arc::new(Semaphore::new(settings().max_in_flight)),
            limiter: Arc::new(Limiter::new(None)),
            settings: settings(),
            claim_bytes: 1 << 20,
            clock: Arc::new(StoreClock::new()),
            health: Arc::clone(&health),
        });
        let of = metrics.of(&orders());
        let (opened, stopping) = (Arc::clone(&destinations), shutdown.clone());
        tasks.spawn(async move {
            let alarm = opened.open(&orders()).await.expect("opened");
            ReleaseLoop::new(shared, orders(), alarm, of).run(stopping).await;
        });
        let recovering = RecoverLoop {
            store: Arc::clone(&store),
            lease: LEASE,
            destinations: Arc::clone(&destinations),
            metrics: Arc::clone(&metrics),
        };
        tasks.spawn(recovering.run(shutdown.clone()));
        let on_invalid = OnInvalid::Bury;
        let intake = IntakeLoop { broker, store, on_invalid, destinations, health, metrics };
        tasks.spawn(intake.run(shutdown));
        Self { tasks, stop }
    }
}
