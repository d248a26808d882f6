//! What is read again, what is missing, and what is not the topic it was.

use nix::sys::signal::Signal;

use crate::support::kafka::{Kafka, text};
use crate::support::redis::{PrivateRedis, connection};
use crate::support::sidecar::Sidecar;
use crate::support::{eventually, eventually_is, setting};

async fn redis(url: &str, command: &[&str]) {
    let mut call = ::redis::cmd(command[0]);
    let mut connection = connection(url).await;
    let _: ::redis::Value = call.arg(&command[1..]).query_async(&mut connection).await.expect("ok");
}

/// One topic of one partition, and a sidecar that is ready.
async fn stage() -> (Kafka, String, String, Sidecar) {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.start().await;
    let capture = format!("xdelay.{orders}");
    (kafka, orders, capture, sidecar)
}

fn mark_key(sidecar: &Sidecar, orders: &str) -> String {
    format!("{}:{{kafka:{orders}:0}}:mark", sidecar.setting("REDIS__NAMESPACE"))
}

/// The group forgets, or another group reads: what was released is not released again.
#[tokio::test]
async fn what_is_read_again_is_not_released_again() {
    let (kafka, orders, capture, mut sidecar) = stage().await;
    let mut inbox = kafka.read(&orders);
    for n in 0..10 {
        kafka.write_delayed(&capture, &n.to_string(), 10).await;
    }
    inbox.take(10).await;
    sidecar.kill();
    sidecar.set("KAFKA__GROUP", &crate::support::unique("another"));
    sidecar.start().await;
    kafka.write_delayed(&capture, "new", 10).await;
    assert_eq!(text(&inbox.next().await), "new");
}

/// As after a failover that lost the last second: the mark went back with what was parked.
#[tokio::test]
async fn a_store_that_lost_its_last_second_is_filled_again_from_the_topic() {
    let (kafka, orders, capture, sidecar) = stage().await;
    let url = setting("TEST_REDIS_URL");
    for n in 0..5 {
        kafka.write_delayed(&capture, &n.to_string(), 6_000).await;
    }
    eventually_is(5.0, || async { sidecar.metric("xdelay_parked") }).await;
    let bucket = mark_key(&sidecar, &orders);
    for part in ["due", "msg"] {
        redis(&url, &["DEL", &bucket.replace(":mark", &format!(":{part}"))]).await;
    }
    redis(&url, &["HSET", &bucket, "0", "0 0 -"]).await;
    assert_eq!(sidecar.metric("xdelay_parked"), 0.0);
    // The next batch finds the mark behind, and reading goes back there.
    kafka.write_delayed(&capture, "5", 10).await;
    let mut seen: Vec<_> = kafka.read(&orders).take(6).await.iter().map(text).collect();
    seen.sort();
    assert_eq!(seen, ["0", "1", "2", "3", "4", "5"]);
    assert!(sidecar.log().contains("the store stands elsewhere"), "{}", sidecar.log());
}

async fn emptied(from: &str) -> (Kafka, String, String, Sidecar, PrivateRedis) {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let capture = format!("xdelay.{orders}");
    let redis_server = PrivateRedis::start(&[]);
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.set("REDIS__URL", &redis_server.url());
    sidecar.start().await;
    for n in 0..3 {
        kafka.write_delayed(&capture, &n.to_string(), 600_000).await;
    }
    eventually_is(3.0, || async { sidecar.metric("xdelay_parked") }).await;
    assert!(sidecar.stop().await, "it told the group");
    redis(&redis_server.url(), &["FLUSHALL"]).await;
    sidecar.spawn();
    let said = sidecar.unready_saying("--from=topic").await;
    assert!(said.contains("--from=group"), "{said}");
    kafka.write_delayed(&capture, "new", 1).await;
    assert_eq!(sidecar.metric("xdelay_captured_total"), 0.0, "it does not guess");
    assert!(sidecar.stop().await);
    sidecar.spawn_with(&[&format!("--from={from}")]);
    sidecar.ready().await;
    assert_eq!(text(&kafka.read(&orders).next().await), "new");
    (kafka, orders, capture, sidecar, redis_server)
}

#[tokio::test]
async fn an_emptied_store_stops_and_reads_the_topic_when_told_to() {
    let (_, _, _, sidecar, _redis) = emptied("topic").await;
    eventually_is(3.0, || async { sidecar.metric("xdelay_parked") }).await;
}

#[tokio::test]
async fn an_emptied_store_goes_on_at_the_group_when_told_to() {
    let (_, _, _, mut sidecar, _redis) = emptied("group").await;
    assert_eq!(sidecar.metric("xdelay_captured_total"), 1.0);
    // The answer was for once: with its marks back, the store decides again.
    assert!(sidecar.stop().await);
    sidecar.start().await;
}

