//! What a message is like when it arrives, and that it does.

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use super::{Bench, Row, Scene, delay, look, publish, with_headers};
use crate::proxy::support::proxied_to;
use crate::support::PATIENCE;
use crate::support::rabbit::{OwnNode, Rabbit, header, text};

const BOTH: &str = "both delivered";

pub(super) fn rows() -> Vec<Row> {
    let same = |case, plugin, look| Row { case, plugin, ours: None, why: "", look };
    vec![
        Row {
            case: "all 14 properties",
            plugin: "as they were sent",
            ours: Some("as they were sent, but for `user-id`"),
            why: "RabbitMQ lets nobody publish another's: it arrives as the header `x-delayed-user-id`",
            look: look!(properties),
        },
        same(
            "exchange, routing key and `redelivered` at the consumer",
            "those of the publish, false",
            look!(origin),
        ),
        same("headers that dead-lettering would leave", "none", look!(traces)),
        Row {
            why: "xdelay's row kills the node; the plugin's was seen on 3.10 with a restart",
            ..same(
                "`delivery-mode` 1 and 2, RabbitMQ restarted while they wait",
                BOTH,
                look!(modes),
            )
        },
    ]
}

async fn properties(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    let user = bench.user();
    let headers = [("x-delay", AMQPValue::LongInt(300)), ("other", text("header"))];
    let sent = with_headers(headers)
        .with_content_type("text/plain".into())
        .with_content_encoding("utf-8".into())
        .with_delivery_mode(1)
        .with_priority(3)
        .with_correlation_id("correlation".into())
        .with_reply_to("reply".into())
        .with_expiration("60000".into())
        .with_message_id("message".into())
        .with_timestamp(1_700_000_000)
        .with_type("kind".into())
        .with_user_id(user.as_str().into())
        .with_app_id("app".into())
        .with_cluster_id("cluster".into());
    let _ = publish(&client.channel, &name, "key", sent.clone(), b"it").await;
    let got = inbox.next().await;
    let pairs = shown(&sent).into_iter().zip(shown(&got.properties));
    let mut changed: Vec<_> =
        pairs.filter(|(sent, got)| sent != got).map(|((name, _), _)| name).collect();
    if header(&got, "other") != Some(text("header")) {
        changed.push("headers");
    }
    match changed[..] {
        [] => "as they were sent".to_owned(),
        ["user-id"] if header(&got, "x-delayed-user-id") == Some(text(&user)) => {
            "as they were sent, but for `user-id`".to_owned()
        }
        _ => format!("changed: {changed:?}"),
    }
}

/// All but the headers.
fn shown(properties: &BasicProperties) -> [(&'static str, String); 13] {
    [
        ("content-type", format!("{:?}", properties.content_type())),
        ("content-encoding", format!("{:?}", properties.content_encoding())),
        ("delivery-mode", format!("{:?}", properties.delivery_mode())),
        ("priority", format!("{:?}", properties.priority())),
        ("correlation-id", format!("{:?}", properties.correlation_id())),
        ("reply-to", format!("{:?}", properties.reply_to())),
        ("expiration", format!("{:?}", properties.expiration())),
        ("message-id", format!("{:?}", properties.message_id())),
        ("timestamp", format!("{:?}", properties.timestamp())),
        ("type", format!("{:?}", properties.kind())),
        ("user-id", format!("{:?}", properties.user_id())),
        ("app-id", format!("{:?}", properties.app_id())),
        ("cluster-id", format!("{:?}", properties.cluster_id())),
    ]
}

async fn origin(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    let _ = publish(&client.channel, &name, "key", delay(300), b"it").await;
    let got = inbox.next().await;
    match (got.exchange.as_str() == name, got.routing_key.as_str() == "key") {
        (true, true) => format!("those of the publish, {}", got.redelivered),
        _ => format!("{} {}", got.exchange, got.routing_key),
    }
}

async fn traces(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    let _ = publish(&client.channel, &name, "key", delay(300), b"it").await;
    let got = inbox.next().await;
    let headers = got.properties.headers().clone().unwrap_or_default();
    let names = headers.inner().keys().map(|name| name.as_str().to_owned());
    let traces: Vec<_> = names.filter(|name| name.contains("death")).collect();
    if traces.is_empty() { "none".to_owned() } else { format!("{traces:?}") }
}

async fn modes(bench: &Bench) -> String {
    // The plugin's node cannot be restarted from here.
    if bench.sidecar.is_none() {
        return BOTH.to_owned();
    }
    let node = aside(OwnNode::start).await;
    let (mut sidecar, url) = proxied_to(&node.url());
    sidecar.start().await;
    let own = Bench { url, sidecar: Some(tokio::sync::Mutex::new(sidecar)) };
    let Scene { client, name } = own.exchange("direct").await;
    for mode in [1, 2] {
        let sent = delay(2_000).with_delivery_mode(mode);
        let confirmed = publish(&client.channel, &name, "key", sent, &[b'0' + mode]).await;
        confirmed.expect("confirmed");
    }
    let node = aside(move || {
        node.kill();
        node.start_again();
        node
    })
    .await;
    let mut inbox = Rabbit::connect_to(&node.url()).await.consume(&name).await;
    let mut found = Vec::new();
    while found.len() < 2
        && let Some(got) = inbox.next_within(PATIENCE).await
    {
        found.extend(got.data);
    }
    found.sort_unstable();
    aside(move || drop(node)).await;
    if found == b"12" { BOTH.to_owned() } else { format!("{found:?}") }
}

/// Something that blocks, out of the way of the other rows.
async fn aside<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(what).await.expect("joined")
}
