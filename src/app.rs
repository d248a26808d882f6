//! Puts the parts together; the order in which they start and stop.
//!
//! Start: admin API (so that `/ready` can say what is missing), proxy, store, brokers, then recovering,
//! releasing and taking in. Stop: the proxy; take no more in, finish and ack what is in hand; then claim no
//! more, finish and settle what is in hand; then close. All of that within a deadline, and what
//! is not done by then is safe all the same: unacked in the broker, or leased in the store.

mod parts;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use self::parts::{Parts, redis_store, store};
pub use self::watch::Watched;
use crate::admin;
use crate::config::{self, Config};
use crate::crash::{self, Point};
use crate::finding::Finding;
use crate::health::START;
use crate::intake::IntakeLoop;
use crate::proxy::Proxy;
use crate::recover::RecoverLoop;
use crate::release::{self, ReleaseLoop};
use crate::retry::Backoff;
use crate::shutdown::{self, Shutdown, Trigger};

/// How long stopping may take: orchestrators kill after thirty seconds.
const STOP_WITHIN: Duration = Duration::from_secs(25);
/// How long saying goodbye to the brokers and sending the last spans may take after that.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// How much of that the intake may have.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// Runs xdelay until `signal` resolves, then stops it.
///
/// # Errors
/// Only when it cannot start at all, such as when its own address is taken. Brokers and stores
/// that are away are waited for.
pub async fn run(config: Config, signal: impl Future<Output = ()>) -> anyhow::Result<()> {
    let parts = Parts::new(&config)?;
    let listen = config.admin.listen;
    let listener = admin::bind(listen).await.with_context(|| {
        format!("admin.listen = {listen} cannot be had; is another xdelay running?")
    })?;
    say_hello(&config);
    let (stop_all, all) = shutdown::channel();
    let mut served = JoinSet::new();
    served.spawn(admin::serve(listener, parts.admin_state(&config, all.clone()), all));
    let (stop_proxy, proxied) = shutdown::channel();
    if let Some(proxy) = proxy(&parts, &config).await? {
        served.spawn(proxy.run(proxied));
    }
    let (stop_intake, intake) = shutdown::channel();
    let (stop_release, release) = shutdown::channel();
    let stop_release = Arc::new(stop_release);

    let working = work(&parts, &config, intake, (Arc::clone(&stop_release), release));
    tokio::pin!(working);
    tokio::select! {
        () = &mut working => {}
        () = signal => {
            tracing::info!("stopping: takes in no more, finishes what is in hand");
            stop_proxy.stop();
            stop_intake.stop();
            let late = async {
                tokio::time::sleep(DRAIN_WITHIN).await;
                stop_release.stop();
                std::future::pending::<()>().await;
            };
            let stopping = async {
                tokio::select! {
                    () = &mut working => {}
                    () = late => {}
                }
            };
            if timeout(STOP_WITHIN, stopping).await.is_err() {
                tracing::warn!("stopped before all was finished; nothing is lost by that");
            }
        }
    }
    let closing = join_all(parts.brokers.iter().map(|broker| broker.close()));
    let _ = timeout(CLOSE_WITHIN, async { tokio::join!(closing, parts.close_traces()) }).await;
    stop_all.stop();
    let all_served = async { while served.join_next().await.is_some() {} };
    let _ = timeout(Duration::from_secs(1), all_served).await;
    tracing::info!("stopped");
    Ok(())
}

/// The proxy with its port, where there is to be one.
async fn proxy(parts: &Parts, config: &Config) -> anyhow::Result<Option<Proxy>> {
    let (Some(settings), Some(amqp)) = (&config.proxy, &parts.amqp) else { return Ok(None) };
    let (clock, amqp) = (Arc::clone(&parts.clock), Arc::clone(amqp));
    let (destinations, health) = (Arc::clone(&parts.destinations), Arc::clone(&parts.health));
    let metrics = Arc::clone(&parts.metrics);
    Proxy::bind(settings, config, clock, amqp, destinations, health, metrics).await.map(Some)
}

/// Opens the store and runs all loops until they are stopped. Each broker's begin when it is known
/// that the store parks for it, whatever becomes of the others.
async fn work(
    parts: &Parts,
    config: &Config,
    mut intake: Shutdown,
    (stop_release, release): (Arc<Trigger>, Shutdown),
) {
    tokio::select! {
        () = until_done(parts, START, || parts.open()) => {}
        () = intake.requested() => return,
    }
    if let (Some(proxy), Some(amqp)) = (&config.proxy, &parts.amqp) {
        Proxy::resume(proxy, amqp, &parts.destinations);
    }
    let mut loops = JoinSet::new();
    loops.spawn(watch::watch_health(parts.watched(), release.clone()));
    let recover = RecoverLoop {
        store: Arc::clone(&parts.store) as _,
        lease: config.release.lease,
        destinations: Arc::clone(&parts.destinations),
        metrics: Arc::clone(&parts.metrics),
    };
    loops.spawn(recover.run(release.clone()));
    say_unserved(parts);
    let mut taking_in = JoinSet::new();
    for releasing in &parts.releasing {
        let (parts, releasing) = (parts.clone(), Arc::clone(releasing));
        let (intake, release) = (intake.clone(), release.clone());
        taking_in.spawn(serve(parts, releasing, config.delay.on_invalid, intake, release));
    }
    loops.spawn(async move {
        let mut releasing = JoinSet::new();
        while let Some(served) = taking_in.join_next().await {
            match served {
                Ok(Some(loops)) => drop(releasing.spawn(loops)),
                Ok(None) => {}
                Err(error) => tracing::error!(%error, "a loop ended by itself"),
            }
        }
        // Nothing more comes in: what is in hand is finished, and then releasing ends too.
        stop_release.stop();
        while releasing.join_next().await.is_some() {}
    });
    while let Some(ended) = loops.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a loop ended by itself");
            parts.health.report(Finding::bad("xdelay", format!("a loop ended: {error}")));
        }
    }
}

