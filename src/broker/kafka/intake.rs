//! What the thread that reads hands over, as the intake loop takes it.

use std::thread;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};

use super::consumer::{Consumer, Phase};
use crate::broker::{Delivery, Intake};

/// Batches that may wait for the intake loop.
const BATCHES_MAX: usize = 4;
/// Most deliveries handed out at once.
const HANDED_MAX: usize = 2_000;

/// The thread, running.
pub(super) struct KafkaIntake {
    batches: mpsc::Receiver<Vec<Delivery>>,
    phase: watch::Sender<Phase>,
    /// Answers when the thread has ended.
    ended: oneshot::Receiver<()>,
}

impl KafkaIntake {
    /// Starts the thread. Where none can be had this ends at once, and xdelay with it.
    pub(super) fn start(consumer: Consumer) -> Self {
        let (sender, batches) = mpsc::channel(BATCHES_MAX);
        let (phase, phases) = watch::channel(Phase::Reading);
        let (end, ended) = oneshot::channel();
        let run = move || {
            consumer.run(&sender, phases);
            // Whoever waits for the end may be gone.
            let _ = end.send(());
        };
        if let Err(error) = thread::Builder::new().name("kafka intake".into()).spawn(run) {
            tracing::error!(%error, "no thread to read with");
        }
        Self { batches, phase, ended }
    }
}

#[async_trait]
impl Intake for KafkaIntake {
    async fn next(&mut self) -> Option<Vec<Delivery>> {
        let stopping = *self.phase.borrow() != Phase::Reading;
        let first = if stopping { self.batches.try_recv().ok() } else { self.batches.recv().await };
        let mut batch = first?;
        while batch.len() < HANDED_MAX
            && let Ok(more) = self.batches.try_recv()
        {
            batch.extend(more);
        }
        Some(batch)
    }

    async fn stop(&mut self) {
        self.phase.send_replace(Phase::Stopping);
    }

    async fn flush(&mut self) {
        self.phase.send_replace(Phase::Closing);
        self.batches.close();
        let _ = (&mut self.ended).await;
    }
}
