//! The sub-commands that talk to a running xdelay, as a person and a script meet them.

use serde_json::Value;

use super::support::rabbit::{Inbox, Rabbit};
use super::support::sidecar::Sidecar;

struct Stage {
    sidecar: Sidecar,
    orders: String,
    inbox: Inbox,
}

impl Stage {
    async fn new() -> Self {
        let rabbit = Rabbit::connect().await;
        let orders = rabbit.destination().await;
        let mut sidecar = Sidecar::new(&[&orders]);
        sidecar.start().await;
        let inbox = rabbit.consume(&orders).await;
        Self { sidecar, orders, inbox }
    }

    fn park(&self, id: &str, delay_ms: u64) {
        let body = serde_json::json!({"destination": self.orders, "id": id, "delay_ms": delay_ms,
            "body": id});
        let headers = [("host", "localhost"), ("content-type", "application/json")];
        let answer = self.sidecar.request("POST", "/v1/messages", &headers, &body.to_string());
        assert_eq!(answer.expect("an answer").0, 201);
    }

    /// What a command printed, and whether it succeeded.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let address = self.sidecar.url();
        let output = self.sidecar.output_of(&[arguments, &["--admin", &address]].concat());
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        (output.status.success(), said)
    }

    fn says(&self, arguments: &[&str], expected: &str) {
        let (well, said) = self.run(arguments);
        assert!(well && said.contains(expected), "{arguments:?}: {said}");
    }

    fn refuses(&self, arguments: &[&str], expected: &str) {
        let (well, said) = self.run(arguments);
        assert!(!well && said.contains(expected), "{arguments:?}: {said}");
    }

    async fn next_body(&mut self) -> String {
        String::from_utf8_lossy(&self.inbox.next().await.data).into_owned()
    }
}

const HOUR: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_is_found_and_steered_by_name() {
    let mut stage = Stage::new().await;
    stage.park("order-1", HOUR);
    stage.park("order-2", HOUR);
    let orders = stage.orders.clone();
    let of = ["-d", &orders];
    let with = |words: &[&'static str]| -> Vec<String> {
        words.iter().copied().chain(of).map(str::to_owned).collect()
    };
    let says = |stage: &Stage, words: &[&'static str], expected: &str| {
        let words = with(words);
        stage.says(&words.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    };
    says(&stage, &["ls"], "order-1");
    says(&stage, &["ls", "--id-prefix", "nothing"], "nothing matches");
    says(&stage, &["show", "order-1"], "delivery_mode");
    says(&stage, &["reschedule", "order-1", "--in", "2h"], "due at 20");
    says(&stage, &["bury", "order-1", "--reason", "wrong price"], "buried");
    says(&stage, &["ls", "--state", "dead"], "wrong price");
    says(&stage, &["revive", "order-1", "--in", "0s"], "parked again");
    assert_eq!(stage.next_body().await, "order-1");
    says(&stage, &["cancel", "order-2"], "cancelled: it is not delivered");
    says(&stage, &["history", "--what", "cancelled"], "order-2");
    stage.refuses(&["cancel", "order-2", "-d", &orders], "it was cancelled at");
    stage.refuses(&["reschedule", "order-2", "-d", &orders], "say when");
    stage.refuses(&["show", "nobody"], "no message is called `nobody`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_messages_are_counted_before_they_are_steered() {
    let mut stage = Stage::new().await;
    for n in 0..5 {
        stage.park(&format!("a-{n}"), HOUR);
    }
    stage.park("b", HOUR);
    let orders = stage.orders.clone();
    let all = ["--all", "-d", &orders, "--id-prefix", "a-"];
    stage.says(&[&["cancel"], &all[..], &["--dry-run"]].concat(), "5 messages match");
    stage.refuses(&[&["cancel"], &all[..]].concat(), "add --yes");
    stage.says(&[&["release"], &all[..], &["--yes"]].concat(), "5 rescheduled");
    for _ in 0..5 {
        assert!(stage.next_body().await.starts_with("a-"));
    }
    stage.refuses(&["cancel"], "--all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_get_json_and_people_get_tables() {
    let stage = Stage::new().await;
    stage.park("order-1", HOUR);
    let json = |arguments: &[&str]| -> Value {
        let (_, said) = stage.run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{arguments:?}: {said}"))
    };
    assert_eq!(json(&["ls", "-d", &stage.orders])["messages"][0]["id"], "order-1");
    assert_eq!(json(&["stats"])["destinations"][0]["parked"], 1);
    assert_eq!(json(&["show", "order-1", "-d", &stage.orders])["state"], "parked");
    stage.says(&["stats"], "PARKED");
    stage.says(&["pause", &stage.orders], "paused");
    stage.says(&["stats"], "paused");
    stage.says(&["resume", &stage.orders], "goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_xdelay_that_is_not_there_is_said() {
    let sidecar = Sidecar::new(&["nothing"]);
    let output = sidecar.output_of(&["stats", "--admin", &sidecar.url()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no xdelay answers at"), "{said}");
    for (command, expected) in [(vec!["man"], ".TH"), (vec!["completions", "bash"], "_xdelay")] {
        let output = sidecar.output_of(&command);
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{command:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_parked_moves_to_another_store() {
    let mut stage = Stage::new().await;
    stage.park("soon", HOUR);
    stage.park("dead", HOUR);
    stage.park("later", HOUR);
    let orders = stage.orders.clone();
    stage.says(&["bury", "dead", "-d", &orders, "--reason", "wrong price"], "buried");
    assert!(stage.sidecar.stop().await);
    let written = stage.sidecar.output_of(&["export"]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    // As if some had been tried already.
    let written = tried(&written.stdout, 4);
    assert_eq!(written.split(|byte| *byte == b'\n').filter(|it| !it.is_empty()).count(), 3);

    let directory = tempfile::tempdir().expect("a directory");
    let mut elsewhere = stage.sidecar.twin();
    elsewhere.park_in(directory.path());
    let odd = elsewhere.output_with(&["import"], b"{}\n");
    assert!(!odd.status.success() && String::from_utf8_lossy(&odd.stderr).contains("line 1"));
    for _ in 0..2 {
        // Twice, as after one that was cut off: what is there already is left as it is.
        let read = elsewhere.output_with(&["import"], &written);
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    }
    // From the file they come out as they went in.
    let again = elsewhere.output_of(&["export"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(lines(&again.stdout), lines(&written));
    elsewhere.start().await;
    stage.sidecar = elsewhere;
    stage.says(&["ls", "-d", &orders], "later");
    stage.says(&["release", "soon", "-d", &orders], "due now");
    assert_eq!(stage.next_body().await, "soon");
    stage.says(&["ls", "--state", "dead", "-d", &orders], "wrong price");
}

/// The lines of an export, in any order.
fn lines(export: &[u8]) -> Vec<serde_json::Map<String, Value>> {
    let read = |line: &[u8]| serde_json::from_slice(line).expect("JSON");
    let lines = export.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut lines: Vec<serde_json::Map<String, Value>> = lines.map(read).collect();
    lines.sort_by_key(|line| line["uid"].to_string());
    lines
}

/// The same export, but each message was tried so often.
fn tried(export: &[u8], attempts: u32) -> Vec<u8> {
    let mut tried = Vec::new();
    for mut line in lines(export) {
        line.insert("attempts".to_owned(), attempts.into());
        tried.extend_from_slice(Value::from(line).to_string().as_bytes());
        tried.push(b'\n');
    }
    tried
}
