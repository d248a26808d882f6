//! Spans of captures and releases, as a collector gets them from the real binary.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use lapin::BasicProperties;
use lapin::types::AMQPValue;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;
use rdkafka::producer::FutureRecord;

use super::support::eventually_or;
use super::support::kafka::{self, Kafka};
use super::support::rabbit::{Rabbit, header, headers, text};
use super::support::sidecar::Sidecar;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PRODUCER: &str = "00f067aa0ba902b7";

/// What takes OTLP over HTTP, as collectors do.
#[derive(Clone, Default)]
struct Collector {
    got: Arc<Mutex<Vec<ResourceSpans>>>,
}

impl Collector {
    /// Starts it; gives its URL too.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let routes = Router::new().route("/v1/traces", post(Self::take));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let serving = axum::serve(listener, routes.with_state(collector.clone()));
        tokio::spawn(async move { serving.await });
        (collector, url)
    }

    async fn take(State(collector): State<Self>, body: Bytes) {
        let request = ExportTraceServiceRequest::decode(body).expect("OTLP");
        collector.got.lock().expect("not poisoned").extend(request.resource_spans);
    }

    fn got(&self) -> Vec<ResourceSpans> {
        self.got.lock().expect("not poisoned").clone()
    }

    fn spans(&self) -> Vec<Span> {
        let scopes = self.got().into_iter().flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute<'a>(of: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    of.iter().find(|it| it.key == name)?.value.as_ref()?.value.as_ref()
}

fn is(text: &str) -> Option<Value> {
    AnyValue { value: Some(Value::StringValue(text.to_owned())) }.value
}

/// A sidecar that tells its spans there, as soon as may be.
fn tracing_to(url: &str, orders: &str) -> Sidecar {
    let mut sidecar = Sidecar::new(&[orders]);
    sidecar.set_env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    sidecar.set_env("OTEL_BSP_SCHEDULE_DELAY", "50");
    sidecar
}

fn traced(flags: &str, delay: i32) -> BasicProperties {
    let parent = format!("00-{TRACE}-{PRODUCER}-{flags}");
    let state = ("tracestate", text("congo=t61rcWkgMzE"));
    headers([("x-delay", AMQPValue::LongInt(delay)), ("traceparent", text(&parent)), state])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capture_and_release_are_spans_in_the_trace_of_the_producer() {
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let (collector, url) = Collector::start().await;
    let mut sidecar = tracing_to(&url, &orders);
    sidecar.set_env("OTEL_SERVICE_NAME", "delays-of-shop");
    sidecar.start().await;
    let front = format!("xdelay.{orders}");
    // Two that leave no span: one without a trace, one whose trace nobody keeps.
    rabbit.publish(&front, headers([("x-delay", AMQPValue::LongInt(1))]), b"untraced").await;
    rabbit.publish(&front, traced("00", 1), b"unsampled").await;
    rabbit.publish(&front, traced("01", 300), b"traced").await;
    let mut uid = None;
    for _ in 0..3 {
        let got = inbox.next().await;
        if got.data == b"traced" {
            let parent = format!("00-{TRACE}-{PRODUCER}-01");
            assert_eq!(header(&got, "traceparent"), Some(text(&parent)), "as it was sent");
            assert_eq!(header(&got, "tracestate"), Some(text("congo=t61rcWkgMzE")));
            uid = header(&got, "x-delayed-uid");
        }
    }
    let Some(AMQPValue::LongString(uid)) = uid else { panic!("no uid") };
    assert!(sidecar.stop().await, "it stops well, and sends what it has");
    assert_told(&collector.spans(), "rabbitmq", &orders, &uid.to_string());
    let resource = collector.got()[0].resource.clone().expect("who tells it");
    assert_eq!(attribute(&resource.attributes, "service.name").cloned(), is("delays-of-shop"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafka_records_have_the_same_spans() {
    let kafka = Kafka::shared();
    let orders = kafka.destination(1).await;
    let (collector, url) = Collector::start().await;
    let mut sidecar = Sidecar::for_kafka(&[&orders]);
    sidecar.set_env("OTEL_EXPORTER_OTLP_ENDPOINT", &url);
    sidecar.start().await;
    let parent = format!("00-{TRACE}-{PRODUCER}-01");
    let headers =
        kafka::headers(&[("x-delay", Some(b"300")), ("traceparent", Some(parent.as_bytes()))]);
    let capture = format!("xdelay.{orders}");
    kafka.write(FutureRecord::to(&capture).payload(&b"traced"[..]).headers(headers)).await;
    kafka.write_delayed(&capture, "untraced", 300).await;
    let got = kafka.read(&orders).take(2).await;
    let traced = got.iter().find(|record| kafka::text(record) == "traced").expect("it came");
    assert_eq!(kafka::header(traced, "traceparent"), Some(parent), "as it was sent");
    assert!(sidecar.stop().await, "it stops well, and sends what it has");
    let uid = kafka::header(traced, "x-delayed-uid").expect("a uid");
    assert_told(&collector.spans(), "kafka", &orders, &uid);
}

/// One capture and one release, both of the producer's trace.
fn assert_told(spans: &[Span], system: &str, orders: &str, uid: &str) {
    let names: BTreeSet<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let (capture, release) = (format!("capture {orders}"), format!("release {orders}"));
    assert_eq!(names, BTreeSet::from([&*capture, &*release]));
    assert_eq!(spans.len(), 2, "{spans:?}");
    for span in spans {
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(hex(&span.parent_span_id), PRODUCER);
        let [link] = &span.links[..] else { panic!("{span:?}") };
        assert_eq!((hex(&link.trace_id), hex(&link.span_id)), (TRACE.into(), PRODUCER.into()));
        let named = |name| attribute(&span.attributes, name).cloned();
        assert_eq!(named("messaging.system"), is(system));
        assert_eq!(named("messaging.destination.name"), is(orders));
        assert_eq!(named("xdelay.uid"), is(uid));
    }
    let of = |name: &str| spans.iter().find(|span| span.name == name).expect("it is there");
    let (capture, release) = (of(&capture), of(&release));
    assert_eq!(capture.kind(), SpanKind::Consumer);
    assert_eq!(release.kind(), SpanKind::Client);
    let due = attribute(&release.attributes, "xdelay.due").cloned();
    assert_eq!(attribute(&capture.attributes, "xdelay.due").cloned(), due);
    assert!(capture.end_time_unix_nano < release.end_time_unix_nano);
}

/// It takes connections and never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_holds_up_no_message() {
    const MESSAGES: usize = 100;
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let mut inbox = rabbit.consume(&orders).await;
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let mut sidecar = tracing_to(&url, &orders);
    sidecar.set_env("OTEL_BSP_MAX_QUEUE_SIZE", "8");
    sidecar.set_env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4");
    sidecar.start().await;
    let front = format!("xdelay.{orders}");
    for n in 0..MESSAGES {
        rabbit.publish(&front, traced("01", 1), n.to_string().as_bytes()).await;
    }
    let mut seen = BTreeSet::new();
    while seen.len() < MESSAGES {
        seen.insert(inbox.next().await.data);
    }
    let look = || async { silent.accept().is_ok().then_some(()) };
    eventually_or("it tried to tell", look, || sidecar.log()).await;
    assert!(sidecar.stop().await, "nor does it hold up its end");
}
