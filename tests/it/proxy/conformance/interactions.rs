//! What a delay means for the other things that RabbitMQ does.

use lapin::options::{
    BasicGetOptions, BasicNackOptions, BasicPublishOptions, ExchangeBindOptions,
    ExchangeDeleteOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldArray};

use super::{Bench, NOTHING, Row, Scene, bind, declare, delay, look, publish, queue, with_headers};
use crate::support::rabbit::{Inbox, Rabbit, header, table, text};
use crate::support::unique;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = publishing();
    rows.extend(topology());
    rows
}

fn publishing() -> Vec<Row> {
    vec![
        Row {
            case: "publisher confirm",
            plugin: "confirmed at the publish",
            ours: None,
            why: "With the plugin: written by one node, unsynced. With xdelay: held by a quorum queue",
            look: look!(confirmed),
        },
        Row {
            case: "`mandatory`",
            plugin: "returned as unroutable, and delivered later",
            ours: Some("delivered later"),
            why: "A delayed message is routed, to its capture; whether a queue wants it is seen when it is due",
            look: look!(mandatory),
        },
        Row {
            case: "transaction rolled back",
            plugin: "delivered all the same",
            ours: Some("not delivered"),
            why: "Rolled back is rolled back",
            look: look!(rolled_back),
        },
        Row {
            case: "`CC` and `BCC`",
            plugin: "both honoured after the delay",
            ours: None,
            why: "",
            look: look!(copies),
        },
        Row {
            case: "`expiration` shorter than the delay",
            plugin: "delivered; it counts from the release",
            ours: None,
            why: "",
            look: look!(expiration),
        },
        Row {
            case: "200 messages of one delay",
            plugin: "in the order of publish",
            ours: None,
            why: "The plugin does not promise it. xdelay does for each channel, while nothing fails",
            look: look!(equal_dues),
        },
        Row {
            case: "a consumer publishes again what it got, headers and all",
            plugin: "at once",
            ours: None,
            why: "The negative `x-delay` says that it was delayed already",
            look: look!(copied),
        },
    ]
}

fn topology() -> Vec<Row> {
    vec![
        Row {
            case: "alternate exchange, routable message",
            plugin: "a copy at once, and the message later",
            ours: Some("the message later"),
            why: "Nothing is delivered that its exchange would not have delivered undelayed",
            look: look!(alternate_unused),
        },
        Row {
            case: "alternate exchange, unroutable message",
            plugin: "a copy at once, and another later",
            ours: Some("one later"),
            why: "Nothing is delivered twice",
            look: look!(alternate_used),
        },
        Row {
            case: "dead-lettered into a delayed exchange",
            plugin: "delayed",
            ours: None,
            why: "Where the queue was declared through the proxy, after the exchange",
            look: look!(dead_lettered),
        },
        Row {
            case: "exchange bound to another, both delayed",
            plugin: "delayed once",
            ours: None,
            why: "",
            look: look!(exchange_to_exchange),
        },
        Row {
            case: "exchange deleted while a message waits, declared again after its due",
            plugin: "lost",
            ours: Some("delivered once it is there"),
            why: "The message stays parked, and `/ready` says what it waits for",
            look: look!(deleted),
        },
        Row {
            case: "binding made while a message waits",
            plugin: "delivered",
            ours: None,
            why: "",
            look: look!(bound_later),
        },
    ]
}

async fn confirmed(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let far = with_headers([("x-delay", AMQPValue::LongInt(600_000))]);
    match publish(&client.channel, &name, "key", far, b"it").await {
        Ok(_) => "confirmed at the publish".to_owned(),
        Err(error) => error.to_string(),
    }
}

async fn mandatory(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    let returned = publish(&client.channel, &name, "key", delay(300), b"it").await;
    let returned = returned.expect("confirmed");
    inbox.next().await;
    let returned = if returned { "returned as unroutable, and " } else { "" };
    format!("{returned}delivered later")
}

async fn alternate_unused(bench: &Bench) -> String {
    alternate(bench, "key").await
}

async fn alternate_used(bench: &Bench) -> String {
    alternate(bench, "elsewhere").await
}

async fn alternate(bench: &Bench, key: &str) -> String {
    let client = Rabbit::connect_to(&bench.url).await;
    let (name, other) = (unique("delayed"), unique("alternate"));
    client.declare_exchange(&other).await;
    queue(&client.channel, &other, &other, "#").await;
    let to_other = [("alternate-exchange", text(&other))];
    declare(&client.channel, &name, "direct", &to_other).await;
    queue(&client.channel, &name, &name, "key").await;
    let _ = publish(&client.channel, &name, key, delay(300), b"it").await;
    let (mut main, mut copies) = (client.consume(&name).await, client.consume(&other).await);
    if key == "key" {
        main.next().await;
        let copied = copies.next_within(NOTHING).await.is_some();
        let copied = if copied { "a copy at once, and " } else { "" };
        return format!("{copied}the message later");
    }
    copies.next().await;
    match copies.next_within(NOTHING).await {
        Some(_) => "a copy at once, and another later".to_owned(),
        None => "one later".to_owned(),
    }
}

async fn rolled_back(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let channel = client.connection.create_channel().await.expect("a channel");
    channel.tx_select().await.expect("a transaction");
    let options = BasicPublishOptions::default();
    let exchange = name.as_str().into();
    let publish = channel.basic_publish(exchange, "key".into(), options, b"it", delay(100));
    publish.await.expect("sent");
    channel.tx_rollback().await.expect("rolled back");
    match client.consume(&name).await.next_within(NOTHING).await {
        Some(_) => "delivered all the same".to_owned(),
        None => "not delivered".to_owned(),
    }
}