/// Waits for one broker, then runs its loops. Ends with its intake, and answers what releasing is
/// still to be waited for.
async fn serve(
    parts: Parts,
    releasing: Arc<release::Shared>,
    on_invalid: config::OnInvalid,
    mut intake: Shutdown,
    release: Shutdown,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    let broker = Arc::clone(&releasing.broker);
    let subject = format!("{START} {}", broker.kind().as_str());
    tokio::select! {
        () = until_done(&parts, &subject, || parts.bind(&*broker)) => {}
        () = intake.requested() => return None,
    }
    crash::pass(Point::OpenedUnserved);
    let taking_in = IntakeLoop {
        broker,
        store: Arc::clone(&parts.store) as _,
        on_invalid,
        destinations: Arc::clone(&parts.destinations),
        health: Arc::clone(&parts.health),
        metrics: Arc::clone(&parts.metrics),
    };
    let released = tokio::spawn(release_all(parts, releasing, release));
    taking_in.run(intake).await;
    Some(async move { drop(released.await) })
}

/// Tries until it is done, and says under `subject` what is in the way.
async fn until_done<F: Future<Output = Result<(), String>>>(
    parts: &Parts,
    subject: &str,
    done: impl Fn() -> F,
) {
    parts.health.expect(subject);
    let mut backoff = Backoff::for_connections();
    while let Err(why) = done().await {
        parts.health.report(Finding::bad(subject, format!("waits: {why}")));
        tokio::time::sleep(backoff.failed()).await;
    }
    parts.health.report(Finding::good(subject, "open"));
}

/// What is parked for a broker that is no longer configured goes nowhere.
fn say_unserved(parts: &Parts) {
    let served = |kind| parts.brokers.iter().any(|broker| broker.kind() == kind);
    for destination in parts.destinations.all() {
        if !served(destination.broker) {
            let why = "what is parked for it stays, since no broker of its kind is configured";
            parts.health.report(Finding::warning(format!("release {destination}"), why));
        }
    }
}

/// Runs a release loop for every destination of one broker, those that turn up later included.
async fn release_all(parts: Parts, releasing: Arc<release::Shared>, shutdown: Shutdown) {
    let kind = releasing.broker.kind();
    let mut count = parts.destinations.watch();
    let mut started = std::collections::BTreeSet::new();
    let mut loops = JoinSet::new();
    while !shutdown.is_requested() {
        for destination in parts.destinations.all() {
            if destination.broker == kind
                && let Some(alarm) = parts.destinations.alarm(&destination)
                && started.insert(destination.clone())
            {
                let metrics = parts.metrics.of(&destination);
                let releasing = Arc::clone(&releasing);
                let release = ReleaseLoop::new(releasing, destination, alarm, metrics);
                loops.spawn(release.run(shutdown.clone()));
            }
        }
        let mut stop = shutdown.clone();
        tokio::select! {
            _ = count.changed() => {}
            () = stop.requested() => {}
        }
    }
    while loops.join_next().await.is_some() {}
}

fn say_hello(config: &Config) {
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, "xdelay starts");
    for exchange in &config.amqp.exchanges {
        tracing::info!(
            "captures: publish to `xdelay.{exchange}` with `x-delay`, released to `{exchange}`"
        );
    }
    if let Some(config::Proxy { listen, exchanges, .. }) = &config.proxy {
        let exchanges = exchanges.join(", ");
        tracing::info!("proxy on amqp://{listen}, delays what is published to {exchanges}");
    }
    match &config.kafka.topics {
        config::Topics::Named(topics) => {
            for topic in topics {
                tracing::info!(
                    "captures: write to `xdelay.{topic}` with `x-delay`, released to `{topic}`"
                );
            }
        }
        config::Topics::All => {
            tracing::info!("captures: every topic `xdelay.<topic>`, released to `<topic>`");
        }
    }
    match &config.store {
        config::Store::Redis(config::Redis { url, namespace, durability, .. }) => {
            tracing::info!("parks in {url}, namespace `{namespace}`, durability {durability:?}");
        }
        config::Store::Embedded(path) => {
            tracing::info!("parks in {}, synced on every write", path.display());
        }
    }
    tracing::info!("admin API on http://{}", config.admin.listen);
}
