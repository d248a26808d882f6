//! The `xdelay` binary, as an operator runs it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{eventually, eventually_or, free_port, setting, unique};

/// A running or stopped xdelay with settings of its own; killed when dropped.
pub struct Sidecar {
    settings: Vec<(String, String)>,
    child: Option<Child>,
    port: u16,
    log: PathBuf,
    binary: PathBuf,
}

impl Sidecar {
    /// For these exchanges, on the services under test, in a namespace of its own.
    pub fn new(exchanges: &[&str]) -> Self {
        let port = free_port();
        let log = std::env::temp_dir().join(format!("{}.log", unique("xdelay")));
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_xdelay"));
        let mut sidecar = Self { settings: Vec::new(), child: None, port, log, binary };
        sidecar.set("AMQP__URL", &setting("TEST_AMQP_URL"));
        sidecar.set("AMQP__EXCHANGES", &exchanges.join(","));
        sidecar.set("REDIS__URL", &setting("TEST_REDIS_URL"));
        sidecar.set("REDIS__NAMESPACE", &unique("side"));
        sidecar.set("ADMIN__LISTEN", &format!("127.0.0.1:{port}"));
        sidecar
    }

    /// For these topics of the Kafka under test, in a group of its own.
    pub fn for_kafka(topics: &[&str]) -> Self {
        let mut sidecar = Self::new(&[]);
        sidecar.settings.retain(|(name, _)| !name.starts_with("XDELAY_AMQP__"));
        sidecar.set("KAFKA__BROKERS", &setting("TEST_KAFKA_BROKERS"));
        sidecar.set("KAFKA__TOPICS", &topics.join(","));
        sidecar.set("KAFKA__GROUP", &unique("xdelay"));
        // A killed replica's partitions are not to be waited for long.
        sidecar.set("KAFKA__PROPERTIES__SESSION__TIMEOUT__MS", "3000");
        sidecar.set("KAFKA__PROPERTIES__HEARTBEAT__INTERVAL__MS", "500");
        sidecar
    }

    /// What a setting is.
    pub fn setting(&self, name: &str) -> &str {
        let name = format!("XDELAY_{name}");
        let found = self.settings.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Sets `XDELAY_<name>`.
    pub fn set(&mut self, name: &str, value: &str) {
        let name = format!("XDELAY_{name}");
        self.settings.retain(|(known, _)| *known != name);
        self.settings.push((name, value.to_owned()));
    }

    /// Sets a variable that is not xdelay's.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Where the next process crashes, as `xdelay::crash` says it; empty: nowhere.
    pub fn crash_at(&mut self, plan: &str) {
        self.settings.retain(|(known, _)| known != "CRASH_AT");
        if !plan.is_empty() {
            self.set_env("CRASH_AT", plan);
        }
    }

    /// Another build of xdelay.
    pub fn run_binary(&mut self, binary: &str) {
        self.binary = binary.into();
    }

    /// In this directory instead of Redis.
    pub fn park_in(&mut self, directory: &std::path::Path) {
        self.settings.retain(|(name, _)| !name.starts_with("XDELAY_REDIS__"));
        self.set("STORE__PATH", &directory.to_string_lossy());
    }

    /// Another replica of the same.
    pub fn twin(&self) -> Self {
        let port = free_port();
        let log = std::env::temp_dir().join(format!("{}.log", unique("xdelay")));
        let (settings, binary) = (self.settings.clone(), self.binary.clone());
        let mut twin = Self { settings, child: None, port, log, binary };
        twin.set("ADMIN__LISTEN", &format!("127.0.0.1:{port}"));
        twin
    }

    pub fn spawn(&mut self) {
        self.spawn_with(&[]);
    }

    /// With more arguments of `run`.
    pub fn spawn_with(&mut self, arguments: &[&str]) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let child =
            self.command(&[&["run"], arguments].concat()).stderr(log.expect("a log")).spawn();
        self.child = Some(child.expect("xdelay starts"));
    }

    /// Starts it and waits until it is ready.
    pub async fn start(&mut self) {
        self.spawn();
        self.ready().await;
    }

    pub async fn ready(&self) {
        let look = || async {
            let (status, _) = self.get("/ready")?;
            (status == 200).then_some(())
        };
        let why = || format!("it says {:?}", self.get("/ready"));
        eventually_or("xdelay is ready", look, why).await;
    }

    /// Waits until `/ready` fails and says this.
    pub async fn unready_saying(&self, what: &str) -> String {
        eventually(&format!("/ready fails with `{what}`"), || async {
            let (status, body) = self.get("/ready")?;
            (status == 503 && body.contains(what)).then_some(body)
        })
        .await
    }

    /// A gauge or counter, summed over its labels.
    pub fn metric(&self, name: &str) -> f64 {
        self.metrics(&[name])
    }

    /// The sum of several at one moment.
    pub fn metrics(&self, names: &[&str]) -> f64 {
        let (_, body) = self.get("/metrics").expect("metrics");
        let is_ours = |line: &&str| names.iter().any(|name| line.starts_with(&format!("{name}{{")));
        let ours = body.lines().filter(is_ours);
        ours.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Where its admin API listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// `None` when nobody listens.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        self.request("GET", path, &[("host", "localhost")], "")
    }

    /// The same with another method, headers of one's own and a body.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        let mut request = format!("{method} {path} HTTP/1.0\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        write!(stream, "{request}content-length: {}\r\n\r\n{body}", body.len()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }

    /// Runs another sub-command to its end.
    pub fn output_of(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("xdelay runs")
    }

    /// The same with something on stdin.
    pub fn output_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("xdelay runs");
        child.stdin.take().expect("a pipe").write_all(input).expect("written");
        child.wait_with_output().expect("it ends")
    }

    /// `kill -9`
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
    }

    /// Any other signal, if it runs.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
            kill(pid, signal).expect("signalled");
        }
    }

    /// The most memory it ever had, in KiB.
    pub fn peak_memory(&self) -> u64 {
        self.kib_of("VmHWM:")
    }

    /// Bytes of memory that it holds.
    pub fn memory(&self) -> u64 {
        self.kib_of("VmRSS:") << 10
    }

    /// What Linux counts under this name.
    fn kib_of(&self, name: &str) -> u64 {
        let pid = self.child.as_ref().expect("running").id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("counted");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// SIGTERM; answers whether it ended well.
    pub async fn stop(&mut self) -> bool {
        self.signal(Signal::SIGTERM);
        self.ended().await.success()
    }

    /// Waits for its end, whatever brings it about.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("running");
        let ended = eventually("it ends", || {
            let ended = child.try_wait().expect("a status");
            async move { ended }
        });
        ended.await
    }

    /// All it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_clear().envs(self.settings.iter().cloned());
        command.current_dir(std::env::temp_dir());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for page in ["/ready", "/metrics"] {
                let told = self.get(page).map_or("no answer".to_owned(), |(_, body)| body);
                eprintln!("--- {page} of xdelay ---\n{told}");
            }
            eprintln!("--- log of xdelay ---\n{}", self.log());
        }
        self.kill();
        let _ = std::fs::remove_file(&self.log);
    }
}
