//! The Lua scripts: one for each arrow of the state diagram in the crate's documentation.
//!
//! A script is sent by its hash. One that the server does not know (its cache is lost by every
//! restart, failover and `SCRIPT FLUSH`) is loaded and sent again; it has not run, so nothing
//! happens twice.

use redis::{Arg, Cmd, Pipeline, ServerErrorKind, ToRedisArgs, Value};

use super::link::{server_error, unavailable};
use super::masters::{Masters, Place};
use super::server::{Barrier, barrier_holds};
use super::slot::{Slot, slot_of};
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
    pub receive: Script,
    pub leave: Script,
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
            receive: guarded!("receive"),
            leave: guarded!("leave"),
        }
    }
}

impl Script {
    fn new(name: &'static str, code: &'static str) -> Self {
        let hash = redis::Script::new(code).get_hash().to_owned();
        Self { name, code, hash }
    }

    /// Prepares a call on these keys, which lie in one slot.
    pub(super) fn call(&self, keys: &[&str]) -> Call {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash).arg(keys.len()).arg(keys);
        let slot = keys.first().map(|key| slot_of(key)).unwrap_or_default();
        debug_assert!(keys.iter().all(|key| slot_of(key) == slot), "{} spans slots", self.name);
        Call { slot, command }
    }

    /// Runs a call that [`call`](Self::call) made.
    pub(super) async fn run(&self, masters: &Masters, call: Call) -> Result<Value, Error> {
        self.run_durably(masters, call, Durability::None, 0).await
    }

    /// Runs a call and waits, on the same connection, until its writes are this durable.
    pub(super) async fn run_durably(
        &self,
        masters: &Masters,
        call: Call,
        durability: Durability,
        replicas: u32,
    ) -> Result<Value, Error> {
        let mut route = masters.route(call.slot).await?;
        let mut command = call.command;
        loop {
            let barrier = match route.place().link.live().await {
                Ok(live) => live.server.barrier(durability, replicas).map_err(Error::NotDurable)?,
                Err(error) => {
                    let refused = Err(error);
                    route.leads_on(&refused)?;
                    return refused.map(|_| Value::Nil);
                }
            };
            let pipeline = route.place().pipeline([command].into_iter().chain(barrier.command()));
            let answers = self.send(route.place(), &pipeline).await;
            if !route.leads_on(&answers)? {
                return self.judge(answers?, barrier);
            }
            let is_asking = |sent: &&Cmd| sent.args_iter().next() == Some(Arg::Simple(b"ASKING"));
            command =
                pipeline.cmd_iter().find(|sent| !is_asking(sent)).cloned().unwrap_or_default();
        }
    }

    /// Sends it, once more when the server did not know the script.
    async fn send(&self, place: &Place, pipeline: &Pipeline) -> Result<Vec<Value>, Error> {
        let answers = place.send(pipeline).await?;
        if !answers.first().is_some_and(is_unknown_script) {
            return Ok(answers);
        }
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        place.send(&place.pipeline([load])).await?;
        place.send(pipeline).await
    }

    fn judge(&self, answers: Vec<Value>, barrier: Barrier) -> Result<Value, Error> {
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

/// A script and what it is given.
pub(super) struct Call {
    slot: Slot,
    command: Cmd,
}

impl Call {
    pub(super) fn arg(&mut self, arg: impl ToRedisArgs) -> &mut Self {
        self.command.arg(arg);
        self
    }
}

impl Barrier {
    /// What to send behind the script.
    fn command(self) -> Option<Cmd> {
        let mut wait = match self {
            Self::Reply => return None,
            Self::Wait(_) => redis::cmd("WAIT"),
            Self::WaitAof(_) => redis::cmd("WAITAOF"),
        };
        match self {
            Self::Reply => {}
            Self::Wait(replicas) => drop(wait.arg(replicas)),
            Self::WaitAof(replicas) => drop(wait.arg(1).arg(replicas)),
        }
        wait.arg(BARRIER_MS);
        Some(wait)
    }
}

fn is_unknown_script(answer: &Value) -> bool {
    server_error(answer)
        .is_some_and(|error| error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript))
}
