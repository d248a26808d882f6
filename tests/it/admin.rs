//! The admin API of the real binary, on either store, in front of a real RabbitMQ.

mod openapi;
mod safety;
mod slow;
mod steering;

use lapin::types::AMQPValue;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::rabbit::{Inbox, Rabbit, header, headers, text};
use super::support::sidecar::Sidecar;
use super::support::{eventually, eventually_is};

/// A running xdelay, and whoever consumes behind it.
struct Stage {
    sidecar: Sidecar,
    rabbit: Rabbit,
    orders: String,
    inbox: Inbox,
    /// Where its store lies, if it has one of its own.
    _directory: Option<TempDir>,
}

/// Runs each test on each store.
macro_rules! on_both_stores {
    ($($test:ident,)*) => {
        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Stage::on_redis().await).await;
            })*
        }
        mod on_its_own_file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Stage::on_its_own_file().await).await;
            })*
        }
    };
}
use on_both_stores;

impl Stage {
    async fn on_redis() -> Self {
        Self::with(|_| None).await
    }

    async fn on_its_own_file() -> Self {
        Self::with(|sidecar| {
            let directory = tempfile::tempdir().expect("a directory");
            sidecar.park_in(directory.path());
            Some(directory)
        })
        .await
    }

    async fn with(set: impl FnOnce(&mut Sidecar) -> Option<TempDir>) -> Self {
        let rabbit = Rabbit::connect().await;
        let orders = rabbit.destination().await;
        let mut sidecar = Sidecar::new(&[&orders]);
        let directory = set(&mut sidecar);
        sidecar.start().await;
        let inbox = rabbit.consume(&orders).await;
        Self { sidecar, rabbit, orders, inbox, _directory: directory }
    }

    /// A request, and its answer as JSON.
    fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut headers = vec![("host", "localhost")];
        if !body.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        let answer = self.sidecar.request(method, path, &headers, &body);
        let (status, text) = answer.expect("it answers");
        let json = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (status, json)
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Parks a message over HTTP and gives its uid.
    fn park(&self, id: &str, delay_ms: u64) -> String {
        let message = json!({"destination": self.orders, "id": id, "delay_ms": delay_ms,
            "key": "eu.de", "body": id});
        let (status, parked) = self.call("POST", "/v1/messages", Some(message));
        assert_eq!((status, &parked["result"]), (201, &json!("parked")), "{parked}");
        parked["uid"].as_str().expect("a uid").to_owned()
    }

    fn path_of(&self, id: &str, step: &str) -> String {
        format!("/v1/messages/{id}{step}?destination={}", self.orders)
    }

