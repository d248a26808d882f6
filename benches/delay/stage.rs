//! One round: empty queues, the one who stands in between, then the load.
//!
//! Only that one runs: xdelay is stopped while another side is measured, and started anew for every
//! round of its own, so that no round inherits what another left in memory.

use anyhow::{Context, bail};
use url::Url;

use crate::amqp::topology;
use crate::fleet::{Fleet, Home};
use crate::job::{Delay, Job, Outcome};
use crate::kafka::topics;
use crate::options::Options;
use crate::role::Role;
use crate::side::{Broker, Setup, Side, Through};
use crate::{load, relay, watch};

/// What every round needs.
pub(crate) struct Stage<'a> {
    pub options: &'a Options,
    server: String,
    runtime: tokio::runtime::Runtime,
}

/// What is sent in a round.
#[derive(Clone, Copy)]
pub(crate) struct Traffic {
    pub messages: u64,
    pub body_bytes: usize,
    /// Messages per second; as fast as it goes where there is none.
    pub rate: Option<u64>,
    pub delay: Delay,
}

impl<'a> Stage<'a> {
    /// Declares what an application would have; what captures is declared by xdelay.
    pub(crate) fn set(options: &'a Options) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let server = match options.broker {
            Broker::Rabbitmq => Options::amqp()?,
            Broker::Kafka => Options::kafka()?,
        };
        match options.broker {
            Broker::Rabbitmq => runtime.block_on(topology::declare(&server))?,
            Broker::Kafka => runtime.block_on(topics::declare(&server))?,
        }
        let home = Home::new()?;
        Fleet::start(options, Setup::default(), &home)?.stop()?;
        Ok(Self { options, server, runtime })
    }

    /// One whole round.
    pub(crate) fn round(&self, side: Side, traffic: Traffic) -> anyhow::Result<Outcome> {
        self.empty()?;
        match side {
            Side::Alone => self.load(&self.job(side, None, traffic)?),
            Side::Relay => {
                let _relay = relay::start(self.options.broker, &self.server)?;
                self.load(&self.job(side, None, traffic)?)
            }
            Side::Xdelay(setup) => {
                let home = Home::new()?;
                let fleet = Fleet::start(self.options, setup, &home)?;
                let mut outcome = self.load(&self.job(side, Some(&fleet), traffic)?)?;
                outcome.peak_memory = fleet.peak_memory();
                fleet.stop()?;
                Ok(outcome)
            }
        }
    }

    /// Removes what a round that went wrong left behind.
    pub(crate) fn empty(&self) -> anyhow::Result<()> {
        match self.options.broker {
            Broker::Rabbitmq => self.runtime.block_on(topology::empty(&self.server)),
            Broker::Kafka => self.runtime.block_on(topics::empty(&self.server)),
        }
    }

    /// What the load process is to do on a side, whose xdelay runs as `fleet`.
    pub(crate) fn job(
        &self,
        side: Side,
        fleet: Option<&Fleet>,
        traffic: Traffic,
    ) -> anyhow::Result<Job> {
        let Traffic { messages, body_bytes, rate, delay } = traffic;
        let proxied = matches!(side, Side::Xdelay(setup) if setup.through == Through::Proxy);
        let (destination, capture) = match self.options.broker {
            Broker::Rabbitmq => (topology::EXCHANGE, topology::CAPTURE_EXCHANGE),
            Broker::Kafka => (topics::TOPIC, topics::CAPTURE_TOPIC),
        };
        let to = if proxied || side == Side::Alone { destination } else { capture };
        let let_pass = delay == Delay::Unasked || (proxied && delay == Delay::Each(0));
        Ok(Job {
            broker: self.options.broker,
            server: self.server.clone(),
            producer: match fleet {
                Some(fleet) if proxied => self.proxied(fleet)?,
                _ => self.server.clone(),
            },
            to: to.to_owned(),
            messages,
            body_bytes,
            rate,
            delay,
            held: matches!(side, Side::Xdelay(_)) && !let_pass,
            consume: true,
            patience: self.options.patience,
        })
    }

    /// The URL of RabbitMQ as a producer would change it.
    pub(crate) fn proxied(&self, fleet: &Fleet) -> anyhow::Result<String> {
        let proxy = fleet.first()?.proxy.context("it has no proxy")?;
        let mut url: Url = self.server.parse().context("the URL of RabbitMQ")?;
        let changed = url.set_ip_host(proxy.ip()).and_then(|()| url.set_port(Some(proxy.port())));
        if changed.is_err() {
            bail!("the URL of RabbitMQ names no host");
        }
        Ok(url.into())
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
        fleet: &Fleet,
    ) -> anyhow::Result<(Outcome, u64)> {
        let (mut load, parked_us) = self.load_until_parked(job, fleet)?;
        Ok((load.answer()?, parked_us))
    }

    /// Starts a load process, and answers it as soon as all is parked, with the instant.
    pub(crate) fn load_until_parked(
        &self,
        job: &Job,
        fleet: &Fleet,
    ) -> anyhow::Result<(Role, u64)> {
        let before = fleet.captured()?;
        let mut load = Role::start(load::ROLE, job)?;
        let parked_us = watch::until_captured(fleet, before + job.messages, &mut load)?;
        let Some(parked_us) = parked_us else {
            bail!("xdelay did not take in all of {} messages", job.messages);
        };
        Ok((load, parked_us))
    }
}
