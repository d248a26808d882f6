//! What is refused, by whom and in which words; never is it delivered undelayed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::AMQPValue;
use lapin::{BasicProperties, Channel};

use super::support::{proxied, proxied_to};
use crate::support::fault_proxy::{FaultProxy, Weather};
use crate::support::rabbit::{Rabbit, control, headers, own_vhost};
use crate::support::{PATIENCE, eventually, setting, unique};

fn delayed(ms: i32) -> BasicProperties {
    headers([("x-delay", AMQPValue::LongInt(ms))])
}

/// The error that a delayed publish is answered with.
async fn refused(channel: &Channel, exchange: &str) -> String {
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    let options = BasicPublishOptions::default();
    let exchange = exchange.into();
    let publish = channel.basic_publish(exchange, "key".into(), options, b"never", delayed(50));
    publish.await.expect("sent").await.expect_err("refused").to_string()
}

#[tokio::test]
async fn a_user_without_the_right_on_the_capture_is_refused_by_the_broker() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let user = unique("user");
    control(&["add_user", &user, "secret"]);
    control(&["set_permissions", &user, "^$", &format!("^{orders}$"), "^$"]);
    let client = Rabbit::connect_to(&url.replace("guest:guest", &format!("{user}:secret"))).await;
    client.publish(&orders, headers([]), b"at once").await;
    let mut inbox = rabbit.consume(&orders).await;
    assert_eq!(inbox.next().await.data, b"at once");
    let error = refused(&client.channel, &orders).await;
    assert!(error.contains("ACCESS_REFUSED") && error.contains("xdelay."), "{error}");
    assert!(inbox.next_within(Duration::from_millis(300)).await.is_none());
    control(&["set_permissions", &user, "^$", &format!(r"^(xdelay\.)?{orders}$"), "^$"]);
    let client = Rabbit::connect_to(&url.replace("guest:guest", &format!("{user}:secret"))).await;
    client.publish(&orders, delayed(50), b"later").await;
    assert_eq!(inbox.next().await.data, b"later");
    control(&["delete_user", &user]);
}

#[tokio::test]
async fn another_vhost_is_refused_when_it_is_to_be_delayed() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let other = own_vhost();
    let vhost = other.rsplit_once('/').expect("a vhost").1;
    let url = format!("{}/{vhost}", url.rsplit_once('/').expect("a vhost").0);
    let client = Rabbit::connect_to(&url).await;
    let orders = client.destination().await;
    let mut inbox = client.consume(&orders).await;
    client.publish(&orders, headers([]), b"at once").await;
    assert_eq!(inbox.next().await.data, b"at once");
    let channel = client.connection.create_channel().await.expect("a channel");
    let error = refused(&channel, &orders).await;
    assert!(error.contains("delays messages of vhost '/' only"), "{error}");
    // The connection lives, its other channels too, and the number is used again.
    let again = client.connection.create_channel().await.expect("a channel");
    let error = refused(&again, &orders).await;
    assert!(error.contains("delays messages of vhost"), "{error}");
    client.publish(&orders, headers([]), b"at once again").await;
    assert_eq!(inbox.next().await.data, b"at once again");
    control(&["delete_vhost", vhost]);
}

#[tokio::test]
async fn a_name_too_long_to_be_captured_is_refused() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    let long = format!("{:x<250}", unique("long"));
    client.declare_exchange(&long).await;
    client.declare_queue(&long).await;
    client.publish(&long, headers([]), b"at once").await;
    let error = refused(&client.channel, &long).await;
    assert!(error.contains("more than 241 bytes"), "{error}");
    assert_eq!(Rabbit::connect().await.ready(&long).await, 1);
}