#[tokio::test]
async fn what_retention_removed_unread_is_counted_and_said() {
    let (kafka, orders, capture, mut sidecar) = stage().await;
    let mut inbox = kafka.read(&orders);
    for n in 0..4 {
        kafka.write_delayed(&capture, &n.to_string(), 10).await;
    }
    inbox.take(4).await;
    assert!(sidecar.stop().await);
    for n in 4..10 {
        kafka.write_delayed(&capture, &n.to_string(), 10).await;
    }
    kafka.delete_before(&capture, 0, 7).await;
    sidecar.start().await;
    let seen: Vec<_> = inbox.take(3).await.iter().map(text).collect();
    assert_eq!(seen, ["7", "8", "9"]);
    assert_eq!(sidecar.metric("xdelay_missed_total"), 3.0);
    assert!(sidecar.log().contains("retention removed records"), "{}", sidecar.log());
}

/// The same under a replica that reads: where it stood there is nothing any more.
#[tokio::test]
async fn what_retention_removed_under_a_reader_is_counted_and_said() {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let capture = format!("xdelay.{orders}");
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    // It stays in the group while it stands still.
    sidecar.set("KAFKA__PROPERTIES__SESSION__TIMEOUT__MS", "30000");
    sidecar.start().await;
    let mut inbox = kafka.read(&orders);
    kafka.write_delayed(&capture, "first", 10).await;
    inbox.take(1).await;
    sidecar.signal(Signal::SIGSTOP);
    for n in 1..9 {
        kafka.write_delayed(&capture, &n.to_string(), 10).await;
    }
    kafka.write_delayed(&capture, "last", 10).await;
    kafka.delete_before(&capture, 0, 9).await;
    sidecar.signal(Signal::SIGCONT);
    let mut arrived = 0;
    while text(&inbox.next().await) != "last" {
        arrived += 1;
    }
    // What was asked for before it stood still may be answered yet.
    assert!(arrived < 8, "{arrived} arrived");
    assert_eq!(sidecar.metric("xdelay_missed_total"), 8.0 - f64::from(arrived));
    assert!(sidecar.log().contains("retention removed records"), "{}", sidecar.log());
    sidecar.ready().await;
}

/// With fewer records than before, and with more: the end of the old one lies inside the new.
#[tokio::test]
async fn a_topic_created_anew_is_read_from_its_beginning() {
    for count in [2, 9] {
        let (kafka, orders, capture, mut sidecar) = stage().await;
        let mut inbox = kafka.read(&orders);
        for n in 0..5 {
            kafka.write_delayed(&capture, &format!("old {n}"), 10).await;
        }
        inbox.take(5).await;
        // One of the old life is still parked, under the place that a new one will have.
        kafka.write_delayed(&capture, "old and parked", 4_000).await;
        eventually_is(1.0, || async { sidecar.metric("xdelay_parked") }).await;
        assert!(sidecar.stop().await);
        kafka.delete(&capture).await;
        eventually("it is gone", || async {
            (!kafka.topics().await.contains(&capture)).then_some(())
        })
        .await;
        kafka.create(&capture, 1, &[]).await;
        for n in 0..count {
            kafka.write_delayed(&capture, &format!("new {n}"), 10).await;
        }
        sidecar.start().await;
        let mut seen: Vec<_> = inbox.take(count + 1).await.iter().map(text).collect();
        seen.sort();
        let mut expected: Vec<_> = (0..count).map(|n| format!("new {n}")).collect();
        expected.push("old and parked".to_owned());
        assert_eq!(seen, expected);
        assert_eq!(sidecar.metric("xdelay_recreated_total"), 1.0);
    }
}

/// What a full store refuses is not passed by what comes behind it.
#[tokio::test]
async fn a_batch_that_a_full_store_refused_is_not_skipped_by_a_later_one() {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let capture = format!("xdelay.{orders}");
    let server = PrivateRedis::start(&[]);
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.set("REDIS__URL", &server.url());
    sidecar.start().await;
    redis(&server.url(), &["CONFIG", "SET", "maxmemory", "1"]).await;
    for n in 0..5 {
        kafka.write_delayed(&capture, &n.to_string(), 10).await;
    }
    sidecar.unready_saying("nothing is parked").await;
    for n in 5..10 {
        kafka.write_delayed(&capture, &n.to_string(), 10).await;
    }
    let told = kafka.committed(sidecar.setting("KAFKA__GROUP"), &capture, 0).await;
    assert_eq!(told, None, "nothing is parked, and so nothing is told");
    redis(&server.url(), &["CONFIG", "SET", "maxmemory", "0"]).await;
    let mut seen: Vec<_> = kafka.read(&orders).take(10).await.iter().map(text).collect();
    seen.sort();
    assert_eq!(seen, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    eventually_is(10.0, || async { sidecar.metric("xdelay_captured_total") }).await;
    sidecar.ready().await;
}
