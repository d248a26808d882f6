//! xdelay as it is set up for one side: one process, or several on one store.

use std::path::PathBuf;

use anyhow::Context;

use crate::amqp::topology;
use crate::clock::now_us;
use crate::kafka::topics;
use crate::machine;
use crate::options::Options;
use crate::side::{Broker, Setup, Store, Through};
use crate::sidecar::Sidecar;

/// What outlives a process: a namespace of its own, or a directory; removed when dropped.
pub(crate) struct Home {
    name: String,
    dir: PathBuf,
}

/// Running processes of xdelay; killed when dropped.
pub(crate) struct Fleet {
    sidecars: Vec<Sidecar>,
    setup: Setup,
    /// When the first of them was started.
    pub started_us: u64,
}

impl Home {
    /// An empty one.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let name = format!("bench-{}", now_us());
        let dir = machine::output_dir()?.join(&name);
        Ok(Self { name, dir })
    }

    /// What the store takes at present, in bytes.
    pub(crate) fn bytes(&self, store: Store) -> anyhow::Result<u64> {
        match store {
            Store::Redis => machine::redis_memory(),
            Store::Embedded => {
                let files = std::fs::read_dir(&self.dir).context("looking at the store")?;
                files.map(|file| Ok(file?.metadata()?.len())).sum()
            }
        }
    }

    fn settings(&self, options: &Options, setup: Setup) -> anyhow::Result<Vec<String>> {
        let mut settings = match setup.store {
            Store::Redis => vec![
                format!("redis.url={}", Options::redis()?),
                format!("redis.namespace={}", self.name),
            ],
            Store::Embedded => vec![format!("store.path={}", self.dir.display())],
        };
        settings.extend(match options.broker {
            Broker::Rabbitmq => vec![
                format!("amqp.url={}", Options::amqp()?),
                format!("amqp.exchanges={}", topology::EXCHANGE),
            ],
            Broker::Kafka => vec![
                format!("kafka.brokers={}", Options::kafka()?),
                format!("kafka.topics={}", topics::TOPIC),
                format!("kafka.group={}", self.name),
                "kafka.create_topics=true".to_owned(),
            ],
        });
        settings.extend(options.set.iter().cloned());
        Ok(settings)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Keys stay in Redis, which ends with the run; a directory would stay for ever.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Fleet {
    /// Starts all, and waits until all are ready.
    pub(crate) fn start(options: &Options, setup: Setup, home: &Home) -> anyhow::Result<Self> {
        let settings = home.settings(options, setup)?;
        let proxy = setup.through == Through::Proxy;
        let started_us = now_us();
        let mut sidecars = (0..setup.replicas)
            .map(|_| Sidecar::spawn(options, &settings, proxy))
            .collect::<anyhow::Result<Vec<_>>>()?;
        sidecars.iter_mut().try_for_each(Sidecar::wait_until_ready)?;
        Ok(Self { sidecars, setup, started_us })
    }

    pub(crate) fn setup(&self) -> Setup {
        self.setup
    }

    /// The first of them, which producers connect to where they go through the proxy.
    pub(crate) fn first(&self) -> anyhow::Result<&Sidecar> {
        self.sidecars.first().context("a fleet of none")
    }

    /// Messages taken in and made durable since they were started.
    pub(crate) fn captured(&self) -> anyhow::Result<u64> {
        self.sidecars.iter().map(Sidecar::captured).sum()
    }

    /// The most memory that one of them had in use, in bytes.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        self.sidecars.iter().filter_map(|one| machine::peak_memory(one.id())).max()
    }

    /// Memory that all of them have in use, in bytes.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.sidecars.iter().map(|one| machine::memory(one.id())).sum()
    }

    /// Processor time that all of them have used, in seconds.
    pub(crate) fn processor(&self) -> anyhow::Result<f64> {
        self.sidecars.iter().map(|one| machine::processor(one.id())).sum()
    }

    /// Stops all, as an orchestrator would.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.sidecars.iter().try_for_each(Sidecar::ask_to_stop)?;
        self.sidecars.into_iter().try_for_each(Sidecar::wait_until_stopped)
    }
}
