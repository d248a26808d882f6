//! Every type and value of `x-delay`.

use lapin::types::{AMQPValue, DecimalValue, FieldArray};

use super::{Bench, NOTHING, Row, Scene, look, publish, with_headers};
use crate::support::rabbit::{header, table, text};

const LATER: &str = "delayed";
const NOW: &str = "at once";
const KEPT: &str = "kept, with the reason";
const CRASH: &str = "the connection is closed (541)";

/// Tells by order: a message without a delay is sent right after.
async fn fate(bench: &Bench, name: &str, value: Option<AMQPValue>) -> String {
    let Scene { client, name: exchange } = bench.exchange("direct").await;
    let properties = match value {
        Some(value) => with_headers([(name, value)]),
        None => with_headers([]),
    };
    let mut inbox = client.consume(&exchange).await;
    if publish(&client.channel, &exchange, "key", properties, b"it").await.is_err() {
        return CRASH.to_owned();
    }
    if publish(&client.channel, &exchange, "key", with_headers([]), b"after").await.is_err() {
        return CRASH.to_owned();
    }
    if inbox.next().await.data == b"it" {
        return NOW.to_owned();
    }
    match inbox.next_within(NOTHING).await {
        Some(_) => LATER.to_owned(),
        None if bench.count("xdelay_dead", &exchange).await == Some(1.0) => KEPT.to_owned(),
        None if bench.count("xdelay_parked", &exchange).await == Some(1.0) => LATER.to_owned(),
        None => "lost".to_owned(),
    }
}

fn row(
    case: &'static str,
    (plugin, ours): (&'static str, Option<&'static str>),
    value: AMQPValue,
    why: &'static str,
) -> Row {
    named(case, "x-delay", (plugin, ours), Some(value), why)
}

fn named(
    case: &'static str,
    name: &'static str,
    (plugin, ours): (&'static str, Option<&'static str>),
    value: Option<AMQPValue>,
    why: &'static str,
) -> Row {
    let look = move |bench: std::sync::Arc<Bench>| {
        let value = value.clone();
        Box::pin(async move { fate(&bench, name, value).await }) as _
    };
    Row { case, plugin, ours, why, look: Box::new(look) }
}

pub(super) fn rows() -> Vec<Row> {
    let array = AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::LongInt(300)]));
    let decimal = AMQPValue::DecimalValue(DecimalValue { scale: 0, value: 300 });
    let later = (LATER, None);
    let unclear = "An order-cancel that fires at once is worse than one that waits for an operator; `delay.on_invalid = \"forward\"` delivers it";
    let crash = "One bad header does not end a producer's other work";
    vec![
        named("absent", "x-delay", (NOW, None), None, ""),
        row("int32 `300`", later, AMQPValue::LongInt(300), ""),
        row("int64 `300`", later, AMQPValue::LongLongInt(300), ""),
        row("uint32 `300`", later, AMQPValue::LongUInt(300), ""),
        row("int16 `300`", later, AMQPValue::ShortInt(300), ""),
        row("uint16 `300`", later, AMQPValue::ShortUInt(300), ""),
        row("uint8 `200`", later, AMQPValue::ShortShortUInt(200), ""),
        row(
            "int8 `100`",
            (NOW, Some(LATER)),
            AMQPValue::ShortShortInt(100),
            "Node's amqplib sends every number up to 127 like this",
        ),
        row("text `300`", later, text("300"), ""),
        row("bytes `300`", later, AMQPValue::ByteArray(b"300".to_vec().into()), ""),
        row("double `300.7`", later, AMQPValue::Double(300.7), "Rounded up, never early"),
        row("float `300.5`", later, AMQPValue::Float(300.5), "Rounded up, never early"),
        row("`0`", (NOW, None), AMQPValue::LongInt(0), ""),
        row("`-300`", (NOW, None), AMQPValue::LongInt(-300), ""),
        row("text `-300`", (NOW, None), text("-300"), ""),
        row(
            "`4294967296` and more",
            (NOW, Some(LATER)),
            AMQPValue::LongLongInt(4_294_967_296),
            "Up to `delay.max`, ten years; beyond it, it is kept with the reason",
        ),
        row("text `abc`", (CRASH, Some(KEPT)), text("abc"), crash),
        row("text, empty", (CRASH, Some(KEPT)), text(""), crash),
        row("text `1.5`", (CRASH, Some(KEPT)), text("1.5"), crash),
        row("text ` 300`", (CRASH, Some(KEPT)), text(" 300"), crash),
        row("decimal", (CRASH, Some(KEPT)), decimal, crash),
        row("void", (CRASH, Some(KEPT)), AMQPValue::Void, crash),
        row("timestamp", (NOW, Some(KEPT)), AMQPValue::Timestamp(300), unclear),
        row("boolean", (NOW, Some(KEPT)), AMQPValue::Boolean(true), unclear),
        row("table", (NOW, Some(KEPT)), AMQPValue::FieldTable(table([])), unclear),
        row("array", (NOW, Some(KEPT)), array, unclear),
        named("`X-Delay`", "X-Delay", (NOW, None), Some(AMQPValue::LongInt(300)), ""),
        Row {
            case: "on the delivered message",
            plugin: "-300, int64",
            ours: Some("-300, int32"),
            why: "pika reads negative numbers of 64 bits as huge positive ones; above 2^31 it is int64",
            look: look!(delivered),
        },
    ]
}

async fn delivered(bench: &Bench) -> String {
    let Scene { client, name } = bench.exchange("direct").await;
    let mut inbox = client.consume(&name).await;
    client.publish_with_key(&name, "key", super::delay(300), b"it").await;
    match header(&inbox.next().await, "x-delay") {
        Some(AMQPValue::LongInt(number)) => format!("{number}, int32"),
        Some(AMQPValue::LongLongInt(number)) => format!("{number}, int64"),
        other => format!("{other:?}"),
    }
}
