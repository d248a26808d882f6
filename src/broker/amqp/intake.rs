//! The consumers of all capture queues, as one stream of deliveries.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::broker::{Delivery, Intake};
use crate::shutdown::{self, Shutdown, Trigger};

use super::consumer::{QueueConsumer, Shared, queues};

/// Most deliveries handed out at once.
const BATCH_MAX: usize = 500;

/// All consumers, running.
pub(super) struct AmqpIntake {
    deliveries: mpsc::Receiver<Delivery>,
    /// One task that has all the others.
    consuming: JoinSet<()>,
    stop: Trigger,
    drained: Trigger,
    stopping: bool,
}

impl AmqpIntake {
    /// Starts a task for each queue, those that turn up later included; they share one bounded
    /// channel to us.
    pub(super) fn start(
        shared: Arc<Shared>,
        sender: mpsc::Sender<Delivery>,
        deliveries: mpsc::Receiver<Delivery>,
    ) -> Self {
        let (stop, stopped) = shutdown::channel();
        let (drained, when_drained) = shutdown::channel();
        let mut consuming = JoinSet::new();
        consuming.spawn(consume_all(shared, sender, stopped, when_drained));
        Self { deliveries, consuming, stop, drained, stopping: false }
    }
}

/// Consumes every queue there is until shutdown.
async fn consume_all(
    shared: Arc<Shared>,
    deliveries: mpsc::Sender<Delivery>,
    mut stop: Shutdown,
    drained: Shutdown,
) {
    let mut names = shared.captures.watch();
    let mut started = BTreeSet::new();
    let mut consumers = JoinSet::new();
    loop {
        let exchanges = names.borrow_and_update().clone();
        for queue in queues(&exchanges).filter(|queue| started.insert(queue.name())) {
            let (shared, deliveries) = (Arc::clone(&shared), deliveries.clone());
            let consumer = QueueConsumer { shared, queue, deliveries };
            consumers.spawn(consumer.run(stop.clone(), drained.clone()));
        }
        tokio::select! {
            _ = names.changed() => {}
            () = stop.requested() => break,
        }
    }
    // Else whoever waits for the last delivery would wait for ever.
    drop(deliveries);
    while consumers.join_next().await.is_some() {}
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
        while self.consuming.join_next().await.is_some() {}
    }
}
