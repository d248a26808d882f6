//! The Lua scripts: one for each arrow of the state diagram in the crate's documentation.
//!
//! A script is sent by its hash. One that the server does not know (its cache is lost by every
//! restart, failover and `SCRIPT FLUSH`) is loaded and sent again; it has not run, so nothing
//! happens twice.

use redis::{Cmd, Pipeline, ServerErrorKind, Value};

use super::link::{Link, server_error, unavailable};
use super::server::{Barrier, barrier_holds};
use crate::config::Durability;
use crate::store::Error;
use crate::store::entry::not_yours;

/// How long a barrier may wait, below the time an answer may take.
const BARRIER_MS: u64 = 3_000;

/// A script and its hash.
pub(super) struct Script {
    name: &'static str,
    code: &'static str,
    hash: String,
}

macro_rules! guarded {
    ($name:literal) => {
        Script::new(
            $name,
            concat!(
                include_str!("../../../lua/guard.lua"),
                include_str!(concat!("../../../lua/", $name, ".lua"))
            ),
        )
    };
}

/// One that also reads envelopes, and knows these words of ours.
macro_rules! reading {
    ($name:literal $(, $word:ident = $text:expr)*) => {
        Script::new(
            $name,
            concat!(
                $("local ", stringify!($word), " = '", $text, "'\n",)*
                include_str!("../../../lua/guard.lua"),
                include_str!("../../../lua/envelope.lua"),
                include_str!(concat!("../../../lua/", $name, ".lua"))
            ),
        )
    };
}

/// All of them.
pub(super) struct Scripts {
    pub park: Script,
    pub claim: Script,
    pub settle: Script,
    pub postpone: Script,
    pub bury: Script,
    pub recover: Script,
    pub census: Script,
    pub list: Script,
    pub find: Script,
    pub backlog: Script,
    pub cancel: Script,
    pub reschedule: Script,
    pub revive: Script,
    pub withdraw: Script,
    pub restore: Script,
    pub pause: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            park: reading!("park", NOT_YOURS = not_yours!()),
            claim: guarded!("claim"),
            settle: guarded!("settle"),
            postpone: guarded!("postpone"),
            bury: guarded!("bury"),
            recover: guarded!("recover"),
            census: guarded!("census"),
            list: guarded!("list"),
            find: guarded!("find"),
            backlog: guarded!("backlog"),
            cancel: guarded!("cancel"),
            reschedule: guarded!("reschedule"),
            revive: reading!("revive"),
            withdraw: guarded!("withdraw"),
            restore: guarded!("restore"),
            pause: guarded!("pause"),
        }
    }
}

impl Script {
    fn new(name: &'static str, code: &'static str) -> Self {
        let hash = redis::Script::new(code).get_hash().to_owned();
        Self { name, code, hash }
    }

    /// Prepares a call on these keys.
    pub(super) fn call(&self, keys: &[&str]) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash).arg(keys.len()).arg(keys);
        call
    }

    /// Runs a call that [`call`](Self::call) made.
    pub(super) async fn run(&self, link: &Link, call: Cmd) -> Result<Value, Error> {
        self.run_durably(link, call, Durability::None, 0).await
    }

    /// Runs a call and waits, on the same connection, until its writes are this durable.
    pub(super) async fn run_durably(
        &self,
        link: &Link,
        call: Cmd,
        durability: Durability,
        replicas: u32,
    ) -> Result<Value, Error> {
        let mut live = link.live().await?;
        let barrier = live.server.barrier(durability, replicas).map_err(Error::NotDurable)?;
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.add_command(call);
        match barrier {
            Barrier::Reply => {}
            Barrier::Wait(replicas) => {
                pipeline.cmd("WAIT").arg(replicas).arg(BARRIER_MS);
            }
            Barrier::WaitAof(replicas) => {
                pipeline.cmd("WAITAOF").arg(1).arg(replicas).arg(BARRIER_MS);
            }
        }
        pipeline.ignore_errors();
        let mut answers = link.send(&mut live, &pipeline).await?;
        if answers.first().is_some_and(is_unknown_script) {
            let mut load = Pipeline::with_capacity(1);
            load.cmd("SCRIPT").arg("LOAD").arg(self.code);
            link.send(&mut live, &load).await?;
            answers = link.send(&mut live, &pipeline).await?;
        }
        let mut answers = answers.into_iter();
        let answer = answers
            .next()
            .ok_or_else(|| Error::Garbled(format!("{} was not answered", self.name)))?;
        if let Some(error) = server_error(&answer) {
            return Err(unavailable(&error));
        }
        if !barrier_holds(barrier, answers.next().as_ref()) {
            return Err(Error::NotDurable(format!(
                "{} is written, but not as durably as redis.durability asks ({barrier:?})",
                self.name
            )));
        }
        Ok(answer)
    }
}

fn is_unknown_script(answer: &Value) -> bool {
    server_error(answer)
        .is_some_and(|error| error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript))
}
