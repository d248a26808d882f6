//! One process of xdelay: the binary that users run, with its defaults.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::machine;
use crate::options::Options;

const READY_WITHIN: Duration = Duration::from_secs(30);
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A running xdelay; killed when dropped.
pub(crate) struct Sidecar {
    child: Child,
    admin: SocketAddr,
    /// Where it takes in producers, when it does.
    pub proxy: Option<SocketAddr>,
}

impl Sidecar {
    /// Starts it, with a proxy where one is wanted.
    pub(crate) fn spawn(
        options: &Options,
        settings: &[String],
        proxy: bool,
    ) -> anyhow::Result<Self> {
        let admin = free_address()?;
        let proxy = proxy.then(free_address).transpose()?;
        let log = machine::output_dir()?.join("xdelay.log");
        let log = OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(&options.xdelay);
        command.args(["run", "--config", "/dev/null"]).stdin(Stdio::null()).stderr(log);
        for (key, _) in std::env::vars_os() {
            // Settings of whoever runs this would be measured in place of the defaults.
            if key.to_string_lossy().starts_with("XDELAY_") {
                command.env_remove(key);
            }
        }
        let proxied = proxy.map(|proxy| format!("proxy.listen={proxy}"));
        for setting in [format!("admin.listen={admin}")].iter().chain(&proxied).chain(settings) {
            command.args(["--set", setting]);
        }
        let child = command.spawn().with_context(|| {
            format!("starting {}; `cargo build --release` makes it", options.xdelay.display())
        })?;
        Ok(Self { child, admin, proxy })
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let why = match self.get("/ready") {
                Ok(answer) if answer.contains(" 200 ") => return Ok(()),
                Ok(answer) => answer.lines().last().unwrap_or_default().to_owned(),
                Err(error) => error.to_string(),
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("xdelay ended while starting ({status}); see target/bench/xdelay.log");
            }
            if Instant::now() > deadline {
                bail!("xdelay is not ready after {} s: {why}", READY_WITHIN.as_secs());
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Messages taken in and made durable since it was started.
    pub(crate) fn captured(&self) -> anyhow::Result<u64> {
        let metrics = self.get("/metrics")?;
        let line = metrics.lines().find(|line| line.starts_with("xdelay_captured_total{"));
        // Shown only once something was captured.
        let Some(value) = line.and_then(|line| line.rsplit(' ').next()) else { return Ok(0) };
        value.parse().with_context(|| format!("xdelay_captured_total is {value}"))
    }

    /// Asks it to stop, as an orchestrator would.
    pub(crate) fn ask_to_stop(&self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?);
        kill(pid, Signal::SIGTERM).context("stopping xdelay")
    }

    /// Waits until it has stopped.
    pub(crate) fn wait_until_stopped(mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + STOPPED_WITHIN;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                bail!("xdelay failed ({status}); see target/bench/xdelay.log");
            }
            sleep(Duration::from_millis(20));
        }
        bail!("xdelay did not stop in {} s", STOPPED_WITHIN.as_secs())
    }

    /// The whole answer of the admin API, status line first.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.admin, ANSWER_WITHIN)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that was free a moment ago.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?)
}
