//! The cases of the plugin's own suite, by the names they have there.

use lapin::options::{BasicPublishOptions, ExchangeBindOptions, ExchangeDeclareOptions};
use lapin::{BasicProperties, ExchangeKind};

use super::{Bench, NOTHING, Row, Scene, bind, declare, delay, look, publish, queue};
use crate::support::rabbit::{Inbox, Rabbit, table, text};
use crate::support::{a_while, eventually, unique};

/// Upstream's, further apart: so that a slow machine does not put them out of order.
const DELAYS: [i32; 6] = [2_500, 500, 1_500, 1_000, 500, 2_000];
const SORTED: &str = "all, in the order of due";
const REFUSED: &str = "refused: 406";
const RESTART: &str =
    "xdelay is stopped and started; that crashes of anything lose nothing is tested by `crash`";

pub(super) fn rows() -> Vec<Row> {
    let same = |case, plugin, look| Row { case, plugin, ours: None, why: "", look };
    let restart = |case, look| Row { why: RESTART, ..same(case, SORTED, look) };
    vec![
        same("`wrong_exchange_argument_type`", REFUSED, look!(no_such_type)),
        same("`exchange_argument_type_not_self`", REFUSED, look!(its_own_type)),
        same("`routing_topic`", "3 of 4", look!(topic)),
        same("`routing_direct`", "2 of 3", look!(direct)),
        same("`routing_fanout`", "3 of 3", look!(fanout)),
        same("`e2e_nodelay`", SORTED, look!(two_undelayed)),
        same("`e2e_delay`", SORTED, look!(two_delayed)),
        same("`delay_order`", SORTED, look!(delay_order)),
        Row {
            case: "`delayed_messages_count`",
            plugin: "6, by the management API",
            ours: Some("6, by the metric `xdelay_parked`"),
            why: "Counting costs nothing, whatever their number",
            look: look!(counted),
        },
        restart("`node_restart_before_delay_expires`", look!(restarted_before)),
        restart("`node_restart_after_delay_expires`", look!(restarted_after)),
        same("`string_delay_header`", SORTED, look!(texts)),
    ]
}

async fn no_such_type(bench: &Bench) -> String {
    refused(bench, "x-not-valid-type").await
}

async fn its_own_type(bench: &Bench) -> String {
    refused(bench, "x-delayed-message").await
}

async fn topic(bench: &Bench) -> String {
    let bindings = ["a.b.c", "a.*.c", "a.#"];
    routed(bench, "topic", &bindings, &["a.b.c", "a.b", "a.x.c", "b.c"]).await
}

async fn direct(bench: &Bench) -> String {
    routed(bench, "direct", &["mykey"], &["mykey", "noroute", "mykey"]).await
}

async fn fanout(bench: &Bench) -> String {
    routed(bench, "fanout", &["a", "b", "c"], &["x", "y", "z"]).await
}

async fn two_undelayed(bench: &Bench) -> String {
    through_two(bench, &[0]).await
}

async fn two_delayed(bench: &Bench) -> String {
    through_two(bench, &DELAYS).await
}

async fn delay_order(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let inbox = client.consume(&name).await;
    sorted(&client, &name, inbox, &DELAYS).await
}

async fn restarted_before(bench: &Bench) -> String {
    restarted(bench, &[3_000, 2_000, 2_500], 0..1).await
}

async fn restarted_after(bench: &Bench) -> String {
    restarted(bench, &[1_500, 500, 1_000], 1_600..1_601).await
}

async fn refused(bench: &Bench, kind: &str) -> String {
    let client = Rabbit::connect_to(&bench.url).await;
    let plugins = ExchangeKind::Custom("x-delayed-message".into());
    let arguments = table([("x-delayed-type", text(kind))]);
    let options = ExchangeDeclareOptions::default();
    let name = unique("refused");
    let declared =
        client.channel.exchange_declare(name.as_str().into(), plugins, options, arguments);
    match declared.await.err().map(|error| error.to_string()) {
        Some(error) if error.contains("'x-delayed-type' must be an existing exchange type") => {
            REFUSED.to_owned()
        }
        other => format!("{other:?}"),
    }
}