#[tokio::test]
async fn what_cannot_be_captured_now_is_refused_in_time_and_the_connection_lives() {
    // As a user that may not write to the destination, xdelay could never release.
    let user = unique("user");
    control(&["add_user", &user, "secret"]);
    control(&["set_permissions", &user, ".*", r"^xdelay\..*$", ".*"]);
    let broker = setting("TEST_AMQP_URL");
    let (mut sidecar, url) = proxied_to(&broker.replace("guest:guest", &format!("{user}:secret")));
    sidecar.start().await;
    let client = Rabbit::connect_to(&url.replace(&format!("{user}:secret"), "guest:guest")).await;
    let orders = client.destination().await;
    let channel = client.connection.create_channel().await.expect("a channel");
    let error = refused(&channel, &orders).await;
    assert!(
        error.contains("cannot delay for exchange") && error.contains("ACCESS_REFUSED"),
        "{error}"
    );
    client.publish(&orders, headers([]), b"at once").await;
    assert_eq!(client.consume(&orders).await.next().await.data, b"at once");
    control(&["delete_user", &user]);
}

#[tokio::test]
async fn while_a_publish_is_held_the_connection_is_kept_alive() {
    let (mut sidecar, url) = proxied();
    let redis = FaultProxy::before(&setting("TEST_REDIS_URL")).await;
    sidecar.set("REDIS__URL", &redis.url(&setting("TEST_REDIS_URL")));
    sidecar.start().await;
    let client = Rabbit::connect_to(&format!("{url}?heartbeat=1")).await;
    let orders = client.destination().await;
    let channel = client.connection.create_channel().await.expect("a channel");
    // What is captured for a new exchange has to be remembered, which now takes for ever.
    redis.set(Weather { silent: true, ..Default::default() });
    let error = refused(&channel, &orders).await;
    assert!(error.contains("no answer in 5 s"), "{error}");
    client.publish(&orders, headers([]), b"at once").await;
    assert_eq!(client.consume(&orders).await.next().await.data, b"at once");
    redis.calm();
    redis.reset();
    eventually("it can be captured for", || async {
        let channel = client.connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let options = BasicPublishOptions::default();
        let exchange = orders.as_str().into();
        let publish = channel.basic_publish(exchange, "key".into(), options, b"m", delayed(50));
        publish.await.expect("sent").await.ok()
    })
    .await;
}

/// What a server at this URL answers to some bytes until it closes.
fn answer_to(url: &str, bytes: &[u8]) -> Vec<u8> {
    let (before, _) = url.rsplit_once('/').expect("a vhost");
    let mut stream = TcpStream::connect(before.rsplit_once('@').expect("a user").1).expect("open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(bytes).expect("written");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[tokio::test]
async fn what_is_not_amqp_ends_its_own_connection_only() {
    let (mut sidecar, url) = proxied();
    sidecar.set("PROXY__HANDSHAKE_TIMEOUT", "300ms");
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    let orders = client.destination().await;
    let ours = b"AMQP\0\0\x09\x01";
    assert_eq!(answer_to(&url, b"AMQP\0\x01\0\0"), ours, "AMQP 1.0");
    assert_eq!(answer_to(&url, b"GET / HTTP/1.1\r\n\r\n"), ours);
    assert_eq!(answer_to(&url, b"AMQ"), b"", "a handshake that never comes");
    let began = answer_to(&url, &[&ours[..], b"and then nonsense that is no frame"].concat());
    assert!(began.len() < 2_000);
    let idle = answer_to(&url, ours);
    assert!(idle.starts_with(&[1, 0, 0]), "the broker's start, and nothing after");
    client.publish(&orders, delayed(50), b"later").await;
    assert_eq!(client.consume(&orders).await.next().await.data, b"later");
}

#[tokio::test]
async fn only_so_many_may_be_connected() {
    let (mut sidecar, url) = proxied();
    sidecar.set("PROXY__MAX_CONNECTIONS", "1");
    sidecar.start().await;
    let first = Rabbit::connect_to(&url).await;
    assert_eq!(answer_to(&url, b"AMQP\0\0\x09\x01"), b"", "turned away");
    first.connection.close(200, "bye".into()).await.expect("closed");
    eventually("there is a place again", || async {
        let properties = lapin::ConnectionProperties::default();
        lapin::Connection::connect(&url, properties).await.ok()
    })
    .await;
}

#[tokio::test]
async fn a_stop_says_goodbye() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    assert!(sidecar.stop().await);
    eventually("the client has heard of it", || async {
        (!client.connection.status().connected()).then_some(())
    })
    .await;
}
