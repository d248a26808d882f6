//! How messages are captured: what must stand in RabbitMQ, and what happens when it does not.

use lapin::options::{
    BasicPublishOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueDeclareOptions,
};
use lapin::types::AMQPValue;
use lapin::{BasicProperties, ExchangeKind};

use super::support::rabbit::{
    Rabbit, control, control_with, header, headers, own_vhost, table, text,
};
use super::support::raw_publisher::{Got, get_raw, properties, publish_raw};
use super::support::sidecar::Sidecar;
use super::support::{eventually, eventually_is, setting, unique};

fn delayed(ms: i32) -> BasicProperties {
    headers([("x-delay", AMQPValue::LongInt(ms))])
}

#[tokio::test]
async fn undelayed_messages_never_touch_xdelay() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    assert!(sidecar.stop().await);
    let mut inbox = rabbit.consume(&orders).await;
    rabbit.publish(&format!("xdelay.{orders}"), headers([]), b"straight").await;
    assert_eq!(inbox.next().await.data, b"straight", "without xdelay running");
}

#[tokio::test]
async fn a_topic_front_captures_too_and_can_be_declared_by_its_producer() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("AMQP__FRONT", "topic");
    sidecar.start().await;
    let front = format!("xdelay.{orders}");
    rabbit.declare_exchange(&front).await;
    let mut inbox = rabbit.consume(&orders).await;
    rabbit.publish(&front, headers([]), b"straight").await;
    assert_eq!(inbox.next().await.data, b"straight");
    rabbit.publish(&front, delayed(100), b"later").await;
    let got = inbox.next().await;
    assert_eq!((&got.data[..], got.exchange.as_str()), (&b"later"[..], orders.as_str()));
}

#[tokio::test]
async fn a_topology_of_ones_own_is_only_checked_and_can_be_imported() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("AMQP__DECLARE", "false");
    let user = unique("user");
    control(&["add_user", &user, "secret"]);
    let url = setting("TEST_AMQP_URL").replace("guest:guest", &format!("{user}:secret"));
    sidecar.set("AMQP__URL", &url);
    let output = sidecar.output_of(&["topology", "--format", "definitions"]);
    assert!(output.status.success());
    let definitions: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rights = &definitions["permissions"][0];
    let right = |name: &str| rights[name].as_str().expect("a pattern").to_owned();
    let [configure, write, read] = ["configure", "write", "read"].map(right);
    assert_eq!(configure, "^$");
    // At first with too few rights to see the binding.
    let targets = format!("^{orders}$");
    control(&["set_permissions", &user, &configure, &targets, &read]);
    sidecar.spawn();
    sidecar.unready_saying("xdelay topology").await;
    let but_permissions = {
        let mut all = definitions.clone();
        all.as_object_mut().expect("an object").remove("permissions");
        all.to_string()
    };
    control_with(&["import_definitions"], &but_permissions);
    sidecar.unready_saying("pass undelayed").await;
    control(&["set_permissions", &user, &configure, &write, &read]);
    let commands = String::from_utf8_lossy(&output.stderr).into_owned();
    let binding = commands.lines().find_map(|line| line.strip_prefix("rabbitmqctl eval '"));
    let binding = binding.and_then(|line| line.strip_suffix('\'')).expect("a command");
    assert!(control(&["eval", binding]).contains("ok"));
    sidecar.ready().await;
    let mut inbox = rabbit.consume(&orders).await;
    rabbit.publish(&format!("xdelay.{orders}"), delayed(100), b"later").await;
    let got = inbox.next().await;
    assert!(header(&got, "x-delayed-uid").is_some(), "it was held back");
    control(&["delete_user", &user]);
}

#[tokio::test]
async fn an_unsafe_capture_queue_is_refused_with_what_mends_it() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let arguments =
        table([("x-queue-type", text("quorum")), ("x-delivery-limit", AMQPValue::LongInt(20))]);
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    let queue = format!("xdelay.park.{orders}");
    let declare = rabbit.channel.queue_declare(queue.as_str().into(), durable, arguments);
    declare.await.expect("a queue");
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.spawn();
    let said = sidecar.unready_saying("delete_queue").await;
    assert!(said.contains(&queue), "{said}");
    control(&["delete_queue", &queue]);
    sidecar.ready().await;
}

