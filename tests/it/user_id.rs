//! A producer that is not the one who parked a message cannot change it, as RabbitMQ tells users
//! apart.

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use super::support::rabbit::{Rabbit, control, headers, text};
use super::support::sidecar::Sidecar;
use super::support::{eventually_is, setting, unique};

fn with_id(ms: i32) -> BasicProperties {
    headers([("x-delay", AMQPValue::LongInt(ms)), ("x-delay-id", text("order-1"))])
}

#[tokio::test]
async fn a_parked_message_obeys_its_own_user_alone() {
    let hers = Rabbit::connect().await;
    let orders = hers.destination().await;
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.start().await;
    let stranger = unique("stranger");
    control(&["add_user", &stranger, "secret"]);
    control(&["set_permissions", &stranger, "^$", "^xdelay\\.", "^$"]);
    let url = setting("TEST_AMQP_URL").replace("guest:guest", &format!("{stranger}:secret"));
    let his = Rabbit::connect_to(&url).await;

    let mut inbox = hers.consume(&orders).await;
    let front = format!("xdelay.{orders}");
    hers.publish(&front, with_id(3_600_000).with_user_id("guest".into()), b"hers").await;
    eventually_is(1.0, async || sidecar.metric("xdelay_parked")).await;
    // At once, if it were his to say.
    his.publish(&front, with_id(1).with_user_id(stranger.as_str().into()), b"his").await;
    his.publish(&front, with_id(1), b"nobody's").await;
    his.publish(&front, headers([("x-delay-cancel", text("order-1"))]), b"").await;
    eventually_is(3.0, async || sidecar.metric("xdelay_refused_total")).await;
    assert_eq!(sidecar.metric("xdelay_parked"), 1.0);
    assert_eq!(sidecar.metric("xdelay_dead"), 2.0);
    let (_, metrics) = sidecar.get("/metrics").expect("metrics");
    assert!(metrics.contains(r#"reason="not-yours"} 2"#), "{metrics}");
    assert!(metrics.contains(r#"step="cancel"} 1"#), "{metrics}");
    assert!(sidecar.log().contains("a cancel has no effect"), "it is said");

    // She brings it forward, and so it comes alone.
    hers.publish(&front, with_id(1).with_user_id("guest".into()), b"hers again").await;
    assert_eq!(inbox.next().await.data, b"hers again");
    eventually_is(0.0, async || sidecar.metric("xdelay_parked")).await;
    assert_eq!(hers.ready(&orders).await, 0);
    control(&["delete_user", &stranger]);
}
