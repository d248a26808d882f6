//! Consumes as an application would, and hands all to the recorder.

use anyhow::Context;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection};
use tokio::time::interval;

use super::topology::{QUEUE, close, connect};
use crate::job::{Arrivals, Job};
use crate::recorder::{Arrival, LOOK_EVERY, Recorder};

/// What a consumer may hold unacked, and after how many it acks.
const PREFETCH: u16 = 2_000;
const ACK_EVERY: u64 = 500;

/// A consumer of the destination's queue.
pub(crate) struct Consumer {
    connection: Connection,
    channel: Channel,
    deliveries: lapin::Consumer,
}

impl Consumer {
    pub(crate) async fn start(job: &Job) -> anyhow::Result<Self> {
        let connection = connect(&job.server, "consumer").await?;
        let channel = connection.create_channel().await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
        let deliveries =
            channel.basic_consume(QUEUE.into(), "recorder".into(), options, none).await?;
        Ok(Self { connection, channel, deliveries })
    }

    /// Until the recorder has enough.
    pub(crate) async fn record(mut self, mut recorder: Recorder) -> anyhow::Result<Arrivals> {
        let mut look = interval(LOOK_EVERY);
        let (mut unacked, mut last_tag) = (0, 0);
        loop {
            tokio::select! {
                delivery = self.deliveries.next() => {
                    let delivery = delivery.context("the broker ended the consumer")??;
                    recorder.take(arrival(&delivery));
                    (unacked, last_tag) = (unacked + 1, delivery.delivery_tag);
                    if unacked == ACK_EVERY {
                        ack(&self.channel, last_tag).await?;
                        unacked = 0;
                    }
                }
                _ = look.tick() => if recorder.is_over() { break },
            }
        }
        if unacked > 0 {
            ack(&self.channel, last_tag).await?;
        }
        close(&self.connection).await;
        Ok(recorder.finish())
    }
}

async fn ack(channel: &Channel, tag: u64) -> anyhow::Result<()> {
    channel.basic_ack(tag, BasicAckOptions { multiple: true }).await.context("acknowledging")
}

fn arrival(delivery: &Delivery) -> Arrival<'_> {
    Arrival {
        id: delivery.properties.message_id().as_ref().map(|id| id.as_str()),
        body: &delivery.data,
        mark: delivery.properties.headers().as_ref().and_then(mark),
        partition: 0,
    }
}

/// What xdelay put on a message it released: due and uid.
fn mark(headers: &FieldTable) -> Option<(u64, Box<str>)> {
    let headers = headers.inner();
    let due = match headers.get("x-delayed-due")? {
        AMQPValue::LongLongInt(due) => u64::try_from(*due).ok()?,
        _ => return None,
    };
    match headers.get("x-delayed-uid")? {
        AMQPValue::LongString(uid) => Some((due, uid.to_string().into())),
        _ => None,
    }
}
