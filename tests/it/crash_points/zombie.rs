//! A replica that freezes for so long that RabbitMQ gives what it had in hand to another.

use lapin::types::AMQPValue;
use nix::sys::signal::Signal;

use crate::support::rabbit::{Rabbit, headers, text};
use crate::support::sidecar::Sidecar;
use crate::support::{eventually, eventually_is, setting};

/// Beyond the end of any test.
const FOR_EVER: AMQPValue = AMQPValue::LongInt(3_600_000);

/// A frozen replica, one that takes over, and the capture exchange before them.
async fn frozen_with_a_capture(point: &str) -> (Sidecar, Sidecar, Rabbit, String) {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut zombie = Sidecar::new(&[&orders]);
    // RabbitMQ gives up whoever has missed two.
    zombie.set("AMQP__URL", &format!("{}?heartbeat=2", setting("TEST_AMQP_URL")));
    let mut other = zombie.twin();
    zombie.crash_at(&format!("{point}:1:stop"));
    zombie.start().await;
    other.start().await;
    let front = format!("xdelay.{orders}");
    let hour = headers([("x-delay", FOR_EVER), ("x-delay-id", text("order 7"))]);
    rabbit.publish(&front, hour, b"old").await;
    let reached = format!("crash point {point}");
    eventually("it freezes", || async { zombie.log().contains(&reached).then_some(()) }).await;
    (zombie, other, rabbit, front)
}

/// Wakes it, and gives it the time to do whatever it had in mind.
async fn wake(zombie: &mut Sidecar) {
    zombie.signal(Signal::SIGCONT);
    zombie.ready().await;
    assert!(zombie.stop().await);
}

#[tokio::test]
async fn what_was_cancelled_meanwhile_stays_cancelled() {
    for point in ["captured-unparked", "parked-unanswered"] {
        let (mut zombie, other, rabbit, front) = frozen_with_a_capture(point).await;
        rabbit.publish(&front, headers([("x-delay-cancel", text("order 7"))]), b"").await;
        eventually_is(1.0, || async { other.metric("xdelay_cancelled_total") }).await;
        wake(&mut zombie).await;
        assert_eq!(other.metrics(&["xdelay_parked", "xdelay_leased"]), 0.0, "{point}");
    }
}

#[tokio::test]
async fn what_was_rescheduled_meanwhile_stays_rescheduled() {
    let (mut zombie, other, rabbit, front) = frozen_with_a_capture("captured-unparked").await;
    let soon = headers([("x-delay", AMQPValue::LongInt(15_000)), ("x-delay-id", text("order 7"))]);
    rabbit.publish(&front, soon, b"new").await;
    eventually_is(1.0, || async { other.metric("xdelay_replaced_total") }).await;
    wake(&mut zombie).await;
    let mut inbox = rabbit.consume(front.trim_start_matches("xdelay.")).await;
    assert_eq!(inbox.next().await.data, b"new");
    // It is settled a moment after it came; the old one would stay parked.
    eventually_is(0.0, || async { other.metrics(&["xdelay_parked", "xdelay_leased"]) }).await;
}
