//! RabbitMQ for tests: a client that is not xdelay's, and the node under its control.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind};
use tokio::time::timeout;

use super::{PATIENCE, setting, unique};

/// A connection with one confirming channel.
pub struct Rabbit {
    pub connection: Connection,
    pub channel: Channel,
}

impl Rabbit {
    pub async fn connect() -> Self {
        Self::connect_to(&setting("TEST_AMQP_URL")).await
    }

    pub async fn connect_to(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default());
        let connection = connection.await.expect("RabbitMQ answers");
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        Self { connection, channel }
    }

    /// A durable topic exchange with a durable queue that gets everything; both share a new name.
    pub async fn destination(&self) -> String {
        let name = unique("orders");
        self.declare_exchange(&name).await;
        self.declare_queue(&name).await;
        name
    }

    pub async fn declare_exchange(&self, name: &str) {
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let kind = ExchangeKind::Topic;
        let declare = self.channel.exchange_declare(name.into(), kind, options, table([]));
        declare.await.expect("an exchange");
    }

    /// A queue named like the exchange, bound to all of it.
    pub async fn declare_queue(&self, name: &str) {
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        self.channel.queue_declare(name.into(), options, table([])).await.expect("a queue");
        let bind = QueueBindOptions::default();
        let bound = self.channel.queue_bind(name.into(), name.into(), "#".into(), bind, table([]));
        bound.await.expect("a binding");
    }

    pub async fn delete_queue(&self, name: &str) {
        let options = QueueDeleteOptions::default();
        self.channel.queue_delete(name.into(), options).await.expect("deleted");
    }

    /// Publishes and waits for the confirm; panics when it comes back.
    pub async fn publish(&self, exchange: &str, properties: BasicProperties, body: &[u8]) {
        self.publish_with_key(exchange, "key", properties, body).await;
    }

    pub async fn publish_with_key(
        &self,
        exchange: &str,
        key: &str,
        properties: BasicProperties,
        body: &[u8],
    ) {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let publish =
            self.channel.basic_publish(exchange.into(), key.into(), options, body, properties);
        let confirm = publish.await.expect("published").await.expect("confirmed");
        assert!(confirm.is_ack() && confirm.take_message().is_none(), "it came back");
    }

    pub async fn consume(&self, queue: &str) -> Inbox {
        let consume = self.channel.basic_consume(
            queue.into(),
            ShortString::from(""),
            BasicConsumeOptions::default(),
            table([]),
        );
        Inbox { consumer: consume.await.expect("a consumer") }
    }

    /// Ready messages of a queue.
    pub async fn ready(&self, queue: &str) -> u32 {
        self.look(queue).await.map_or(0, |queue| queue.message_count())
    }

    /// Consumers of a queue.
    pub async fn consumers(&self, queue: &str) -> u32 {
        self.look(queue).await.map_or(0, |queue| queue.consumer_count())
    }

    async fn look(&self, queue: &str) -> Option<lapin::Queue> {
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let channel = self.connection.create_channel().await.expect("a channel");
        channel.queue_declare(queue.into(), passive, table([])).await.ok()
    }
}

/// What a consumer gets.
pub struct Inbox {
    consumer: Consumer,
}

impl Inbox {
    /// The next message, acked.
    pub async fn next(&mut self) -> Delivery {
        self.next_within(PATIENCE).await.expect("a message in time")
    }

    /// The next message, if one comes in time.
    pub async fn next_within(&mut self, wait: Duration) -> Option<Delivery> {
        let delivery = timeout(wait, self.consumer.next()).await.ok()?;
        let delivery = delivery.expect("still consuming").expect("a delivery");
        delivery.acker.ack(BasicAckOptions::default()).await.expect("acked");
        Some(delivery)
    }
}

/// A header table.
pub fn table<const N: usize>(pairs: [(&str, AMQPValue); N]) -> FieldTable {
    let pairs = pairs.into_iter().map(|(key, value)| (ShortString::from(key), value));
    FieldTable::from(pairs.collect::<BTreeMap<_, _>>())
}

/// Properties of a message with these headers.
pub fn headers<const N: usize>(pairs: [(&str, AMQPValue); N]) -> BasicProperties {
    BasicProperties::default().with_headers(table(pairs)).with_delivery_mode(2)
}

pub fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// A header of a delivery.
pub fn header(delivery: &Delivery, name: &str) -> Option<AMQPValue> {
    delivery.properties.headers().as_ref()?.inner().get(name).cloned()
}

/// The URL of a new virtual host, for tests that share no queue with others.
pub fn own_vhost() -> String {
    let vhost = unique("vhost");
    control(&["add_vhost", &vhost]);
    control(&["set_permissions", "-p", &vhost, "guest", ".*", ".*", ".*"]);
    let url = setting("TEST_AMQP_URL");
    format!("{}/{vhost}", url.rsplit_once('/').expect("a vhost").0)
}

/// `rabbitmqctl` on the node under test.
pub fn control(arguments: &[&str]) -> String {
    run("ctl", &setting("TEST_RABBITMQ_NODE"), arguments)
}

/// The same, fed from standard input.
pub fn control_with(arguments: &[&str], input: &str) {
    let script = format!("{}/rabbitmq", setting("TEST_DEV"));
    let mut command = Command::new(script);
    command.arg("ctl").arg(setting("TEST_RABBITMQ_NODE")).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("dev/rabbitmq runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rabbitmqctl {arguments:?}: {errors}");
}

/// `dev/rabbitmq VERB NODE arguments...`
fn run(verb: &str, name: &str, arguments: &[&str]) -> String {
    let script = format!("{}/rabbitmq", setting("TEST_DEV"));
    let output = Command::new(script).arg(verb).arg(name).args(arguments).output();
    let output = output.expect("dev/rabbitmq runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "dev/rabbitmq {verb} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A RabbitMQ of one's own, to kill and to block; gone when dropped.
pub struct OwnNode {
    name: String,
    port: u16,
    /// Lines of its configuration.
    lines: Vec<String>,
}

impl OwnNode {
    pub fn start() -> Self {
        Self::start_with(|_| Vec::new())
    }

    /// With more lines in its `rabbitmq.conf`, for its port.
    pub fn start_with(lines: impl FnOnce(u16) -> Vec<String>) -> Self {
        // A node takes some ports above its own as well, which must be below the ephemeral ones.
        static NEXT: AtomicU16 = AtomicU16::new(21_700);
        let port = NEXT.fetch_add(100, Ordering::Relaxed) + setting_port() % 100;
        let node = Self { name: unique("own"), port, lines: lines(port) };
        node.start_again();
        node
    }

    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn start_again(&self) {
        let port = self.port.to_string();
        let lines = self.lines.iter().map(String::as_str);
        let arguments: Vec<_> = std::iter::once(port.as_str()).chain(lines).collect();
        run("start", &self.name, &arguments);
    }

    pub fn control(&self, arguments: &[&str]) {
        run("ctl", &self.name, arguments);
    }

    /// `kill -9`
    pub fn kill(&self) {
        run("kill", &self.name, &[]);
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        let script = format!("{}/rabbitmq", setting("TEST_DEV"));
        let _ = Command::new(script).args(["remove", &self.name]).output();
    }
}

/// The port of the node under test, by which runs side by side keep out of each other's way.
fn setting_port() -> u16 {
    let url = setting("TEST_AMQP_URL");
    let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok());
    port.expect("a port in TEST_AMQP_URL")
}