    fn listed(&self, query: &str) -> Vec<String> {
        let listed = self.get(&format!("/v1/messages?destination={}{query}", self.orders));
        let messages = listed["messages"].as_array().expect("messages");
        messages.iter().map(|it| it["id"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// What this destination has in `/v1/stats`.
    fn counts(&self, of: &str) -> Value {
        let stats = self.get("/v1/stats");
        let all = stats["destinations"].as_array().expect("destinations").clone();
        let mine = all.into_iter().find(|it| it["destination"] == *self.orders);
        mine.expect("it is there")[of].clone()
    }

    async fn next_body(&mut self) -> String {
        String::from_utf8_lossy(&self.inbox.next().await.data).into_owned()
    }
}

on_both_stores! {
    a_message_can_be_parked_and_comes_when_it_is_due,
    messages_are_listed_filtered_and_paged,
    a_message_is_shown_with_all_its_facts,
    counts_and_backlog_are_those_of_the_store,
    what_happens_is_told_at_once_and_remembered,
    a_bad_request_says_what_would_be_good,
}

const HOUR: u64 = 3_600_000;

async fn a_message_can_be_parked_and_comes_when_it_is_due(mut stage: Stage) {
    let message = json!({"destination": stage.orders, "delay_ms": 300, "key": "eu.de",
        "id": "order-1", "body": "{\"order\": 1}", "headers": {"source": "console", "n": 7},
        "properties": {"content_type": "application/json", "correlation_id": "c"}});
    let (status, parked) = stage.call("POST", "/v1/messages", Some(message));
    assert_eq!(status, 201, "{parked}");
    let got = stage.inbox.next().await;
    assert_eq!(got.data, b"{\"order\": 1}");
    assert_eq!(got.routing_key.as_str(), "eu.de");
    let content_type = got.properties.content_type().as_ref().expect("a content type");
    assert_eq!(content_type.as_str(), "application/json");
    assert_eq!(header(&got, "source"), Some(text("console")));
    assert_eq!(header(&got, "n"), Some(AMQPValue::LongInt(7)));
    assert_eq!(header(&got, "x-delay"), Some(AMQPValue::LongInt(-300)));
    assert_eq!(header(&got, "x-delayed-id"), Some(text("order-1")));
    let uid = parked["uid"].as_str().expect("a uid").to_owned();
    assert_eq!(header(&got, "x-delayed-uid"), Some(text(&uid)));
    // It is gone, and when it went is known.
    let gone = || async { stage.call("GET", &format!("/v1/messages/{uid}"), None) };
    eventually_is(410, || async { gone().await.0 }).await;
    let (_, told) = gone().await;
    let due = parked["due"].as_u64().expect("a due");
    assert!(told["released_at"].as_u64().expect("when") >= due, "{told}");
}

async fn messages_are_listed_filtered_and_paged(stage: Stage) {
    for n in 0..7 {
        stage.park(&format!("a-{n}"), HOUR + n);
    }
    stage.park("b-0", HOUR * 2);
    let all = ["a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "b-0"];
    assert_eq!(stage.listed(""), all);
    assert_eq!(stage.listed("&id=b-"), ["b-0"]);
    assert_eq!(stage.listed("&state=dead"), [""; 0]);
    assert_eq!(stage.listed("&key=eu.de&limit=2"), ["a-0", "a-1"]);
    assert_eq!(stage.listed("&key=elsewhere"), [""; 0]);
    let later = stage.get("/v1/stats")["now"].as_u64().expect("now") + HOUR + HOUR / 2;
    assert_eq!(stage.listed(&format!("&due_from={later}")), ["b-0"]);
    assert_eq!(stage.listed(&format!("&due_to={later}")).len(), 7);
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/messages?destination={}&limit=3{cursor}", stage.orders);
        let page = stage.get(&path);
        let messages = page["messages"].as_array().expect("messages");
        found.extend(messages.iter().map(|it| it["id"].as_str().unwrap_or_default().to_owned()));
        let Some(next) = page["cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, all);
}

async fn a_message_is_shown_with_all_its_facts(stage: Stage) {
    let properties = headers([
        ("x-delay", AMQPValue::LongInt(3_600_000)),
        ("x-delay-id", text("order-9")),
        ("nested", AMQPValue::FieldTable(super::support::rabbit::table([("deep", text("yes"))]))),
    ]);
    let front = format!("xdelay.{}", stage.orders);
    stage.rabbit.publish_with_key(&front, "us.ny", properties, b"\xff\x00").await;
    let shown = eventually("it is parked", || async {
        let (status, shown) = stage.call("GET", &stage.path_of("order-9", ""), None);
        (status == 200).then_some(shown)
    })
    .await;
    assert_eq!(shown["state"], "parked");
    assert_eq!(shown["key"], "us.ny");
    assert_eq!(shown["delay_ms"], 3_600_000);
    assert_eq!(shown["content"]["headers"]["nested"], json!({"deep": "yes"}));
    let body = json!({"bytes": 2, "format": "hex", "preview": "ff00", "truncated": false});
    assert_eq!(shown["content"]["body"], body);
    let uid = shown["uid"].as_str().expect("a uid");
    let by_uid = stage.get(&format!("/v1/messages/{uid}"));
    assert_eq!(by_uid, shown);
}

async fn counts_and_backlog_are_those_of_the_store(stage: Stage) {
    for n in 0..5 {
        stage.park(&format!("id-{n}"), HOUR);
    }
    stage.park("later", HOUR * 30);
    assert_eq!(stage.counts("parked"), 6);
    assert_eq!(stage.counts("captured"), 6);
    assert_eq!(stage.counts("overdue"), 0);
    let path = format!("/v1/backlog?destination={}&slot_ms={}&slots=3", stage.orders, HOUR);
    let backlog = stage.get(&path);
    let counts: Vec<u64> = serde_json::from_value(backlog["counts"].clone()).expect("counts");
    assert_eq!((counts.iter().sum::<u64>(), &backlog["after"]), (5, &json!(1)));
    assert_eq!(backlog["before"], 0);
}

async fn what_happens_is_told_at_once_and_remembered(mut stage: Stage) {
    let address = stage.sidecar.url();
    let events = std::thread::spawn(move || super::admin::safety::first_event(&address));
    // Events before somebody listens are not told: some go on until one is.
    let mut sent = 0;
    while !events.is_finished() {
        stage.park(&format!("id-{sent}"), 1);
        sent += 1;
        stage.next_body().await;
    }
    let event: Value = serde_json::from_str(&events.join().expect("an event")).expect("JSON");
    assert_eq!((&event["what"], &event["destination"]), (&json!("released"), &json!(stage.orders)));
    // A consumer may have a message before its confirm is here.
    let history = || stage.get("/v1/history?what=released&limit=1000");
    let count = || history()["events"].as_array().map(Vec::len);
    eventually_is(Some(sent), || async { count() }).await;
    let history = history();
    let lateness = history["events"][0]["lateness_ms"].as_u64().expect("a lateness");
    assert!(lateness < 5_000, "{lateness}");
}

async fn a_bad_request_says_what_would_be_good(stage: Stage) {
    let orders = &stage.orders;
    for (method, path, body, status, says) in [
        ("GET", "/v1/messages?state=asleep".to_owned(), None, 400, "`parked`, `leased` or `dead`"),
        ("GET", "/v1/messages?stat=dead".to_owned(), None, 400, "unknown field `stat`"),
        ("GET", "/v1/messages?limit=0".to_owned(), None, 400, "from 1 to 500"),
        ("GET", "/v1/messages?due_to=9223372036854775808".to_owned(), None, 400, "at most 9223372"),
        ("GET", "/v1/messages?cursor=x".to_owned(), None, 400, "cursor"),
        ("GET", "/v1/messages?destination=nope".to_owned(), None, 404, orders.as_str()),
        ("GET", "/v1/messages/nobody".to_owned(), None, 404, "`nobody`"),
        ("GET", "/v2".to_owned(), None, 404, "openapi.json"),
        (
            "POST",
            "/v1/messages".to_owned(),
            Some(json!({"destination": orders})),
            400,
            "one of delay_ms",
        ),
        (
            "POST",
            "/v1/messages".to_owned(),
            Some(json!({"delay": 1})),
            400,
            "unknown field `delay`",
        ),
        (
            "POST",
            "/v1/messages".to_owned(),
            Some(json!({"destination": orders, "deliver_at": "soon"})),
            400,
            "x-deliver-at",
        ),
        (
            "POST",
            "/v1/messages".to_owned(),
            Some(json!({"destination": orders, "delay_ms": u64::MAX})),
            400,
            "delay.max",
        ),
        ("POST", "/v1/bulk/erase".to_owned(), Some(json!({"all": true})), 404, "cancel, release"),
    ] {
        let (found, problem) = stage.call(method, &path, body);
        let detail = problem["detail"].as_str().unwrap_or_default().to_owned();
        assert!(found == status && detail.contains(says), "{method} {path}: {found} {problem}");
    }
}