#[tokio::test]
async fn a_missing_exchange_makes_its_messages_wait_and_costs_no_attempt() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("RELEASE__RETRY__FIRST", "100ms");
    sidecar.set("RELEASE__RETRY__MAX", "200ms");
    sidecar.set("RELEASE__RETRY__ATTEMPTS", "2");
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    // With one message released the channel is open, and the next batch runs into the 404.
    rabbit.publish(&format!("xdelay.{orders}"), delayed(1), b"first").await;
    assert_eq!(inbox.next().await.data, b"first");
    for n in 0..20 {
        let later = delayed(500);
        rabbit.publish(&format!("xdelay.{orders}"), later, n.to_string().as_bytes()).await;
    }
    let delete = ExchangeDeleteOptions::default();
    rabbit.channel.exchange_delete(orders.as_str().into(), delete).await.expect("deleted");
    sidecar.unready_saying("no exchange").await;
    eventually("it has probed several times", || async {
        (sidecar.metric("xdelay_postponed_total") >= 4.0).then_some(())
    })
    .await;
    assert_eq!(sidecar.metric("xdelay_dead"), 0.0);
    rabbit.declare_exchange(&orders).await;
    rabbit.declare_queue(&orders).await;
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 20 {
        seen.insert(inbox.next().await.data);
    }
    sidecar.ready().await;
}

#[tokio::test]
async fn an_internal_destination_is_refused() {
    let rabbit = Rabbit::connect().await;
    let name = unique("internal");
    let options = ExchangeDeclareOptions { durable: true, internal: true, ..Default::default() };
    let kind = ExchangeKind::Topic;
    let declare = rabbit.channel.exchange_declare(name.as_str().into(), kind, options, table([]));
    declare.await.expect("an exchange");
    let mut sidecar = Sidecar::new(&[&name]);
    sidecar.spawn();
    sidecar.unready_saying("internal").await;
}

#[tokio::test]
async fn what_expires_while_nobody_captures_is_rescued() {
    let url = own_vhost();
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("AMQP__URL", &url);
    sidecar.start().await;
    assert!(sidecar.stop().await);
    let short = delayed(200).with_expiration("100".into());
    rabbit.publish(&format!("xdelay.{orders}"), short, b"short-lived").await;
    let queue = format!("xdelay.park.{orders}");
    eventually_is(0, || rabbit.ready(&queue)).await;
    sidecar.start().await;
    let mut inbox = rabbit.consume(&orders).await;
    let got = inbox.next().await;
    assert_eq!(got.data, b"short-lived");
    assert_eq!(got.properties.expiration().as_ref().map(|e| e.as_str()), Some("100"));
    assert_eq!(header(&got, "x-delay"), Some(AMQPValue::LongInt(-200)));
    for mark in ["x-death", "x-first-death-queue", "x-last-death-queue"] {
        assert_eq!(header(&got, mark), None);
    }
    let (status, said) = sidecar.get("/ready").expect("an answer");
    assert_eq!(status, 200, "its producer wanted it to expire: {said}");
}

#[tokio::test]
async fn a_policy_that_drops_is_survived_and_said() {
    let url = own_vhost();
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("AMQP__URL", &url);
    sidecar.start().await;
    assert!(sidecar.stop().await);
    let pattern = format!("^xdelay.park.{orders}$");
    let vhost = url.rsplit_once('/').expect("a vhost").1;
    let policy = r#"{"message-ttl":50}"#;
    control(&["set_policy", "-p", vhost, "short", &pattern, policy, "--apply-to", "queues"]);
    rabbit.publish(&format!("xdelay.{orders}"), delayed(200), b"dropped").await;
    let queue = format!("xdelay.park.{orders}");
    eventually_is(0, || rabbit.ready(&queue)).await;
    control(&["clear_policy", "-p", vhost, "short"]);
    sidecar.spawn();
    let mut inbox = rabbit.consume(&orders).await;
    assert_eq!(inbox.next().await.data, b"dropped");
    sidecar.unready_saying("effective_policy_definition").await;
}

