//! The client that releases, asks and looks: one producer, replaced when it is beyond repair.
//!
//! librdkafka connects and reconnects by itself. What is left is to know whether any broker
//! answers, and to make a new client after an error that it calls fatal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{FutureProducer, Producer as _};

use super::properties;
use super::topology::ANSWER_WITHIN;
use crate::metrics::Metrics;

/// A producer whose errors we hear of.
pub(super) type Producer = FutureProducer<Standing>;

/// What a client says of its connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    trouble: Arc<Mutex<Option<String>>>,
}

impl Standing {
    /// Why no broker answers, while none does.
    pub(super) fn trouble(&self) -> Option<String> {
        self.lock().clone()
    }

    /// A broker answered.
    pub(super) fn is_well(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Standing {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        say(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
        let code = error.rdkafka_error_code();
        let grave = [
            RDKafkaErrorCode::AllBrokersDown,
            RDKafkaErrorCode::Authentication,
            RDKafkaErrorCode::SSL,
            RDKafkaErrorCode::Resolve,
        ];
        if code.is_some_and(|code| grave.contains(&code)) {
            *self.lock() = Some(reason.to_owned());
        }
    }
}

/// librdkafka says much that mends itself; what matters is reported as findings.
pub(super) fn say(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            tracing::warn!(facility, "librdkafka: {message}");
        }
        _ => tracing::debug!(facility, "librdkafka: {message}"),
    }
}

/// Keeps one producer.
pub(super) struct Link {
    config: ClientConfig,
    standing: Standing,
    producer: Mutex<Option<Producer>>,
    metrics: Arc<Metrics>,
}

impl Link {
    pub(super) fn new(config: ClientConfig, metrics: Arc<Metrics>) -> Self {
        Self { config, standing: Standing::default(), producer: Mutex::default(), metrics }
    }

    /// Why no broker answers, while none does.
    pub(super) fn trouble(&self) -> Option<String> {
        self.standing.trouble()
    }

    /// A broker answered.
    pub(super) fn is_well(&self) {
        self.standing.is_well();
    }

    /// The producer, a new one when there is none or it is beyond repair.
    ///
    /// # Errors
    /// Why none can be made.
    pub(super) fn producer(&self) -> Result<Producer, String> {
        let mut kept = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = &*kept {
            let Some((code, why)) = producer.client().fatal_error() else {
                return Ok(producer.clone());
            };
            tracing::warn!(%code, why, "the producer is beyond repair: a new one is made");
            self.metrics.reconnected("kafka release");
        }
        let made: Result<Producer, _> = self.config.create_with_context(self.standing.clone());
        let producer = made.map_err(|error| properties::in_words(&error))?;
        Ok(kept.insert(producer).clone())
    }

    /// What the cluster says of one topic, or of all.
    ///
    /// # Errors
    /// Why it says nothing.
    pub(super) async fn metadata(&self, topic: Option<&str>) -> Result<Metadata, String> {
        let topic = topic.map(str::to_owned);
        let fetched = self
            .ask(move |producer| producer.client().fetch_metadata(topic.as_deref(), ANSWER_WITHIN));
        match fetched.await? {
            Ok(metadata) => {
                self.standing.is_well();
                Ok(metadata)
            }
            Err(error) => Err(self.trouble().unwrap_or_else(|| error.to_string())),
        }
    }

    /// The cluster's id.
    ///
    /// # Errors
    /// Why it cannot be told.
    pub(super) async fn cluster(&self) -> Result<String, String> {
        let id = self.ask(|producer| producer.client().fetch_cluster_id(ANSWER_WITHIN)).await?;
        id.ok_or_else(|| self.trouble().unwrap_or_else(|| "no broker answers".to_owned()))
    }

    /// Runs what blocks where that holds up nobody.
    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Producer) -> T + Send + 'static,
    ) -> Result<T, String> {
        let producer = self.producer()?;
        let asked = tokio::task::spawn_blocking(move || ask(&producer)).await;
        asked.map_err(|error| error.to_string())
    }

    /// Ends the client.
    pub(super) fn close(&self) {
        *self.producer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
