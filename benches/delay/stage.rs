//! One round: empty queues, the one who stands in between, then the load.
//!
//! Only that one runs: xdelay is stopped while the relay is measured, and started anew for every
//! round of its own, so that no round inherits what another left in memory.

use anyhow::bail;

use crate::job::{Delay, Job, Outcome, Path};
use crate::load;
use crate::options::Options;
use crate::relay;
use crate::role::Role;
use crate::sidecar::Sidecar;
use crate::topology;
use crate::watch;

/// What every round needs.
pub(crate) struct Stage<'a> {
    pub options: &'a Options,
    amqp: String,
    runtime: tokio::runtime::Runtime,
}

impl<'a> Stage<'a> {
    /// Declares all queues; those that capture are declared by xdelay.
    pub(crate) fn set(options: &'a Options) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let amqp = Options::amqp()?;
        runtime.block_on(topology::declare(&amqp))?;
        Sidecar::start(options)?.stop()?;
        Ok(Self { options, amqp, runtime })
    }

    /// One whole round.
    pub(crate) fn round(
        &self,
        path: Path,
        messages: u64,
        rate: Option<u64>,
        delay: Delay,
    ) -> anyhow::Result<Outcome> {
        self.empty()?;
        match path {
            Path::Alone => self.load(&self.job(path, messages, rate, delay)),
            Path::Relay => {
                let mut relay = Role::start(relay::ROLE, &self.amqp)?;
                let _ready: String = relay.answer()?;
                self.load(&self.job(path, messages, rate, delay))
            }
            Path::Xdelay => {
                let sidecar = Sidecar::start(self.options)?;
                let outcome = self.load(&self.job(path, messages, rate, delay))?;
                sidecar.stop()?;
                Ok(outcome)
            }
        }
    }

    /// Removes what a round that went wrong left behind.
    pub(crate) fn empty(&self) -> anyhow::Result<()> {
        self.runtime.block_on(topology::empty(&self.amqp))
    }

    pub(crate) fn job(&self, path: Path, messages: u64, rate: Option<u64>, delay: Delay) -> Job {
        let (amqp, patience) = (self.amqp.clone(), self.options.patience);
        Job { amqp, path, messages, rate, delay, consume: true, patience }
    }

    /// Runs a load process to its end.
    pub(crate) fn load(&self, job: &Job) -> anyhow::Result<Outcome> {
        Role::start(load::ROLE, job)?.answer()
    }

    /// Runs a load process, and meanwhile waits until xdelay has parked all that it publishes.
    /// Answers when that was.
    pub(crate) fn load_and_watch(
        &self,
        job: &Job,
        sidecar: &Sidecar,
    ) -> anyhow::Result<(Outcome, u64)> {
        let mut load = Role::start(load::ROLE, job)?;
        let before = sidecar.captured()?;
        let parked_us = watch::until_captured(sidecar, before + job.messages, &mut load)?;
        let outcome: Outcome = load.answer()?;
        let Some(parked_us) = parked_us else {
            bail!("xdelay did not take in all of {} messages", job.messages);
        };
        Ok((outcome, parked_us))
    }
}
