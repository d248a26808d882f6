//! Publishes persistent messages, confirmed, at most 1 000 of them unconfirmed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::time::sleep;

use super::topology::{ROUTING_KEY, close, connect};
use crate::clock::now_us;
use crate::job::Outcome;
use crate::load::Round;
use crate::plan::{Header, Plan, body};

const WINDOW: usize = 1_000;
const PERSISTENT: u8 = 2;

/// Publishes the whole round.
pub(crate) async fn publish(round: Arc<Round>) -> anyhow::Result<Outcome> {
    let connection = connect(&round.job.producer, "producer").await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut plan = Plan::new(&round);
    let mut confirms = FuturesUnordered::new();
    let mut next = 0;
    while next < round.job.messages || !confirms.is_empty() {
        let mut wait = None;
        while next < round.job.messages && confirms.len() < WINDOW {
            let now = now_us();
            let at = plan.publish_at(next).unwrap_or(now);
            if at > now {
                wait = Some(Duration::from_micros(at - now));
                break;
            }
            let header = plan.message(next, at)?;
            confirms.push(send(&channel, &round, next, header));
            next += 1;
        }
        tokio::select! {
            Some(confirmed) = confirms.next() => confirmed?,
            () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
    let outcome = plan.end();
    close(&connection).await;
    Ok(outcome)
}

/// Publishes one message and waits for its confirm.
async fn send(
    channel: &Channel,
    round: &Round,
    number: u64,
    header: Option<Header>,
) -> anyhow::Result<()> {
    let mut headers = FieldTable::default();
    if let Some((name, value)) = header {
        headers.insert(name.into(), AMQPValue::LongLongInt(i64::try_from(value)?));
    }
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(format!("{}.{number}", round.name).into())
        .with_headers(headers);
    let options = BasicPublishOptions::default();
    let body = body(number, round.job.body_bytes);
    let confirm = channel
        .basic_publish(round.job.to.as_str().into(), ROUTING_KEY.into(), options, &body, properties)
        .await
        .context("publishing")?;
    match confirm.await.context("waiting for a confirm")? {
        Confirmation::Ack(None) => Ok(()),
        other => bail!("the broker did not take a message: {other:?}"),
    }
}
