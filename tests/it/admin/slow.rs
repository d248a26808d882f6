//! Callers that say nothing, or say it slowly, hold up nobody else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Stage;

/// More than are worked on at once, than bodies are read at once, and than may be connected.
const CROWD: usize = 300;

/// Connects and says this much.
fn say(stage: &Stage, what: &str) -> TcpStream {
    let mut stream = TcpStream::connect(stage.sidecar.address()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.write_all(what.as_bytes()).expect("said");
    stream
}

/// All that comes until the other side closes.
fn hear(mut stream: TcpStream) -> String {
    let mut heard = String::new();
    let _ = stream.read_to_string(&mut heard);
    heard
}

#[tokio::test]
async fn a_crowd_that_never_ends_its_requests_is_sent_away() {
    let stage = Stage::on_redis().await;
    let begun = Instant::now();
    let half = "GET /v1/stats HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
    let crowd: Vec<_> = (0..CROWD).map(|_| say(&stage, half)).collect();
    // All places are taken, until those who say nothing more are sent away.
    let (status, _) = stage.sidecar.request("GET", "/live", &[], "").expect("its turn comes");
    assert_eq!(status, 200);
    for silent in crowd {
        assert!(!hear(silent).contains(" 200 "), "it asked for nothing");
    }
    assert!(begun.elapsed() >= Duration::from_secs(5), "an honest caller has time");
    assert!(stage.sidecar.log().contains("others wait"), "it is said");
}

#[tokio::test]
async fn bodies_that_do_not_come_take_no_turn_from_those_who_look() {
    let stage = Stage::on_redis().await;
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    let crowd: Vec<_> = (0..40).map(|_| say(&stage, head)).collect();
    let asked = Instant::now();
    assert_eq!(stage.counts("parked"), 0);
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    for slow in crowd {
        let heard = hear(slow);
        assert!(heard.starts_with("HTTP/1.1 408 ") && heard.contains("\"slow\""), "{heard}");
    }
    stage.park("a", super::HOUR);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let stage = Stage::on_redis().await;
    let body = format!("{{\"destination\": \"{}\"}}", "x".repeat(5 << 20));
    let headers = [("host", "localhost"), ("content-type", "application/json")];
    let answer = stage.sidecar.request("POST", "/v1/messages", &headers, &body);
    // It may be refused before all of it is sent.
    if let Some((status, problem)) = answer {
        assert!(status == 400 && problem.contains("beyond"), "{status} {problem}");
    }
    stage.park("a", super::HOUR);
}