async fn copies(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let list = |key| AMQPValue::FieldArray(FieldArray::from(vec![text(key)]));
    let (open, blind) = (unique("cc"), unique("bcc"));
    queue(&client.channel, &open, &name, "open").await;
    queue(&client.channel, &blind, &name, "blind").await;
    let delay = ("x-delay", AMQPValue::LongInt(300));
    let sent = with_headers([delay, ("CC", list("open")), ("BCC", list("blind"))]);
    let _ = publish(&client.channel, &name, "key", sent, b"it").await;
    for queue in [&name, &open, &blind] {
        let got = client.consume(queue).await.next_within(NOTHING * 10).await;
        let Some(got) = got else { return format!("nothing in {queue}") };
        if header(&got, "BCC").is_some() {
            return "BCC is shown".to_owned();
        }
    }
    "both honoured after the delay".to_owned()
}

async fn expiration(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    let sent = delay(400).with_expiration("200".into());
    let _ = publish(&client.channel, &name, "key", sent, b"it").await;
    match inbox.next_within(NOTHING * 10).await {
        Some(got) if got.properties.expiration() == &Some("200".into()) => {
            "delivered; it counts from the release".to_owned()
        }
        Some(_) => "delivered without its expiration".to_owned(),
        None => "gone".to_owned(),
    }
}

async fn dead_lettered(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let work = unique("work");
    let into = ("x-dead-letter-exchange", text(&name));
    let arguments = table([into, ("x-dead-letter-routing-key", text("key"))]);
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let declared = client.channel.queue_declare(work.as_str().into(), options, arguments);
    declared.await.expect("a queue");
    let topic = unique("topic");
    client.declare_exchange(&topic).await;
    bind(&client.channel, &work, &topic, "#").await;
    // Put into the queue past everything that delays.
    bench.direct().await.publish(&topic, delay(300), b"it").await;
    let got = client.channel.basic_get(work.as_str().into(), BasicGetOptions::default()).await;
    let got = got.expect("an answer").expect("a message").delivery;
    got.acker.nack(BasicNackOptions { requeue: false, multiple: false }).await.expect("rejected");
    delayed_or_not(&mut client.consume(&name).await).await
}

async fn delayed_or_not(inbox: &mut Inbox) -> String {
    let got = inbox.next().await;
    match header(&got, "x-delay") {
        Some(AMQPValue::LongInt(..0) | AMQPValue::LongLongInt(..0)) => "delayed".to_owned(),
        other => format!("not delayed: {other:?}"),
    }
}

async fn exchange_to_exchange(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("fanout").await;
    let first = unique("first");
    declare(&client.channel, &first, "fanout", &[]).await;
    let options = ExchangeBindOptions::default();
    let (to, from) = (name.as_str().into(), first.as_str().into());
    let bound = client.channel.exchange_bind(to, from, "".into(), options, table([]));
    bound.await.expect("bound");
    let mut inbox = client.consume(&name).await;
    let _ = publish(&client.channel, &first, "key", delay(300), b"it").await;
    let seen = delayed_or_not(&mut inbox).await;
    match inbox.next_within(NOTHING).await {
        None => format!("{seen} once"),
        Some(_) => format!("{seen}, twice"),
    }
}

async fn deleted(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let _ = publish(&client.channel, &name, "key", delay(500), b"it").await;
    let options = ExchangeDeleteOptions::default();
    client.channel.exchange_delete(name.as_str().into(), options).await.expect("deleted");
    let mut inbox = client.consume(&name).await;
    assert!(inbox.next_within(NOTHING).await.is_none(), "there is no exchange");
    declare(&client.channel, &name, "direct", &[]).await;
    bind(&client.channel, &name, &name, "key").await;
    match inbox.next_within(NOTHING * 10).await {
        Some(_) => "delivered once it is there".to_owned(),
        None => "lost".to_owned(),
    }
}

async fn bound_later(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let late = unique("late");
    let far = delay(700);
    let _ = publish(&client.channel, &name, "new", far, b"it").await;
    queue(&client.channel, &late, &name, "new").await;
    match client.consume(&late).await.next_within(NOTHING * 10).await {
        Some(_) => "delivered".to_owned(),
        None => "not delivered".to_owned(),
    }
}

async fn equal_dues(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    let mut sent = Vec::new();
    for n in 0..200_u32 {
        let options = BasicPublishOptions::default();
        let body = n.to_string();
        let publish = client.channel.basic_publish(
            name.as_str().into(),
            "key".into(),
            options,
            body.as_bytes(),
            delay(500),
        );
        sent.push(publish.await.expect("sent"));
    }
    for confirm in sent {
        confirm.await.expect("confirmed");
    }
    for n in 0..200_u32 {
        let body = inbox.next().await.data;
        if body != n.to_string().as_bytes() {
            return format!("{} came as number {n}", String::from_utf8_lossy(&body));
        }
    }
    "in the order of publish".to_owned()
}

async fn copied(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    let _ = publish(&client.channel, &name, "key", delay(300), b"it").await;
    let got = inbox.next().await;
    let _ = publish(&client.channel, &name, "key", got.properties, b"again").await;
    let _ = publish(&client.channel, &name, "key", with_headers([]), b"after").await;
    match &inbox.next().await.data[..] {
        b"again" => "at once".to_owned(),
        _ => "delayed again".to_owned(),
    }
}
