//! Being polled, being thrown out, and coming back: the group as librdkafka keeps it.

use nix::sys::signal::Signal;

use crate::support::kafka::{Kafka, text};
use crate::support::redis::PrivateRedis;
use crate::support::sidecar::Sidecar;
use crate::support::{a_while, eventually};

/// The shortest that librdkafka takes beside the tests' session of three seconds.
const POLL_MAX_MS: u64 = 6_000;

/// One topic, and a sidecar that must be polled in time.
async fn stage() -> (Kafka, String, Sidecar) {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.set("KAFKA__PROPERTIES__MAX__POLL__INTERVAL__MS", &POLL_MAX_MS.to_string());
    (kafka, orders, sidecar)
}

async fn write(kafka: &Kafka, orders: &str, numbers: std::ops::Range<usize>) {
    for n in numbers {
        kafka.write_delayed(&format!("xdelay.{orders}"), &n.to_string(), 10).await;
    }
}

/// One of too many replicas says that it reads nothing, and what it reads when it takes over.
#[tokio::test]
async fn ready_says_how_many_partitions_are_read() {
    let (_kafka, _orders, mut first) = stage().await;
    let mut second = first.twin();
    first.start().await;
    second.start().await;
    let reads = |sidecar: &Sidecar, what: &str| {
        let found = sidecar.get("/ready").is_some_and(|(_, body)| body.contains(what));
        found.then_some(())
    };
    // Which of the two it is, the group decides.
    let idle = eventually("one too many", async || {
        [(&second, "second"), (&first, "first")]
            .into_iter()
            .find_map(|(it, name)| reads(it, "reads no partition").map(|()| name))
    })
    .await;
    let (mut busy, idle) = if idle == "second" { (first, second) } else { (second, first) };
    eventually("the other reads", async || reads(&busy, "reads 1 partitions")).await;
    assert!(busy.stop().await);
    eventually("it took over", async || reads(&idle, "reads 1 partitions")).await;
}

/// While nothing can be parked the thread goes on polling: nobody is thrown out for it.
#[tokio::test]
async fn a_long_outage_of_the_store_costs_no_partition() {
    let (kafka, orders, mut sidecar) = stage().await;
    let redis = PrivateRedis::start(&[]);
    sidecar.set("REDIS__URL", &redis.url());
    // So little that what is read has nowhere to go.
    sidecar.set("INTAKE__PREFETCH", "10");
    sidecar.start().await;
    redis.kill();
    write(&kafka, &orders, 0..100).await;
    sidecar.unready_saying("redis").await;
    a_while(POLL_MAX_MS + 2_000..POLL_MAX_MS + 3_000).await;
    redis.start_again(&[]);
    let seen: Vec<_> = kafka.read(&orders).take(100).await.iter().map(text).collect();
    let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(seen, expected);
    assert!(!sidecar.log().contains("gives partitions up"), "{}", sidecar.log());
}

/// Who was not polled in time is thrown out by itself, says so, and comes back by itself.
#[tokio::test]
async fn who_is_thrown_out_for_not_polling_comes_back() {
    let (kafka, orders, mut sidecar) = stage().await;
    // The group would wait for it; librdkafka does not.
    sidecar.set("KAFKA__PROPERTIES__SESSION__TIMEOUT__MS", "6000");
    sidecar.start().await;
    let mut inbox = kafka.read(&orders);
    write(&kafka, &orders, 0..10).await;
    inbox.take(10).await;
    sidecar.signal(Signal::SIGSTOP);
    a_while(POLL_MAX_MS + 1_000..POLL_MAX_MS + 2_000).await;
    sidecar.signal(Signal::SIGCONT);
    write(&kafka, &orders, 10..20).await;
    let seen: Vec<_> = inbox.take(10).await.iter().map(text).collect();
    let expected: Vec<_> = (10..20).map(|n| n.to_string()).collect();
    assert_eq!(seen, expected, "each once, and none of the first again");
    assert!(sidecar.log().contains("gives partitions up"), "{}", sidecar.log());
    sidecar.ready().await;
}