#[tokio::test]
async fn what_no_queue_wants_is_buried_in_the_end() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("RELEASE__RETRY__FIRST", "20ms");
    sidecar.set("RELEASE__RETRY__ATTEMPTS", "3");
    sidecar.start().await;
    rabbit.delete_queue(&orders).await;
    rabbit.publish(&format!("xdelay.{orders}"), delayed(10), b"unwanted").await;
    eventually_is(1.0, || async { sidecar.metric("xdelay_dead") }).await;
    assert_eq!(sidecar.metric("xdelay_released_total"), 0.0);
    assert_eq!(sidecar.metric("xdelay_postponed_total"), 2.0);
}

#[tokio::test]
async fn what_no_queue_wants_is_dropped_where_that_is_meant() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("RELEASE__ON_UNROUTABLE", "drop");
    sidecar.start().await;
    rabbit.delete_queue(&orders).await;
    rabbit.publish(&format!("xdelay.{orders}"), delayed(10), b"unwanted").await;
    eventually_is(1.0, || async { sidecar.metric("xdelay_dropped_total") }).await;
    eventually_is(0.0, || async {
        sidecar.metric("xdelay_parked") + sidecar.metric("xdelay_leased")
    })
    .await;
}

/// A client that gives a returned message to whichever confirm comes next, as lapin does,
/// unroutable messages would be settled as delivered.
#[tokio::test]
async fn unroutable_messages_among_routable_ones_are_told_apart() {
    let rabbit = Rabbit::connect().await;
    let orders = unique("orders");
    rabbit.declare_exchange(&orders).await;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    let queue = rabbit.channel.queue_declare(orders.as_str().into(), durable, table([]));
    queue.await.expect("a queue");
    let bound = rabbit.channel.queue_bind(
        orders.as_str().into(),
        orders.as_str().into(),
        "good".into(),
        Default::default(),
        table([]),
    );
    bound.await.expect("a binding");
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("RELEASE__RETRY__ATTEMPTS", "1");
    sidecar.start().await;
    let front = format!("xdelay.{orders}");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    let at = AMQPValue::LongLongInt(i64::try_from(now).expect("in range") + 1_500);
    let messages = 2_000;
    for n in 0..messages {
        let key = if n % 2 == 0 { "good" } else { "bad" };
        // Transient ones are confirmed at once, which is when lapin mixes them up most.
        let properties = headers([("x-deliver-at", at.clone())]).with_delivery_mode(1);
        let options = BasicPublishOptions::default();
        let body = n.to_string();
        let publish = rabbit.channel.basic_publish(
            front.as_str().into(),
            key.into(),
            options,
            body.as_bytes(),
            properties,
        );
        drop(publish.await.expect("published"));
    }
    let mut inbox = rabbit.consume(&orders).await;
    for _ in 0..messages / 2 {
        let got = inbox.next().await;
        assert_eq!(got.routing_key.as_str(), "good");
    }
    let half = f64::from(messages / 2);
    eventually_is(half, || async { sidecar.metric("xdelay_dead") }).await;
    assert_eq!(sidecar.metric("xdelay_released_total"), half);
}

/// Host and port of the node under test.
fn address() -> String {
    let url = setting("TEST_AMQP_URL");
    url.split('@').nth(1).expect("a host").split('/').next().expect("a port").to_owned()
}

#[tokio::test]
async fn what_is_put_into_the_rescue_queue_by_hand_is_kept_for_an_operator() {
    let url = own_vhost();
    let rabbit = Rabbit::connect_to(&url).await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set("AMQP__URL", &url);
    sidecar.start().await;
    rabbit.publish_with_key("", "xdelay.rescue", delayed(10), b"whose?").await;
    eventually_is(1.0, || async { sidecar.metric("xdelay_dead") }).await;
    sidecar.ready().await;
}

