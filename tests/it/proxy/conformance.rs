//! What the delayed-message plugin does, and what xdelay does in its place: one suite for both.
//!
//! A row says how something is looked at, and what is seen with either. Run against xdelay's proxy
//! it expects xdelay's answers; with `CONFORMANCE_URL` set to a RabbitMQ that has the real plugin
//! (3.13 or later), it expects the plugin's. The page `docs/plugin-compatibility.md` is made from
//! the rows, so it cannot say what was not tested: `UPDATE_PAGES=1` writes it anew.

mod headers;
mod interactions;
mod messages;
mod upstream;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use lapin::options::{
    BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::AMQPValue;
use lapin::{BasicProperties, Channel, ExchangeKind};

use super::support::proxied;
use crate::support::rabbit::{Rabbit, headers as with_headers, table, text};
use crate::support::sidecar::Sidecar;
use crate::support::unique;

/// One thing to look at.
pub struct Row {
    case: &'static str,
    /// What is seen with the plugin, 3.13 and later.
    plugin: &'static str,
    /// What is seen with xdelay; `None` where it is the same.
    ours: Option<&'static str>,
    /// Why it differs, or what to know.
    why: &'static str,
    look: Look,
}

type Look = Box<dyn Fn(Arc<Bench>) -> BoxFuture<'static, String> + Send + Sync>;

/// How to look, from a function that does.
macro_rules! look {
    ($function:ident) => {{
        let look: crate::proxy::conformance::Look =
            Box::new(|bench| Box::pin(async move { $function(&bench).await }));
        look
    }};
}
use look;

/// What is looked at.
pub struct Bench {
    url: String,
    /// xdelay, where it is not the plugin.
    sidecar: Option<tokio::sync::Mutex<Sidecar>>,
}

impl Bench {
    async fn new() -> Self {
        if let Ok(url) = std::env::var("CONFORMANCE_URL") {
            return Self { url, sidecar: None };
        }
        let (mut sidecar, url) = proxied();
        sidecar.start().await;
        Self { url, sidecar: Some(tokio::sync::Mutex::new(sidecar)) }
    }

    /// A client with an exchange as users of the plugin declare it, and a queue bound with `key`.
    async fn exchange(&self, kind: &str) -> Scene {
        let client = Rabbit::connect_to(&self.url).await;
        let name = unique("delayed");
        declare(&client.channel, &name, kind, &[]).await;
        queue(&client.channel, &name, &name, "key").await;
        Scene { client, name }
    }

    /// A client of the broker itself.
    async fn direct(&self) -> Rabbit {
        match self.sidecar {
            Some(_) => Rabbit::connect().await,
            None => Rabbit::connect_to(&self.url).await,
        }
    }

    /// Who its clients log in as.
    fn user(&self) -> String {
        let (_, after) = self.url.split_once("://").expect("a scheme");
        after.split([':', '@']).next().unwrap_or_default().to_owned()
    }

    /// A number that xdelay counts for an exchange; `None` with the plugin.
    async fn count(&self, metric: &str, exchange: &str) -> Option<f64> {
        let sidecar = self.sidecar.as_ref()?.lock().await;
        let (_, metrics) = sidecar.get("/metrics")?;
        let of = format!("destination=\"{exchange}\"");
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with(metric) && line.contains(&of))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

/// A client, and the name of its exchange and queue.
struct Scene {
    client: Rabbit,
    name: String,
}

async fn declare(channel: &Channel, name: &str, kind: &str, more: &[(&str, AMQPValue)]) {
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let mut arguments = table([("x-delayed-type", text(kind))]);
    for (name, value) in more {
        arguments.insert((*name).into(), value.clone());
    }
    let kind = ExchangeKind::Custom("x-delayed-message".into());
    channel.exchange_declare(name.into(), kind, options, arguments).await.expect("declared");
}

/// A queue that is bound.
async fn queue(channel: &Channel, queue: &str, exchange: &str, key: &str) {
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(queue.into(), options, table([])).await.expect("a queue");
    bind(channel, queue, exchange, key).await;
}

async fn bind(channel: &Channel, queue: &str, exchange: &str, key: &str) {
    let options = QueueBindOptions::default();
    let bound = channel.queue_bind(queue.into(), exchange.into(), key.into(), options, table([]));
    bound.await.expect("bound");
}

fn delay(ms: i32) -> BasicProperties {
    with_headers([("x-delay", AMQPValue::LongInt(ms))])
}

/// How a publish ended: the body of what came back with its confirm, or the error.
async fn publish(
    channel: &Channel,
    exchange: &str,
    key: &str,
    properties: BasicProperties,
    body: &[u8],
) -> Result<bool, lapin::Error> {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let publish = channel.basic_publish(exchange.into(), key.into(), options, body, properties);
    Ok(publish.await?.await?.take_message().is_some())
}

/// Long enough that what has not come by then is not on its way, and no test waits often for it.
const NOTHING: Duration = Duration::from_millis(1_500);

/// Looks at every row, side by side, and compares.
async fn suite(rows: Vec<Row>) {
    let bench = Arc::new(Bench::new().await);
    let seen = join_all(rows.iter().map(|row| (row.look)(Arc::clone(&bench)))).await;
    let mut wrong = String::new();
    for (row, seen) in rows.iter().zip(seen) {
        let ours = row.ours.unwrap_or(row.plugin);
        let expected = if bench.sidecar.is_some() { ours } else { row.plugin };
        if seen != expected {
            let _ = writeln!(wrong, "{}: expected `{expected}`, seen `{seen}`", row.case);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_values() {
    suite(headers::rows()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interactions_with_other_features() {
    suite(interactions::rows()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_as_they_arrive() {
    suite(messages::rows()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_of_the_plugins_own_suite() {
    suite(upstream::rows()).await;
}

/// Where the page begins.
const HEAD: &str = "# xdelay in place of the delayed-message plugin

Made from the tests in `tests/it/proxy/conformance/`, which look at each of these through the proxy; do not edit it, run `UPDATE_PAGES=1 cargo test --test it -- conformance::the_page`. The plugin's column is what versions 3.13 and later do. To see it yourself, run the same tests against a RabbitMQ that has the plugin: `CONFORMANCE_URL=amqp://guest:guest@127.0.0.1:5672/%2f cargo test --test it -- conformance`.

Two more of the plugin's own cases need no row. `no_message_for_index` damages the plugin's table, which xdelay has not; and the group `fine_stats` runs two cases again with other statistics.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, rows) in [
        ("Values of `x-delay`", headers::rows()),
        ("The message itself", messages::rows()),
        ("With other features", interactions::rows()),
        ("The plugin's own test cases", upstream::rows()),
    ] {
        let _ =
            write!(page, "\n## {title}\n\n| | plugin | xdelay | |\n| --- | --- | --- | --- |\n");
        for Row { case, plugin, ours, why, .. } in rows {
            let _ = match ours {
                None => writeln!(page, "| {case} | {plugin} | the same | {why} |"),
                Some(ours) => writeln!(page, "| {case} | {plugin} | **{ours}** | {why} |"),
            };
        }
    }
    page
}

#[test]
fn the_page_says_what_was_tested() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/plugin-compatibility.md");
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let found = std::fs::read_to_string(&path).expect("a page");
    assert!(found == page(), "docs/plugin-compatibility.md is old: run with UPDATE_PAGES=1");
}
