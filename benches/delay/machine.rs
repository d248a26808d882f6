//! What is measured on: hardware, versions, and how busy it was before.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow};
use lapin::uri::AMQPUri;
use serde::Serialize;

use crate::options::Options;
use crate::side::Broker;

/// Where figures do not travel without.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub cores: usize,
    pub cpu: String,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Load average of the minute before: anything else that ran is in the figures.
    pub load_before: f64,
    pub xdelay: String,
    /// Of the broker that is measured.
    pub broker: String,
    pub redis: String,
    pub rustc: String,
}

impl Machine {
    pub(crate) fn look(options: &Options) -> anyhow::Result<Self> {
        let load = read("/proc/loadavg")?;
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            memory_bytes: field("/proc/meminfo", "MemTotal").as_deref().and_then(kib).unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            load_before: load.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
            xdelay: version(Command::new(&options.xdelay).arg("--version"))?,
            broker: match options.broker {
                Broker::Rabbitmq => rabbitmq_version(&Options::amqp()?)?,
                Broker::Kafka => kafka_version()?,
            },
            redis: redis_info("server", "redis_version")?,
            rustc: version(Command::new("rustc").arg("--version"))?,
        })
    }
}

/// Bytes that Redis has in use.
pub(crate) fn redis_memory() -> anyhow::Result<u64> {
    redis_info("memory", "used_memory")?.parse().context("used_memory of Redis")
}

/// The most memory that process `pid` had in use, in bytes.
pub(crate) fn peak_memory(pid: u32) -> Option<u64> {
    field(&format!("/proc/{pid}/status"), "VmHWM").as_deref().and_then(kib)
}

/// Memory that process `pid` has in use, in bytes.
pub(crate) fn memory(pid: u32) -> Option<u64> {
    field(&format!("/proc/{pid}/status"), "VmRSS").as_deref().and_then(kib)
}

/// Processor time that process `pid` has used, in seconds, to a hundredth.
pub(crate) fn processor(pid: u32) -> anyhow::Result<f64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    // The name may hold anything, blanks too; what is counted from is behind it.
    let (_, fields) = stat.rsplit_once(')').context("how much a process has run")?;
    let ticks = |field: &str| field.parse::<f64>().context("how much a process has run");
    let mut of_user_and_kernel = fields.split_whitespace().skip(11).take(2).map(ticks);
    let sum: anyhow::Result<f64> = of_user_and_kernel.by_ref().sum();
    // Linux shows hundredths of a second to programs, whatever its own clock ticks by.
    Ok(sum? / 100.0)
}

/// Processor time that Redis has used, in seconds.
pub(crate) fn redis_processor() -> anyhow::Result<f64> {
    let used = |name: &str| -> anyhow::Result<f64> { Ok(redis_info("cpu", name)?.parse()?) };
    Ok(used("used_cpu_user")? + used("used_cpu_sys")?)
}

/// Where results and logs go, in the tree.
pub(crate) const OUTPUT: &str = "target/bench";

/// That directory, made when it is missing.
pub(crate) fn output_dir() -> anyhow::Result<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(OUTPUT);
    std::fs::create_dir_all(&dir).with_context(|| format!("making {OUTPUT}"))?;
    Ok(dir)
}

fn read(file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("reading {file}"))
}

/// The value of the first line `NAME: VALUE` in `file`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = read(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kib(text: &str) -> Option<u64> {
    Some(text.strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1_024)
}

/// The second word of what a program says of its version.
fn version(command: &mut Command) -> anyhow::Result<String> {
    let said = command.output().with_context(|| format!("running {command:?}"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.split_whitespace().nth(1).map(str::to_owned).context("a version in its output")
}

/// The version that RabbitMQ introduces itself with, before any login.
fn rabbitmq_version(url: &str) -> anyhow::Result<String> {
    let uri: AMQPUri = url.parse().map_err(|why: String| anyhow!("the URL of RabbitMQ: {why}"))?;
    let mut stream = TcpStream::connect((uri.authority.host.as_str(), uri.authority.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"AMQP\x00\x00\x09\x01")?;
    let mut hello = [0; 4_096];
    let length = stream.read(&mut hello).context("RabbitMQ does not introduce itself")?;
    // In its table: the length of the key, the key, `S` for text, the length of that, the text.
    let key = b"\x07versionS";
    let hello = &hello[..length];
    let at = hello.windows(key.len()).position(|bytes| bytes == key).map(|at| at + key.len());
    let (length, text) = at
        .and_then(|at| hello[at..].split_first_chunk::<4>())
        .context("RabbitMQ tells no version")?;
    let text = text.get(..u32::from_be_bytes(*length) as usize).context("a version cut short")?;
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The version that dev/kafka starts; no request of Kafka's answers with it.
fn kafka_version() -> anyhow::Result<String> {
    let pom = read(concat!(env!("CARGO_MANIFEST_DIR"), "/dev/kafka.pom.xml"))?;
    let version = pom
        .split_once("<artifactId>kafka_2.13</artifactId>")
        .and_then(|(_, rest)| rest.split_once("<version>")?.1.split_once("</version>"));
    Ok(version.context("the version of Kafka in dev/kafka.pom.xml")?.0.to_owned())
}

fn redis_info(section: &str, name: &str) -> anyhow::Result<String> {
    let mut connection =
        redis::Client::open(Options::redis()?)?.get_connection().context("connecting to Redis")?;
    let info: String = redis::cmd("INFO").arg(section).query(&mut connection)?;
    let prefix = format!("{name}:");
    let value = info.lines().find_map(|line| line.strip_prefix(&prefix));
    value.map(str::to_owned).with_context(|| format!("Redis does not tell {name}"))
}
