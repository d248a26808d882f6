//! A client that stops reading is pushed back on: what it does not take stays in the broker.

use std::time::Duration;

use lapin::types::AMQPValue;

use super::support::proxied;
use crate::support::fault_proxy::{FaultProxy, Weather};
use crate::support::rabbit::{Rabbit, headers};
use crate::support::sidecar::Sidecar;
use crate::support::{eventually, eventually_is};

const MESSAGES: usize = 400;
const MESSAGE_BYTES: usize = 256 << 10;
/// Far below what is sent, far above what sockets, allocators and a busy xdelay may hold.
const GROWTH_MAX: u64 = 40 << 20;
/// Looks in which nothing more may go out before it counts as standing still.
const STILL: usize = 100;

/// What went out to clients so far.
fn passed(sidecar: &Sidecar) -> f64 {
    let (_, metrics) = sidecar.get("/metrics").expect("metrics");
    let line = metrics.lines().find(|it| it.starts_with("xdelay_proxy_bytes_total{to=\"client\"}"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stops_reading_grows_nothing_and_holds_up_nobody() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let straight = Rabbit::connect().await;
    let orders = straight.destination().await;
    let network = FaultProxy::before(&url).await;
    let slow = Rabbit::connect_to(&network.url(&url)).await;
    let mut inbox = slow.consume(&orders).await;
    let before = sidecar.memory();

    network.set(Weather { silent: true, ..Weather::default() });
    let body = vec![b'x'; MESSAGE_BYTES];
    for _ in 0..MESSAGES {
        straight.publish(&orders, headers([]), &body).await;
    }
    let (mut last, mut still) = (0.0, 0);
    eventually("no more goes out", || {
        let now = passed(&sidecar);
        still = if now == last { still + 1 } else { 0 };
        last = now;
        async move { (still > STILL).then_some(()) }
    })
    .await;
    assert!(last < (MESSAGES * MESSAGE_BYTES / 2) as f64, "{last} bytes went somewhere");
    let grown = sidecar.memory().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more for a client that does not read");

    // Others are served meanwhile, and what it had not read comes when it reads again.
    let quick = Rabbit::connect_to(&url).await;
    let elsewhere = straight.destination().await;
    let mut arrivals = straight.consume(&elsewhere).await;
    let delayed = headers([("x-delay", AMQPValue::LongInt(50))]);
    quick.publish(&elsewhere, delayed, b"in time").await;
    assert_eq!(arrivals.next().await.data, b"in time");
    network.calm();
    for n in 0..MESSAGES {
        let got = inbox.next_within(Duration::from_secs(30)).await;
        assert_eq!(got.expect("it is kept").data.len(), MESSAGE_BYTES, "{n}");
    }
}

#[tokio::test]
async fn what_the_proxy_does_is_counted() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    let orders = client.destination().await;
    client.publish(&orders, headers([("x-delay", AMQPValue::LongInt(1))]), b"later").await;
    client.publish(&orders, headers([]), b"now").await;
    let shows = |what: &str| {
        let (_, metrics) = sidecar.get("/metrics").expect("metrics");
        metrics.lines().any(|line| line == what)
    };
    for line in [
        "xdelay_proxy_connections 1",
        "xdelay_proxy_accepted_total 1",
        "xdelay_proxy_delayed_total 1",
        "xdelay_proxy_refused_total 0",
    ] {
        assert!(shows(line), "{line}");
    }
    assert!(passed(&sidecar) > 100.0);
    client.connection.close(200, "done".into()).await.expect("closed");
    eventually_is(true, async || shows("xdelay_proxy_connections 0")).await;
}
