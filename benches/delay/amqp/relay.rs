//! Consumes, publishes with confirm and acknowledges.
//!
//! Everything is pipelined: up to a prefetch of messages is on its way at once, and whole
//! publish-and-confirm futures are, so that frames leave in few large writes.

use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation};
use tokio::time::interval;

use super::topology::{CAPTURE_QUEUE, EXCHANGE, connect};
use crate::role;

/// As many as xdelay takes in and acknowledges together.
const PREFETCH: u16 = 2_000;
const ACK_EVERY: u64 = 200;
/// How long a few messages may wait for their acknowledgement.
const ACK_WITHIN: Duration = Duration::from_millis(5);

/// Relays until it is ended.
pub(crate) async fn relay(amqp: &str) -> anyhow::Result<()> {
    let intake = connect(amqp, "relay intake").await?;
    let release = connect(amqp, "relay release").await?;
    let from = intake.create_channel().await?;
    from.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let to = release.create_channel().await?;
    to.confirm_select(ConfirmSelectOptions::default()).await?;
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let mut consumer =
        from.basic_consume(CAPTURE_QUEUE.into(), "relay".into(), options, none).await?;
    role::say(&"ready")?;

    let mut confirms = FuturesOrdered::new();
    let mut tick = interval(ACK_WITHIN);
    let (mut unacked, mut last_tag) = (0, 0);
    loop {
        tokio::select! {
            Some(confirmed) = confirms.next() => {
                last_tag = confirmed?;
                unacked += 1;
            }
            delivery = consumer.next() => {
                let delivery = delivery.context("the broker ended the consumer")??;
                confirms.push_back(forward(&to, delivery));
            }
            _ = tick.tick(), if unacked > 0 => {
                ack(&from, last_tag).await?;
                unacked = 0;
            }
        }
        if unacked == ACK_EVERY {
            ack(&from, last_tag).await?;
            unacked = 0;
        }
    }
}

/// Publishes a message as it came, and answers its tag once that is confirmed.
async fn forward(to: &Channel, delivery: Delivery) -> anyhow::Result<u64> {
    let Delivery { routing_key, properties, data, delivery_tag, .. } = delivery;
    let options = BasicPublishOptions::default();
    let confirm = to
        .basic_publish(EXCHANGE.into(), routing_key, options, &data, properties)
        .await
        .context("publishing")?;
    match confirm.await.context("waiting for a confirm")? {
        Confirmation::Ack(None) => Ok(delivery_tag),
        other => bail!("the broker did not take a message: {other:?}"),
    }
}

async fn ack(from: &Channel, tag: u64) -> anyhow::Result<()> {
    from.basic_ack(tag, BasicAckOptions { multiple: true }).await.context("acknowledging")
}