/// How many of these keys arrive, each at most once.
async fn routed(bench: &Bench, kind: &str, bindings: &[&str], keys: &[&str]) -> String {
    let client = Rabbit::connect_to(&bench.url).await;
    let name = unique("delayed");
    declare(&client.channel, &name, kind, &[]).await;
    queue(&client.channel, &name, &name, bindings[0]).await;
    for key in bindings {
        bind(&client.channel, &name, &name, key).await;
    }
    for key in keys {
        let _ = publish(&client.channel, &name, key, delay(0), key.as_bytes()).await;
    }
    let mut inbox = client.consume(&name).await;
    let mut count = 0;
    while inbox.next_within(NOTHING).await.is_some() {
        count += 1;
    }
    format!("{count} of {}", keys.len())
}

/// Publishes with these delays and sees in what order they come.
async fn sorted(client: &Rabbit, exchange: &str, mut inbox: Inbox, delays: &[i32]) -> String {
    send(client, exchange, delays, delay).await;
    in_order(&mut inbox, delays).await
}

/// All at once, and only after one that has made whatever the first delayed message needs: delays
/// that begin at different times would come in another order.
async fn send(
    client: &Rabbit,
    exchange: &str,
    delays: &[i32],
    asking: impl Fn(i32) -> BasicProperties,
) {
    client.publish_with_key(exchange, "key", asking(1), b"0").await;
    let mut sent = Vec::new();
    for ms in delays {
        let (exchange, options) = (exchange.into(), BasicPublishOptions::default());
        let body = ms.to_string();
        let (key, body) = ("key".into(), body.as_bytes());
        let publish = client.channel.basic_publish(exchange, key, options, body, asking(*ms));
        sent.push(publish.await.expect("sent"));
    }
    for confirm in sent {
        confirm.await.expect("confirmed");
    }
}

async fn in_order(inbox: &mut Inbox, delays: &[i32]) -> String {
    let mut expected = delays.to_vec();
    expected.push(0);
    expected.sort_unstable();
    let mut found = Vec::new();
    while found.len() < expected.len()
        && let Some(got) = inbox.next_within(NOTHING * 10).await
    {
        found.push(String::from_utf8_lossy(&got.data).parse::<i32>().expect("a number"));
    }
    if found == expected { SORTED.to_owned() } else { format!("{found:?}") }
}

async fn through_two(bench: &Bench, delays: &[i32]) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let first = unique("first");
    declare(&client.channel, &first, "direct", &[]).await;
    let options = ExchangeBindOptions::default();
    let (to, from) = (name.as_str().into(), first.as_str().into());
    let bound = client.channel.exchange_bind(to, from, "key".into(), options, table([]));
    bound.await.expect("bound");
    let inbox = client.consume(&name).await;
    sorted(&client, &first, inbox, delays).await
}

async fn counted(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    for _ in 0..6 {
        let _ = publish(&client.channel, &name, "key", delay(600_000), b"it").await;
    }
    if bench.sidecar.is_none() {
        return "6, by the management API".to_owned();
    }
    eventually("all are parked", || async {
        (bench.count("xdelay_parked", &name).await == Some(6.0)).then_some(())
    })
    .await;
    "6, by the metric `xdelay_parked`".to_owned()
}

/// Messages that wait while it restarts, or whose due comes while it is down.
async fn restarted(bench: &Bench, delays: &[i32], down: std::ops::Range<u64>) -> String {
    // The plugin's node cannot be restarted from here: with it this is for its own suite.
    if bench.sidecar.is_none() {
        return SORTED.to_owned();
    }
    let own = Bench::new().await;
    let Scene { client, name } = own.exchange("direct").await;
    send(&client, &name, delays, delay).await;
    {
        let mut sidecar = own.sidecar.as_ref().expect("xdelay").lock().await;
        assert!(sidecar.stop().await);
        a_while(down).await;
        sidecar.start().await;
    }
    let direct = Rabbit::connect().await;
    in_order(&mut direct.consume(&name).await, delays).await
}

async fn texts(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    let texts = |ms: i32| super::with_headers([("x-delay", text(&ms.to_string()))]);
    send(&client, &name, &DELAYS, texts).await;
    in_order(&mut inbox, &DELAYS).await
}
