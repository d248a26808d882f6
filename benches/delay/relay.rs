//! The yardstick: consume, publish with confirm, acknowledge, and nothing else.
//!
//! No bridge that loses nothing can do less, so its rate is the ceiling of every consume-and-
//! republish design in this language, client library and machine. It is no law of nature: xdelay
//! publishes to RabbitMQ with a client of its own, and may come out ahead somewhere.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::role::{self, Role};
use crate::side::Broker;
use crate::{amqp, kafka};

pub(crate) const ROLE: &str = "relay";

/// What it is told.
#[derive(Serialize, Deserialize)]
struct Between {
    broker: Broker,
    server: String,
}

/// Starts it, and waits until it is ready.
pub(crate) fn start(broker: Broker, server: &str) -> anyhow::Result<Role> {
    let mut relay = Role::start(ROLE, &Between { broker, server: server.to_owned() })?;
    let _ready: String = relay.answer()?;
    Ok(relay)
}

pub(crate) fn main() -> anyhow::Result<ExitCode> {
    let (Between { broker, server }, gone) = role::receive()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(async {
        let relay = async {
            match broker {
                Broker::Rabbitmq => amqp::relay::relay(&server).await,
                Broker::Kafka => {
                    tokio::task::spawn_blocking(move || kafka::relay::relay(&server)).await?
                }
            }
        };
        tokio::select! {
            ended = relay => ended,
            _ = gone => Ok(()),
        }
    });
    // The thread that relays for Kafka never ends by itself.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}
