//! xdelay as a user of RabbitMQ and one of Redis that may do what the README says, and nothing more.
//! The rights are read from the README, so they are those that people copy.

use lapin::types::AMQPValue;
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use super::support::rabbit::{Inbox, Rabbit, control, headers, text};
use super::support::redis::connection;
use super::support::sidecar::Sidecar;
use super::support::{eventually_is, setting, unique};

const README: &str = include_str!("../../README.md");
const HOUR: i32 = 3_600_000;

/// What follows this at the beginning of lines of the README, comments left out.
fn documented(command: &str) -> Vec<&'static str> {
    let lines = README.lines().filter_map(|line| line.strip_prefix(command));
    lines.map(|line| line.split(" #").next().unwrap_or(line).trim()).collect()
}

/// What to configure, to write and to read, where `orders` is the only destination.
fn patterns() -> Vec<&'static str> {
    let lines = documented("rabbitmqctl set_permissions -p / xdelay ");
    let [line] = lines[..] else { panic!("{lines:?}") };
    line.split('\'').skip(1).step_by(2).collect()
}

/// The rules of the user in Redis: for every version, and for those since 7.2.
fn rules() -> [Vec<&'static str>; 2] {
    let lines = documented("ACL SETUSER xdelay ");
    let [all, newer] = lines[..] else { panic!("{lines:?}") };
    [all, newer].map(|line| line.split(' ').collect())
}

/// Both users; gone when dropped.
struct Users {
    name: String,
    admin: MultiplexedConnection,
}

impl Users {
    /// For this exchange and this namespace.
    async fn new(orders: &str, namespace: &str) -> Self {
        let name = unique("least");
        control(&["add_user", &name, "a-long-password"]);
        let patterns: Vec<_> =
            patterns().iter().map(|pattern| pattern.replace("orders", orders)).collect();
        let [configure, write, read] = &patterns[..] else { panic!("{patterns:?}") };
        control(&["set_permissions", &name, configure, write, read]);

        let mut admin = connection(&setting("TEST_REDIS_URL")).await;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut admin).await.unwrap();
        let [all, newer] = rules();
        // Valkey forked from 7.2, and says so here.
        let old = info.contains("redis_version:7.0") || info.contains("redis_version:6");
        let rules = if old { all } else { [all, newer].concat() };
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg(&name);
        for rule in rules {
            set.arg(rule.replace("~xdelay:", &format!("~{namespace}:")));
        }
        set.query_async::<()>(&mut admin).await.expect("a user");
        Self { name, admin }
    }

    /// A URL of the other services, for these users.
    fn url(&self, of: &str) -> String {
        let (scheme, rest) = of.split_once("://").expect("a scheme");
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        format!("{scheme}://{}:a-long-password@{place}", self.name)
    }

    async fn delete(mut self) {
        control(&["delete_user", &self.name]);
        let mut delete = redis::cmd("ACL");
        delete.arg("DELUSER").arg(&self.name);
        delete.query_async::<()>(&mut self.admin).await.expect("deleted");
    }
}

fn with_id(delay: i32, id: &str) -> lapin::BasicProperties {
    headers([("x-delay", AMQPValue::LongInt(delay)), ("x-delay-id", text(id))])
}

