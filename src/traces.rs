//! Where a message's time went, for those who follow a request from service to service.
//!
//! A producer that traces leaves a W3C `traceparent` among the headers of its message. It arrives as
//! it was sent, like every other header; and where `OTEL_EXPORTER_OTLP_ENDPOINT` says where to,
//! capture and release of such a message are told as spans of the same trace. What carries no
//! `traceparent` makes no span. Without the variable no message is looked at for it.
//!
//! Spans are sent in batches by a thread of their own. When they come faster than they can be sent
//! they are dropped: no message is ever held up.

mod carrier;
mod exporter;

use std::time::SystemTime;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Link, Span, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use self::carrier::Carrier;
use crate::broker::{NotReleased, Released};
use crate::clock::host_time;
use crate::message::{BrokerKind, Destination, Message};
use crate::store::{Entry, Lease, Outcome, Parking};

/// Tells of captures and releases.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

/// What is done with a message, in the words of OpenTelemetry's conventions for messaging.
#[derive(Clone, Copy)]
enum Operation {
    Capture,
    Release,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Release => "release",
        }
    }

    fn kind_of(self) -> &'static str {
        match self {
            Self::Capture => "process",
            Self::Release => "publish",
        }
    }

    /// The context in the message is its producer's and stays so: a release is a call to the broker.
    fn span_kind(self) -> SpanKind {
        match self {
            Self::Capture => SpanKind::Consumer,
            Self::Release => SpanKind::Client,
        }
    }
}

impl Traces {
    /// Tells the collector that the environment names; `None` when it names none.
    ///
    /// # Errors
    /// What of the environment makes no sense.
    pub fn from_environment() -> anyhow::Result<Option<Self>> {
        Ok(exporter::provider()?.map(Self::new))
    }

    fn new(provider: SdkTracerProvider) -> Self {
        use opentelemetry::trace::TracerProvider as _;
        let tracer = provider.tracer("xdelay");
        Self { provider, tracer, propagator: TraceContextPropagator::new() }
    }

    /// Messages that were parked or buried, since this instant.
    pub fn captured(
        &self,
        destination: &Destination,
        entries: &[Entry],
        parkings: &[Parking],
        began: SystemTime,
    ) {
        let ended = host_time();
        for (entry, parking) in entries.iter().zip(parkings) {
            let (Entry::Park { message, .. } | Entry::Bury { message, .. }) = entry else {
                continue;
            };
            let of = (Operation::Capture, destination, message);
            let Some(mut span) = self.begin(of, began) else { continue };
            let became = match parking.outcome {
                Outcome::Parked(due) => ("parked", Some(due)),
                Outcome::Replaced(due) | Outcome::ReplacedLeased(due) => ("replaced", Some(due)),
                Outcome::Known => ("known", None),
                _ => ("buried", None),
            };
            span.set_attribute(KeyValue::new("xdelay.outcome", became.0));
            if let Some(due) = became.1 {
                span.set_attribute(KeyValue::new("xdelay.due", due as i64));
            }
            span.end_with_timestamp(ended);
        }
    }

    /// Messages that were published since this instant, or not.
    pub fn released(
        &self,
        destination: &Destination,
        leases: &[Lease],
        outcomes: &[Result<Released, NotReleased>],
        began: SystemTime,
    ) {
        let ended = host_time();
        for (lease, outcome) in leases.iter().zip(outcomes) {
            let of = (Operation::Release, destination, lease.message());
            let Some(mut span) = self.begin(of, began) else { continue };
            span.set_attribute(KeyValue::new("xdelay.due", lease.due() as i64));
            if let Err(why) = outcome {
                let reason = why.reason();
                span.set_attribute(KeyValue::new("error.type", reason.label()));
                span.set_status(Status::error(reason.to_string()));
            }
            span.end_with_timestamp(ended);
        }
    }

    /// A span in the trace of the message's producer; `None` where it has left none, or wants this
    /// one not to be kept.
    fn begin(
        &self,
        (operation, destination, message): (Operation, &Destination, &Message),
        began: SystemTime,
    ) -> Option<opentelemetry_sdk::trace::Span> {
        let parent =
            self.propagator.extract_with_context(&Context::new(), &Carrier(&message.content));
        let producer = parent.span().span_context().clone();
        if !producer.is_valid() {
            return None;
        }
        let system = match destination.broker {
            BrokerKind::Amqp => "rabbitmq",
            BrokerKind::Kafka => "kafka",
        };
        let attributes = [
            KeyValue::new("messaging.system", system),
            KeyValue::new("messaging.operation.name", operation.name()),
            KeyValue::new("messaging.operation.type", operation.kind_of()),
            KeyValue::new("messaging.destination.name", destination.name.to_string()),
            KeyValue::new("xdelay.uid", message.uid.to_string()),
        ];
        let id = message.id.as_ref().map(|id| KeyValue::new("xdelay.id", id.to_string()));
        let span = SpanBuilder::from_name(format!("{} {}", operation.name(), destination.name))
            .with_kind(operation.span_kind())
            .with_start_time(began)
            .with_attributes(attributes.into_iter().chain(id))
            .with_links(vec![Link::new(producer, Vec::new(), 0)]);
        let span = self.tracer.build_with_context(span, &parent);
        span.is_recording().then_some(span)
    }

    /// Sends what is not sent yet, and ends. Blocks for as long as that takes.
    pub fn close(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(exporter::CLOSE_WITHIN) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}
