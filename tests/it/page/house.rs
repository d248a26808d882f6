//! An xdelay with something to see, and its admin API without a browser.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::rabbit::Rabbit;
use crate::support::sidecar::Sidecar;

/// A running xdelay with one destination.
pub struct House {
    pub sidecar: Sidecar,
    pub orders: String,
    token: Option<String>,
}

impl House {
    pub async fn open() -> Self {
        Self::open_with(None, |_| {}).await
    }

    /// With other settings, and this token for what the tests themselves ask.
    pub async fn open_with(token: Option<&str>, settle: impl FnOnce(&mut Sidecar)) -> Self {
        let rabbit = Rabbit::connect().await;
        let orders = rabbit.destination().await;
        let mut sidecar = Sidecar::new(&[&orders]);
        settle(&mut sidecar);
        sidecar.start().await;
        Self { sidecar, orders, token: token.map(ToOwned::to_owned) }
    }

    /// The address of a view.
    pub fn page(&self, view: &str) -> String {
        format!("http://{}/#/{view}", self.sidecar.address())
    }

    /// Parks a message; gives its uid.
    pub fn park(&self, id: &str, delay_ms: u64) -> String {
        self.park_as(
            json!({"id": id, "key": "eu.de", "delay_ms": delay_ms, "body": "{\"order\":17}"}),
        )
    }

    /// The same, of any kind.
    pub fn park_as(&self, mut sketch: Value) -> String {
        sketch["destination"] = json!(self.orders);
        let (status, parked) = self.send("POST", "/v1/messages", Some(&sketch));
        assert_eq!(status, 201, "{parked}");
        parked["uid"].as_str().expect("a uid").to_owned()
    }

    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.sidecar.address()).expect("xdelay listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let body = body.map(ToString::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let token = self.token.as_ref();
        let token = token.map(|it| format!("Authorization: Bearer {it}\r\n")).unwrap_or_default();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\n{kind}{token}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        let (_, content) = answer.split_once("\r\n\r\n").expect("a body");
        (status, serde_json::from_str(content).unwrap_or(Value::Null))
    }

    /// The state of a message, `gone` when it is not here any more.
    pub fn state_of(&self, uid: &str) -> String {
        let (_, message) = self.send("GET", &format!("/v1/messages/{uid}"), None);
        message["state"].as_str().unwrap_or("gone").to_owned()
    }

    /// How many are in this state.
    pub fn count(&self, state: &str) -> u64 {
        let (_, stats) = self.send("GET", "/v1/stats", None);
        stats["destinations"][0][state].as_u64().expect("a count")
    }
}
