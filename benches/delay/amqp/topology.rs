//! The exchange and queue that an application would have, and xdelay's names beside them.
//!
//! The capture exchange and queue are declared by xdelay itself, and the relay consumes that very
//! queue: so both sides have the same route into it, the same type and the same arguments.

use anyhow::Context;
use lapin::options::{
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties, ExchangeKind};

/// Where messages are meant to arrive.
pub(crate) const EXCHANGE: &str = "bench";
/// The one queue bound to it: durable and classic.
pub(crate) const QUEUE: &str = "bench.out";
pub(crate) const ROUTING_KEY: &str = "bench";
/// Where producers publish what is to be captured.
pub(crate) const CAPTURE_EXCHANGE: &str = "xdelay.bench";
/// Where it then waits for xdelay, or here for the relay.
pub(crate) const CAPTURE_QUEUE: &str = "xdelay.park.bench";

pub(crate) async fn connect(amqp: &str, name: &str) -> anyhow::Result<Connection> {
    let properties =
        ConnectionProperties::default().with_connection_name(format!("bench {name}").into());
    Connection::connect(amqp, properties).await.context("connecting to RabbitMQ")
}

/// Ends a connection whose work is done. A channel that was dropped a moment ago may still be
/// closing by itself, which lapin answers with an error of no consequence.
pub(crate) async fn close(connection: &Connection) {
    let _ = connection.close(200, "done".into()).await;
}

/// Declares the application's side.
pub(crate) async fn declare(amqp: &str) -> anyhow::Result<()> {
    let connection = connect(amqp, "topology").await?;
    let channel = connection.create_channel().await?;
    let none = FieldTable::default;
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Direct, durable, none()).await?;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(QUEUE.into(), durable, none()).await?;
    let bind = QueueBindOptions::default();
    channel.queue_bind(QUEUE.into(), EXCHANGE.into(), ROUTING_KEY.into(), bind, none()).await?;
    close(&connection).await;
    Ok(())
}

/// Empties the queues of what an earlier round that went wrong left behind.
pub(crate) async fn empty(amqp: &str) -> anyhow::Result<()> {
    let connection = connect(amqp, "topology").await?;
    let channel = connection.create_channel().await?;
    for queue in [QUEUE, CAPTURE_QUEUE] {
        channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await?;
    }
    close(&connection).await;
    Ok(())
}
