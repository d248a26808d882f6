//! The consumers of all capture queues, as one stream of deliveries.

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::broker::{Delivery, Intake};
use crate::shutdown::{self, Trigger};

use super::consumer::QueueConsumer;

/// Most deliveries handed out at once.
const BATCH_MAX: usize = 500;

/// All consumers, running.
pub(super) struct AmqpIntake {
    deliveries: mpsc::Receiver<Delivery>,
    consumers: JoinSet<()>,
    stop: Trigger,
    drained: Trigger,
    stopping: bool,
}

impl AmqpIntake {
    /// Starts a task for each queue; they share one bounded channel to us.
    pub(super) fn start(queues: Vec<QueueConsumer>, deliveries: mpsc::Receiver<Delivery>) -> Self {
        let (stop, stopped) = shutdown::channel();
        let (drained, when_drained) = shutdown::channel();
        let mut consumers = JoinSet::new();
        for queue in queues {
            consumers.spawn(queue.run(stopped.clone(), when_drained.clone()));
        }
        Self { deliveries, consumers, stop, drained, stopping: false }
    }
}

#[async_trait]
impl Intake for AmqpIntake {
    async fn next(&mut self) -> Option<Vec<Delivery>> {
        let mut batch = Vec::new();
        if self.stopping {
            // What is left in the channel; consumers hold on to it only for their acks.
            while batch.len() < BATCH_MAX
                && let Ok(delivery) = self.deliveries.try_recv()
            {
                batch.push(delivery);
            }
        } else {
            self.deliveries.recv_many(&mut batch, BATCH_MAX).await;
        }
        (!batch.is_empty()).then_some(batch)
    }

    async fn stop(&mut self) {
        self.stopping = true;
        self.stop.stop();
    }

    async fn flush(&mut self) {
        self.drained.stop();
        while self.consumers.join_next().await.is_some() {}
    }
}
