//! TLS to Redis and to RabbitMQ, as strict as it gets: both sides show a certificate, and the root
//! that has signed them is one that no host trusts.

use lapin::types::AMQPValue;

use super::support::certificates::Authority;
use super::support::rabbit::{OwnNode, Rabbit, headers};
use super::support::redis::PrivateRedis;
use super::support::sidecar::Sidecar;
use super::support::{eventually, free_port};

/// The servers listen here as well, and their certificates say nothing of it.
const OTHER_NAME: &str = "127.0.0.2";

/// How an address may fail, and what an operator is told then.
fn failures(ours: &Authority, stranger: &Authority) -> [(&'static str, String, &'static str); 4] {
    [
        ("localhost", stranger.query(), "its CA, ?cacertfile="),
        ("localhost", ours.showing(), "its CA, ?cacertfile="),
        (OTHER_NAME, ours.query(), "connect by one of those"),
        ("localhost", ours.trusting(), "?certfile=/path/client.pem&keyfile="),
    ]
}

/// `run` is not ready and `check` fails, and both say what to do. `key` names the setting.
async fn is_refused(sidecar: &mut Sidecar, key: &str, hint: &str) {
    let output = sidecar.output_of(&["check"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && table.contains(key) && table.contains(hint), "{table}");
    sidecar.spawn();
    let said = sidecar.unready_saying(hint).await;
    assert!(said.contains(key), "{said}");
    sidecar.kill();
}

/// `check` is content, and a delayed message comes.
async fn works(sidecar: &mut Sidecar, rabbit: &Rabbit, orders: &str) {
    sidecar.start().await;
    let mut inbox = rabbit.consume(orders).await;
    let soon = headers([("x-delay", AMQPValue::LongInt(300))]);
    rabbit.publish(&format!("xdelay.{orders}"), soon, b"encrypted").await;
    assert_eq!(inbox.next().await.data, b"encrypted");
    let output = sidecar.output_of(&["check"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{table}");
}

#[tokio::test]
async fn redis_is_verified_and_shown_a_certificate() {
    let (ours, stranger) = (Authority::new(), Authority::named("another"));
    let port = free_port();
    let redis = PrivateRedis::start(&[
        "--bind",
        "127.0.0.1",
        OTHER_NAME,
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &ours.file("server.pem"),
        "--tls-key-file",
        &ours.file("server.key"),
        "--tls-ca-cert-file",
        &ours.file("ca.pem"),
        "--tls-auth-clients",
        "yes",
    ]);
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    for (host, query, hint) in failures(&ours, &stranger) {
        sidecar.set("REDIS__URL", &format!("rediss://{host}:{port}/0?{query}"));
        is_refused(&mut sidecar, "redis.url", hint).await;
    }
    sidecar.set("REDIS__URL", &format!("rediss://localhost:{port}/0?{}", ours.query()));
    works(&mut sidecar, &rabbit, &orders).await;
    assert!(sidecar.stop().await);
    // Without a word in the URL those count whom the host trusts.
    sidecar.set("REDIS__URL", &format!("rediss://localhost:{port}/0?{}", ours.showing()));
    sidecar.set_env("SSL_CERT_FILE", &ours.file("ca.pem"));
    works(&mut sidecar, &rabbit, &orders).await;
    drop(redis);
}

/// A node with a listener for TLS on its port and 4000, on either name.
fn strict_node(ours: &Authority) -> OwnNode {
    OwnNode::start_with(|port| {
        vec![
            format!("listeners.ssl.1 = 127.0.0.1:{}", port + 4_000),
            format!("listeners.ssl.2 = {OTHER_NAME}:{}", port + 4_000),
            format!("ssl_options.cacertfile = {}", ours.file("ca.pem")),
            format!("ssl_options.certfile = {}", ours.file("server.pem")),
            format!("ssl_options.keyfile = {}", ours.file("server.key")),
            "ssl_options.verify = verify_peer".to_owned(),
            "ssl_options.fail_if_no_peer_cert = true".to_owned(),
        ]
    })
}

#[tokio::test]
async fn rabbitmq_is_verified_and_shown_a_certificate() {
    // Of the same name: a CA that was made anew.
    let (ours, stranger) = (Authority::new(), Authority::new());
    let node = strict_node(&ours);
    let port = node.port() + 4_000;
    let url = |host: &str, query: &str| format!("amqps://guest:guest@{host}:{port}/%2f?{query}");
    let rabbit = Rabbit::connect_to(&node.url()).await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    for (host, query, hint) in failures(&ours, &stranger) {
        sidecar.set("AMQP__URL", &url(host, &query));
        is_refused(&mut sidecar, "amqp.url", hint).await;
    }
    sidecar.set("AMQP__URL", &url("localhost", &ours.query()));
    works(&mut sidecar, &rabbit, &orders).await;
    assert!(sidecar.stop().await);

    // Intake and release have a connection each, and either reads the files anew.
    let root = ours.copy_of_root();
    let trusting = format!("cacertfile={}&{}", root.display(), ours.showing());
    sidecar.set("AMQP__URL", &url("localhost", &trusting));
    sidecar.start().await;
    let later = headers([("x-delay", AMQPValue::LongInt(1_000))]);
    rabbit.publish(&format!("xdelay.{orders}"), later, b"held up").await;
    eventually("it is parked", || async {
        (sidecar.metric("xdelay_captured_total") == 1.0).then_some(())
    })
    .await;
    std::fs::copy(stranger.path().join("ca.pem"), &root).expect("copied");
    node.control(&["close_all_connections", "--global", "certificates are renewed"]);
    for link in ["rabbitmq intake", "rabbitmq release"] {
        eventually(&format!("{link} trusts nobody"), || async {
            let (_, said) = sidecar.get("/ready")?;
            let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
            let part = said["parts"].as_array()?.iter().find(|part| part["part"] == link)?;
            part["detail"].as_str()?.contains("?cacertfile=").then_some(())
        })
        .await;
    }
    ours.copy_of_root();
    sidecar.ready().await;
    let rabbit = Rabbit::connect_to(&node.url()).await;
    assert_eq!(rabbit.consume(&orders).await.next().await.data, b"held up");
}
