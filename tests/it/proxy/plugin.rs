//! Applications that were written for the delayed-message plugin.

use lapin::options::{
    BasicGetOptions, BasicNackOptions, BasicPublishOptions, ExchangeDeclareOptions,
    ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, ExchangeKind};

use super::support::proxied;
use crate::support::rabbit::{Rabbit, header, headers, table, text};
use crate::support::unique;

fn delayed(ms: i32) -> BasicProperties {
    headers([("x-delay", AMQPValue::LongInt(ms))])
}

/// Declares an exchange as users of the plugin do.
async fn declare(channel: &Channel, name: &str, kind: &str) -> lapin::Result<()> {
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let arguments = table([("x-delayed-type", text(kind))]);
    let plugins = ExchangeKind::Custom("x-delayed-message".into());
    channel.exchange_declare(name.into(), plugins, options, arguments).await
}

async fn declare_queue(channel: &Channel, name: &str, arguments: FieldTable) {
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(name.into(), options, arguments).await.expect("a queue");
}

async fn bind(channel: &Channel, queue: &str, exchange: &str) {
    let (queue, options) = (queue.into(), QueueBindOptions::default());
    let bound = channel.queue_bind(queue, exchange.into(), "key".into(), options, table([]));
    bound.await.expect("bound");
}

#[tokio::test]
async fn a_delayed_exchange_is_declared_and_delays_even_where_no_pattern_says_so() {
    let (mut sidecar, url) = proxied();
    sidecar.set("PROXY__EXCHANGES", "nothing.else");
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    let later = unique("later");
    for _ in 0..2 {
        declare(&client.channel, &later, "direct").await.expect("declared, and again");
    }
    // To everybody else it is an ordinary exchange.
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let direct = Rabbit::connect().await;
    let kind = ExchangeKind::Direct;
    let declared = direct.channel.exchange_declare(later.as_str().into(), kind, options, table([]));
    declared.await.expect("the same");
    declare_queue(&client.channel, &later, table([])).await;
    bind(&client.channel, &later, &later).await;
    let mut inbox = client.consume(&later).await;
    client.publish(&later, delayed(200), b"later").await;
    client.publish(&later, headers([]), b"at once").await;
    assert_eq!(inbox.next().await.data, b"at once");
    let got = inbox.next().await;
    assert_eq!(header(&got, "x-delay"), Some(AMQPValue::LongInt(-200)));
}

#[tokio::test]
async fn bad_types_are_refused_in_the_plugins_words_and_close_their_channel_only() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    for bad in ["x-not-valid-type", "x-delayed-message", ""] {
        let channel = client.connection.create_channel().await.expect("a channel");
        let error = declare(&channel, &unique("bad"), bad).await.expect_err("refused").to_string();
        assert!(error.contains("'x-delayed-type' must be an existing exchange type"), "{error}");
    }
    let orders = client.destination().await;
    client.publish(&orders, headers([]), b"at once").await;
}

#[tokio::test]
async fn dead_lettering_into_a_delayed_exchange_delays_also_after_a_restart() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let (retry, work) = (unique("retry"), unique("work"));
    let arguments = || {
        let exchange = ("x-dead-letter-exchange", text(&retry));
        table([exchange, ("x-dead-letter-routing-key", text("key"))])
    };
    for restarted in [false, true] {
        if restarted {
            assert!(sidecar.stop().await);
            sidecar.start().await;
        }
        let client = Rabbit::connect_to(&url).await;
        if !restarted {
            declare(&client.channel, &retry, "direct").await.expect("declared");
        }
        // The second time nobody has declared the exchange, and it must be the same queue.
        declare_queue(&client.channel, &work, arguments()).await;
        bind(&client.channel, &work, &retry).await;
        client
            .publish_with_key("", &work, headers([("x-delay", AMQPValue::LongInt(-1))]), b"job")
            .await;
        // A message that asks to be delayed and is put into the queue by another way.
        let direct = Rabbit::connect().await;
        direct.publish_with_key("", &work, delayed(300), b"try again").await;
        let options = BasicGetOptions::default();
        for body in [&b"job"[..], b"try again"] {
            let got = client.channel.basic_get(work.as_str().into(), options).await;
            let got = got.expect("an answer").expect("a message").delivery;
            assert_eq!(got.data, body);
            let nack = BasicNackOptions { requeue: false, multiple: false };
            got.acker.nack(nack).await.expect("dead-lettered");
        }
        let mut inbox = client.consume(&work).await;
        assert_eq!(inbox.next().await.data, b"job", "a negative delay is none");
        let got = inbox.next().await;
        assert_eq!(got.data, b"try again");
        assert_eq!(header(&got, "x-delay"), Some(AMQPValue::LongInt(-300)), "it was held back");
    }
}

#[tokio::test]
async fn an_exchange_that_is_gone_takes_nothing_any_more() {
    let (mut sidecar, url) = proxied();
    sidecar.start().await;
    let client = Rabbit::connect_to(&url).await;
    let later = unique("later");
    declare(&client.channel, &later, "fanout").await.expect("declared");
    declare_queue(&client.channel, &later, table([])).await;
    bind(&client.channel, &later, &later).await;
    let mut inbox = client.consume(&later).await;
    client.publish(&later, delayed(50), b"later").await;
    inbox.next().await;
    let options = ExchangeDeleteOptions::default();
    client.channel.exchange_delete(later.as_str().into(), options).await.expect("deleted");
    let options = BasicPublishOptions::default();
    let exchange = later.as_str().into();
    let publish = client.channel.basic_publish(exchange, "key".into(), options, b"m", delayed(9));
    let error = publish.await.expect("sent").await.expect_err("refused").to_string();
    assert!(error.contains("NOT_FOUND"), "{error}");
}