/// A request that succeeds.
fn call(sidecar: &Sidecar, method: &str, path: &str, body: &Value) -> Value {
    let headers = [("host", "localhost"), ("content-type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let headers = if body.is_empty() { &headers[..1] } else { &headers[..] };
    let (status, answer) = sidecar.request(method, path, headers, &body).expect("an answer");
    assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

#[tokio::test]
async fn what_the_readme_grants_is_enough_for_all_and_for_nothing_else() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    let namespace = sidecar.setting("REDIS__NAMESPACE").to_owned();
    let users = Users::new(&orders, &namespace).await;
    sidecar.set("AMQP__URL", &users.url(&setting("TEST_AMQP_URL")));
    sidecar.set("REDIS__URL", &users.url(&setting("TEST_REDIS_URL")));
    sidecar.set("RELEASE__LEASE", "2s");
    let output = sidecar.output_of(&["check"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && !table.contains("warning"), "{table}");
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;

    producers_delay_replace_and_cancel(&sidecar, &rabbit, &orders, &mut inbox).await;
    operators_look_and_steer(&sidecar, &orders, &mut inbox).await;
    assert!(sidecar.stop().await);
    what_a_killed_one_had_in_hand_comes(&mut sidecar, &rabbit, &orders, &mut inbox).await;
    assert!(sidecar.stop().await);

    nothing_else_in_redis(&users, &namespace).await;
    nothing_else_in_rabbitmq(&users, &orders).await;
    users.delete().await;
}

async fn producers_delay_replace_and_cancel(
    sidecar: &Sidecar,
    rabbit: &Rabbit,
    orders: &str,
    inbox: &mut Inbox,
) {
    let front = format!("xdelay.{orders}");
    rabbit.publish(&front, with_id(HOUR, "a"), b"old").await;
    rabbit.publish(&front, with_id(HOUR, "b"), b"cancelled").await;
    rabbit.publish(&front, with_id(200, "a"), b"new").await;
    rabbit.publish(&front, headers([("x-delay-cancel", text("b"))]), b"").await;
    rabbit.publish(&front, headers([("x-delay", text("soon"))]), b"nonsense").await;
    assert_eq!(inbox.next().await.data, b"new");
    eventually_is(1.0, async || sidecar.metric("xdelay_replaced_total")).await;
    eventually_is(1.0, async || sidecar.metric("xdelay_cancelled_total")).await;
    eventually_is(1.0, async || sidecar.metric("xdelay_dead")).await;
}

async fn operators_look_and_steer(sidecar: &Sidecar, orders: &str, inbox: &mut Inbox) {
    let message = json!({"destination": orders, "id": "c", "delay_ms": HOUR, "key": "key",
        "body": "by hand"});
    call(sidecar, "POST", "/v1/messages", &message);
    let all = format!("/v1/messages?destination={orders}&state=parked");
    let listed = call(sidecar, "GET", &all, &Value::Null);
    assert_eq!(listed["messages"][0]["id"], "c", "{listed}");
    call(sidecar, "GET", "/v1/backlog?slot_ms=60000&slots=60", &Value::Null);
    call(sidecar, "POST", &format!("/v1/destinations/{orders}/pause"), &Value::Null);
    call(sidecar, "POST", &format!("/v1/destinations/{orders}/resume"), &Value::Null);
    let step = |step: &str| format!("/v1/messages/c{step}?destination={orders}");
    call(sidecar, "GET", &step(""), &Value::Null);
    call(sidecar, "POST", &step("/reschedule"), &json!({"delay_ms": 2 * HOUR}));
    call(sidecar, "POST", &step("/bury"), &json!({"reason": "not now"}));
    call(sidecar, "POST", &step("/revive"), &json!({"delay_ms": HOUR}));
    call(sidecar, "POST", &step("/release"), &Value::Null);
    assert_eq!(inbox.next().await.data, b"by hand");
    call(sidecar, "POST", "/v1/messages", &message);
    call(sidecar, "DELETE", &step(""), &Value::Null);
}

async fn what_a_killed_one_had_in_hand_comes(
    sidecar: &mut Sidecar,
    rabbit: &Rabbit,
    orders: &str,
    inbox: &mut Inbox,
) {
    sidecar.crash_at("claimed-unpublished:1:abort");
    sidecar.start().await;
    for n in 0..20 {
        let soon = headers([("x-delay", AMQPValue::LongInt(100))]);
        rabbit.publish(&format!("xdelay.{orders}"), soon, &[n]).await;
    }
    sidecar.ended().await;
    sidecar.crash_at("");
    sidecar.start().await;
    let mut came = std::collections::BTreeSet::new();
    while came.len() < 20 {
        came.insert(inbox.next().await.data);
    }
    assert!(sidecar.metric("xdelay_recovered_total") >= 1.0, "a lease was given back");
}

async fn nothing_else_in_redis(users: &Users, namespace: &str) {
    let mut redis = connection(&users.url(&setting("TEST_REDIS_URL"))).await;
    let own = format!("{namespace}:{{namespace}}:settings");
    for command in [
        &["FLUSHALL"][..],
        &["KEYS", "*"],
        &["CONFIG", "SET", "appendfsync", "no"],
        &["SCRIPT", "FLUSH"],
        &["ACL", "LIST"],
        &["CLIENT", "LIST"],
        &["SHUTDOWN"],
        &["EVAL", "return 1", "0"],
        &["RENAME", &own, "x"],
        &["HGETALL", &own],
        &["GET", "another"],
        &["SET", "another", "1"],
        &["SUBSCRIBE", "x"],
    ] {
        let mut call = redis::cmd(command[0]);
        let answer: Result<(), RedisError> = call.arg(&command[1..]).query_async(&mut redis).await;
        let error = answer.expect_err("refused");
        assert_eq!(error.code(), Some("NOPERM"), "{command:?}: {error}");
    }
}

async fn nothing_else_in_rabbitmq(users: &Users, orders: &str) {
    use lapin::options::{BasicConsumeOptions, QueueDeclareOptions, QueueDeleteOptions};
    let client = Rabbit::connect_to(&users.url(&setting("TEST_AMQP_URL"))).await;
    let channel = async || client.connection.create_channel().await.expect("a channel");
    let queue = unique("queue");
    let options = QueueDeclareOptions::default();
    let none = lapin::types::FieldTable::default;
    let declared = channel().await.queue_declare(queue.as_str().into(), options, none()).await;
    refused(declared.map(drop));
    let consume = BasicConsumeOptions::default();
    let consumed = channel().await.basic_consume(orders.into(), "".into(), consume, none()).await;
    refused(consumed.map(drop));
    let delete = QueueDeleteOptions::default();
    refused(channel().await.queue_delete(orders.into(), delete).await.map(drop));
    let elsewhere = channel().await;
    let confirms = lapin::options::ConfirmSelectOptions::default();
    elsewhere.confirm_select(confirms).await.expect("confirms");
    let publish = elsewhere.basic_publish(
        "amq.topic".into(),
        "key".into(),
        lapin::options::BasicPublishOptions::default(),
        b"",
        lapin::BasicProperties::default(),
    );
    refused(publish.await.expect("written").await.map(drop));
}

#[track_caller]
fn refused(answer: lapin::Result<()>) {
    let error = answer.expect_err("refused").to_string();
    assert!(error.contains("ACCESS_REFUSED") || error.contains("ACCESS-REFUSED"), "{error}");
}

#[test]
fn xdelay_itself_prints_the_rights_of_the_readme() {
    let mut sidecar = Sidecar::new(&["orders"]);
    sidecar.set("AMQP__URL", "amqp://xdelay:a-long-password@127.0.0.1:5672/%2f");
    let output = sidecar.output_of(&["topology"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for pattern in patterns() {
        assert!(said.contains(&format!("'{pattern}'")), "{pattern}\n{said}");
    }
    assert_eq!(patterns().len(), 3);
}

#[test]
fn every_command_of_a_script_is_granted() {
    let granted = rules().concat();
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/lua");
    let mut seen = 0;
    for script in std::fs::read_dir(scripts).expect("scripts") {
        let code = std::fs::read_to_string(script.expect("one").path()).expect("readable");
        for call in code.split("redis.call('").skip(1) {
            let command = call.split('\'').next().expect("a command").to_lowercase();
            assert!(granted.contains(&&*format!("+{command}")), "{command} is not granted");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
    assert!(!granted.iter().any(|rule| rule.contains("@all") && *rule != "-@all"), "{granted:?}");
}
