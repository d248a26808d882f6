//! The commands and refusals as an operator meets them.

use super::support::rabbit::Rabbit;
use super::support::redis::PrivateRedis;
use super::support::sidecar::Sidecar;
use super::support::unique;

fn printed(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn check_says_that_all_is_well() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let output = Sidecar::new(&[&orders]).output_of(&["check"]);
    let table = printed(&output.stdout);
    assert!(output.status.success(), "{table}");
    for line in ["configuration", "redis version", "redis durability", "rabbitmq version"] {
        assert!(table.contains(line), "{table}");
    }
    assert!(table.contains(&format!("capture of {orders}")), "{table}");
    assert!(table.contains("all is well"), "{table}");
}

#[tokio::test]
async fn check_fails_and_says_what_to_set() {
    let missing = unique("nowhere");
    let redis = PrivateRedis::start(&["--appendonly", "no", "--maxmemory-policy", "allkeys-lru"]);
    let mut sidecar = Sidecar::new(&[&missing]);
    sidecar.set("REDIS__URL", &redis.url());
    let output = sidecar.output_of(&["check"]);
    let table = printed(&output.stdout);
    assert!(!output.status.success());
    for hint in ["appendonly yes", "maxmemory-policy noeviction", "no exchange", "grant this user"]
    {
        assert!(table.contains(hint), "{hint}\n{table}");
    }
}

#[tokio::test]
async fn check_of_what_is_away_ends_in_time_and_names_it_without_its_password() {
    let mut sidecar = Sidecar::new(&["orders"]);
    sidecar.set("AMQP__URL", "amqp://user:hunter2@127.0.0.1:1/%2f");
    sidecar.set("REDIS__URL", "redis://:hunter2@127.0.0.1:1");
    let output = sidecar.output_of(&["check"]);
    let table = printed(&output.stdout) + &printed(&output.stderr);
    assert!(!output.status.success());
    assert!(table.contains("127.0.0.1:1"), "{table}");
    assert!(!table.contains("hunter2"), "{table}");
}

#[tokio::test]
async fn a_bad_configuration_is_refused_before_anything_connects() {
    let mut sidecar = Sidecar::new(&["orders"]);
    sidecar.set("RELEASE__LEESE", "30s");
    sidecar.set("RELEASE__BATCH", "0");
    let output = sidecar.output_of(&["run"]);
    let said = printed(&output.stderr);
    assert!(!output.status.success());
    for hint in
        ["XDELAY_RELEASE__LEESE", "XDELAY_RELEASE__LEASE", "XDELAY_RELEASE__BATCH", "release.batch"]
    {
        assert!(said.contains(hint), "{hint}\n{said}");
    }
}

#[tokio::test]
async fn topology_prints_commands_with_the_rights() {
    let sidecar = Sidecar::new(&["orders", "payments"]);
    let output = sidecar.output_of(&["topology"]);
    let said = printed(&output.stdout);
    assert!(output.status.success());
    for part in [
        "declare queue name='xdelay.park.orders'",
        "declare exchange name='xdelay.payments' type=headers",
        r#""x-delivery-limit":2147483647"#,
        "set_permissions",
        "orders|payments",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[tokio::test]
async fn live_answers_while_nothing_else_does() {
    let mut sidecar = Sidecar::new(&["orders"]);
    sidecar.set("AMQP__URL", "amqp://127.0.0.1:1/%2f");
    sidecar.set("REDIS__URL", "redis://127.0.0.1:1");
    sidecar.spawn();
    sidecar.unready_saying("start").await;
    assert_eq!(sidecar.get("/live").expect("an answer").0, 200);
    assert_eq!(sidecar.get("/metrics").expect("an answer").0, 200);
    assert!(sidecar.stop().await, "it stops while it waits");
}

#[tokio::test]
async fn a_namespace_of_another_broker_is_refused() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    assert!(sidecar.stop().await);
    let mut elsewhere = sidecar.twin();
    elsewhere.set("AMQP__URL", &super::support::rabbit::own_vhost());
    elsewhere.spawn();
    let said = elsewhere.unready_saying("redis.namespace").await;
    assert!(said.contains("vhost"), "{said}");
    assert!(elsewhere.log().contains("redis.namespace"), "the log says it too");
    let table = printed(&elsewhere.output_of(&["check"]).stdout);
    assert!(table.contains("redis.namespace"), "{table}");
}
