//! Where spans go: over HTTP, to what the standard variables of OpenTelemetry name.

use std::env;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;

/// How long the last spans may take when xdelay stops.
pub(super) const CLOSE_WITHIN: Duration = Duration::from_millis(1_500);
/// How long a collector may take for a batch.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What of its answer is read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Either of them turns spans on.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// What sends spans; `None` unless the environment says where to.
pub(super) fn provider() -> anyhow::Result<Option<SdkTracerProvider>> {
    let is = |name, value: &str| env::var(name).is_ok_and(|it| it.eq_ignore_ascii_case(value));
    let named = ENDPOINTS.iter().any(|name| env::var(name).is_ok_and(|it| !it.is_empty()));
    if !named || is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Client::new())
        .with_protocol(Protocol::HttpBinary)
        .build()
        .context("spans cannot be exported; see OTEL_EXPORTER_OTLP_ENDPOINT")?;
    let mut of = Resource::builder();
    let attributes = env::var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    if env::var("OTEL_SERVICE_NAME").is_err() && !attributes.contains("service.name=") {
        of = of.with_service_name("xdelay");
    }
    let provider =
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(of.build());
    Ok(Some(provider.build()))
}

/// Blocks, which is well on the thread that exports and nowhere else.
#[derive(Debug)]
struct Client(ureq::Agent);

impl Client {
    fn new() -> Self {
        let settings = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_WITHIN))
            .http_status_as_error(false);
        Self(settings.build().into())
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let answer = self.0.run(Request::from_parts(head, &body[..]))?;
        let (head, mut body) = answer.into_parts();
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }
}