#[tokio::test]
async fn what_is_not_utf8_is_captured_whole_and_released_whole() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let front = format!("xdelay.{orders}");
    rabbit.publish(&front, delayed(50), b"before").await;
    let (to, exchange) = (address(), front.clone());
    let publish = move || {
        let headers: [(&[u8], &[u8]); 4] =
            [(b"z", b"\xfe"), (b"x-delay", b"50"), (b"odd-\xff-name", b"v"), (b"a", b"1")];
        let odd = properties(&headers, Some(b"\xc3("));
        publish_raw(&*to, "/", "guest", "guest", &exchange, b"key-\xff", &odd, b"odd \xff")
    };
    tokio::task::spawn_blocking(publish).await.expect("joined").expect("published");
    rabbit.publish(&front, delayed(50), b"after").await;
    // No consumer here: this test's own lapin could not read it.
    eventually_is(3, || rabbit.ready(&orders)).await;
    let (from, queue) = (address(), orders.clone());
    let get = move || {
        let got = (0..3).map(|_| get_raw(&*from, "/", "guest", "guest", &queue));
        got.collect::<Result<Vec<_>, _>>()
    };
    let got = tokio::task::spawn_blocking(get).await.expect("joined").expect("three messages");
    let is_odd = |(_, _, body): &&Got| body == b"odd \xff";
    let (routing_key, properties, _) = got.iter().find(is_odd).expect("the odd one");
    assert_eq!(routing_key, b"key-\xff");
    let has = |part: &[u8]| properties.windows(part.len()).any(|window| window == part);
    // Each for itself: RabbitMQ 4.3 delivers them in another order than they came.
    for header in
        [&b"\x01zS\0\0\0\x01\xfe"[..], b"\x0aodd-\xff-nameS\0\0\0\x01v", b"\x01aS\0\0\0\x011"]
    {
        assert!(has(header), "{header:?} in {properties:?}");
    }
    assert!(has(b"\x02\x02\xc3("), "delivery mode and correlation id");
    assert_eq!(sidecar.metric("xdelay_dead"), 0.0);
    assert!(!sidecar.log().contains("lost"), "its connection bore it");
    sidecar.ready().await;
}

/// A decoder that follows nested tables by recursion would end the process, on a stack of the usual
/// size, again after every restart.
#[tokio::test]
async fn headers_nested_ever_so_deep_do_not_end_the_process() {
    // RabbitMQ's own time for a message grows with the square of this.
    const LEVELS: u32 = 8_000;
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let front = format!("xdelay.{orders}");
    // One array in the other, outermost first: type, then the bytes that follow.
    let nested =
        (0..LEVELS).rev().flat_map(|inner| [b'A'].into_iter().chain((inner * 5).to_be_bytes()));
    let mut table = b"\x07x-delayI\0\0\0\x32\x04deep".to_vec();
    table.extend(nested);
    let mut odd = (1_u16 << 13).to_be_bytes().to_vec();
    odd.extend(u32::try_from(table.len()).expect("in range").to_be_bytes());
    odd.extend(table);
    let (address, exchange) = (address(), front.clone());
    let publish =
        move || publish_raw(&*address, "/", "guest", "guest", &exchange, b"else", &odd, b"deep");
    tokio::task::spawn_blocking(publish).await.expect("joined").expect("published");
    rabbit.publish(&front, delayed(50), b"after").await;
    // No consumer here: this test's own lapin has a small stack.
    eventually_is(2.0, || async { sidecar.metric("xdelay_released_total") }).await;
    assert!(sidecar.stop().await, "it is still the same process");
}

#[tokio::test]
async fn a_right_that_is_refused_makes_its_destination_wait() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let user = unique("user");
    control(&["add_user", &user, "secret-of-user"]);
    let ours = r"^xdelay\..*$";
    control(&["set_permissions", &user, ours, ours, ours]);
    let mut sidecar = Sidecar::new(&[&orders]);
    let url = setting("TEST_AMQP_URL").replace("guest:guest", &format!("{user}:secret-of-user"));
    sidecar.set("AMQP__URL", &url);
    sidecar.set("RELEASE__RETRY__FIRST", "100ms");
    sidecar.spawn();
    sidecar.unready_saying("refused").await;
    control(&["set_permissions", &user, ours, &format!(r"^(xdelay\..*|{orders})$"), ours]);
    sidecar.ready().await;
    let front = format!("xdelay.{orders}");
    rabbit.publish(&front, delayed(10), b"one").await;
    let mut inbox = rabbit.consume(&orders).await;
    assert_eq!(inbox.next().await.data, b"one", "these are all the rights it needs");
    assert!(!sidecar.log().contains("secret-of-user"), "no password in the log");
    control(&["delete_user", &user]);
}
