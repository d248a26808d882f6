//! Kafka for tests: a client of its own, with topics that nobody else uses, and brokers to kill.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::load::{Account, now_ms};
use super::{PATIENCE, free_port, setting, unique};

/// A client of a cluster.
#[derive(Clone)]
pub struct Kafka {
    brokers: String,
    producer: FutureProducer,
    admin: Arc<AdminClient<DefaultClientContext>>,
}

/// A header with a value or null.
pub type Field<'a> = (&'a str, Option<&'a [u8]>);

pub fn headers(fields: &[Field<'_>]) -> OwnedHeaders {
    fields.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(rdkafka::message::Header { key, value: *value })
    })
}

/// Headers that ask for a delay.
pub fn delay(ms: u64) -> OwnedHeaders {
    headers(&[("x-delay", Some(ms.to_string().as_bytes()))])
}

/// All headers of a record.
pub fn fields(record: &OwnedMessage) -> Vec<(String, Option<Vec<u8>>)> {
    let all = record.headers().map(|headers| headers.iter().collect::<Vec<_>>());
    let owned = |header: rdkafka::message::Header<'_, &[u8]>| {
        (header.key.to_owned(), header.value.map(<[u8]>::to_vec))
    };
    all.unwrap_or_default().into_iter().map(owned).collect()
}

/// The last header of a name, as text.
pub fn header(record: &OwnedMessage, name: &str) -> Option<String> {
    let found = fields(record).into_iter().rfind(|(key, _)| key == name)?;
    Some(String::from_utf8_lossy(&found.1?).into_owned())
}

pub fn text(record: &OwnedMessage) -> String {
    String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned()
}

impl Kafka {
    /// The one that all tests share.
    pub fn shared() -> Self {
        Self::at(&setting("TEST_KAFKA_BROKERS"))
    }

    pub fn at(brokers: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("message.max.bytes", "10000000");
        config.set("linger.ms", "0").set("enable.idempotence", "true");
        let producer = config.create().expect("a producer");
        let admin = Arc::new(config.create().expect("an admin client"));
        Self { brokers: brokers.to_owned(), producer, admin }
    }

    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// A destination with its capture topic, of so many partitions each.
    pub async fn destination(&self, partitions: i32) -> String {
        let name = unique("orders");
        self.create(&name, partitions, &[]).await;
        self.create(&format!("xdelay.{name}"), partitions, &[]).await;
        name
    }

    pub async fn create(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        for (name, value) in settings {
            new = new.set(name, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let created = self.admin.create_topics([&new], &options).await.expect("answered");
        created[0].as_ref().unwrap_or_else(|error| panic!("{error:?}"));
    }

    pub async fn delete(&self, topic: &str) {
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let deleted = self.admin.delete_topics(&[topic], &options).await.expect("answered");
        deleted[0].as_ref().unwrap_or_else(|error| panic!("{error:?}"));
    }

    /// Every topic there is.
    pub async fn topics(&self) -> Vec<String> {
        let producer = self.producer.clone();
        let ask = move || producer.client().fetch_metadata(None, PATIENCE).expect("metadata");
        let metadata = tokio::task::spawn_blocking(ask).await.expect("joined");
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    }

    /// Runs one of Kafka's own commands against the shared broker.
    pub async fn tool(&self, class: &str, arguments: &[&str]) {
        self.tool_given(class, arguments, "").await;
    }

    /// The same with something to read; answers what it printed.
    pub async fn tool_given(&self, class: &str, arguments: &[&str], input: &str) -> String {
        let mut command = Command::new(format!("{}/kafka", setting("TEST_DEV")));
        command.args(["tool", &setting("TEST_KAFKA_NODE"), class]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let run = move || {
            let mut child = command.spawn().expect("dev/kafka runs");
            let mut stdin = child.stdin.take().expect("piped");
            stdin.write_all(input.as_bytes()).expect("read");
            drop(stdin);
            child.wait_with_output().expect("it ends")
        };
        let output = tokio::task::spawn_blocking(run).await.expect("joined");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{class}: {errors}{printed}");
        printed
    }

    /// Deletes what lies before an offset, as retention does.
    pub async fn delete_before(&self, topic: &str, partition: i32, offset: i64) {
        let mut before = TopicPartitionList::new();
        before.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset");
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        self.admin.delete_records(&before, &options).await.expect("deleted");
    }

    /// Writes a record and waits until it is confirmed; answers its partition and offset.
    pub async fn write(&self, record: FutureRecord<'_, [u8], [u8]>) -> (i32, i64) {
        let sent = self.producer.send(record, PATIENCE).await;
        let delivery = sent.map_err(|(error, _)| error).expect("delivered");
        (delivery.partition, delivery.offset)
    }

    /// Writes a value with a delay.
    pub async fn write_delayed(&self, topic: &str, value: &str, ms: u64) -> (i32, i64) {
        let record = FutureRecord::to(topic).payload(value.as_bytes()).headers(delay(ms));
        self.write(record).await
    }

    /// Reads a topic from its beginning.
    pub fn read(&self, topic: &str) -> Inbox {
        let metadata = self.producer.client().fetch_metadata(Some(topic), PATIENCE);
        let partitions = metadata.expect("metadata").topics()[0].partitions().len();
        let mut all = TopicPartitionList::new();
        for partition in 0..partitions as i32 {
            all.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
        }
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", unique("reader"))
            .set("enable.auto.commit", "false")
            .create()
            .expect("a consumer");
        consumer.assign(&all).expect("assigned");
        Inbox(Arc::new(consumer))
    }

    /// What a group was told of a partition.
    pub async fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let (group, topic) = (group.to_owned(), topic.to_owned());
        let brokers = self.brokers.clone();
        let ask = move || {
            let consumer: BaseConsumer = ClientConfig::new()
                .set("bootstrap.servers", brokers)
                .set("group.id", group)
                .create()
                .expect("a consumer");
            let mut asked = TopicPartitionList::new();
            asked.add_partition(&topic, partition);
            let told = consumer.committed_offsets(asked, PATIENCE).expect("offsets");
            match told.elements()[0].offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            }
        };
        tokio::task::spawn_blocking(ask).await.expect("joined")
    }
}

/// A consumer that reads whole topics.
pub struct Inbox(Arc<BaseConsumer>);

impl Inbox {
    /// The next record, if one comes in time.
    pub async fn next_within(&mut self, time: Duration) -> Option<OwnedMessage> {
        let consumer = Arc::clone(&self.0);
        let poll = move || {
            let end = std::time::Instant::now() + time;
            loop {
                let left = end.saturating_duration_since(std::time::Instant::now());
                match consumer.poll(left) {
                    Some(Ok(record)) => return Some(record.detach()),
                    Some(Err(error)) => eprintln!("reading: {error}"),
                    None if left.is_zero() => return None,
                    None => {}
                }
            }
        };
        tokio::task::spawn_blocking(poll).await.expect("joined")
    }

    pub async fn next(&mut self) -> OwnedMessage {
        self.next_within(PATIENCE).await.expect("a record in time")
    }

    /// So many records.
    pub async fn take(&mut self, count: usize) -> Vec<OwnedMessage> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.push(self.next().await);
        }
        taken
    }
}

/// A broker of a test's own, which it may kill.
pub struct OwnBroker {
    name: String,
    port: u16,
}

impl OwnBroker {
    pub fn start() -> Self {
        let broker = Self { name: unique("own"), port: free_port() };
        broker.start_again();
        broker
    }

    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn start_again(&self) {
        self.run(&["start", &self.name, &self.port.to_string()]);
    }

    /// `kill -9`
    pub fn kill(&self) {
        self.run(&["kill", &self.name]);
    }

    fn run(&self, arguments: &[&str]) {
        let script = format!("{}/kafka", setting("TEST_DEV"));
        let output = Command::new(script).args(arguments).output().expect("dev/kafka runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "dev/kafka {arguments:?}: {errors}");
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        self.run(&["remove", &self.name]);
    }
}

/// Writes `count` records of random keys and delays, in small groups, each until it is confirmed.
pub fn produce(
    brokers: &str,
    topic: &str,
    account: &Arc<Account>,
    count: usize,
) -> tokio::task::JoinHandle<()> {
    produce_with(brokers, topic, account, count, 1..3_000)
}

/// The same with delays, in milliseconds, between these.
pub fn produce_with(
    brokers: &str,
    topic: &str,
    account: &Arc<Account>,
    count: usize,
    delays: std::ops::Range<u64>,
) -> tokio::task::JoinHandle<()> {
    const GROUP: usize = 20;
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true")
        .set("linger.ms", "0")
        .create()
        .expect("a producer");
    let (topic, account) = (topic.to_owned(), Arc::clone(account));
    tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for first in (0..count).step_by(GROUP) {
            let group = (first..count.min(first + GROUP)).map(|n| {
                let (id, ms, key) =
                    (n.to_string(), fastrand::u64(delays.clone()), fastrand::u8(..));
                account.try_one(&id, ms);
                let (topic, producer, account) = (&topic, &producer, &account);
                async move {
                    let key = [key];
                    let record = FutureRecord::to(topic).key(&key[..]).payload(id.as_bytes());
                    let sent = producer.send(record.headers(delay(ms)), PATIENCE * 4).await;
                    sent.map_err(|(error, _)| error).expect("delivered in the end");
                    account.confirm(id);
                }
            });
            futures_util::future::join_all(group).await;
            pace.tick().await;
        }
    })
}

/// Reads for ever, through broken connections, and keeps account.
pub fn consume(brokers: &str, topic: &str, account: &Arc<Account>) -> tokio::task::JoinHandle<()> {
    let mut inbox = Kafka::at(brokers).read(topic);
    let account = Arc::clone(account);
    tokio::spawn(async move {
        loop {
            let Some(record) = inbox.next_within(Duration::from_millis(200)).await else {
                continue;
            };
            let due = header(&record, "x-delayed-due").expect("a due");
            account.note(text(&record), now_ms(), due.parse().expect("a number"));
        }
    })
}
