//! The master that sentinels name.
//!
//! A sentinel that was cut off from the others goes on naming the master it knew, and that one
//! goes on saying it is one. So all sentinels are asked at once, what most of them say is tried
//! first, and only a server that calls itself a master is taken.

use std::time::Duration;

use futures_util::future::join_all;
use redis::{Client, ConnectionInfo, RedisConnectionInfo, RedisError};
use tokio::time::timeout;

use super::address::elsewhere;
use super::link::{Live, connect};
use crate::store::Error;

/// How long a sentinel may take to answer.
const SENTINEL_WITHIN: Duration = Duration::from_secs(2);

pub(super) struct Sentinels {
    name: String,
    asked: Vec<ConnectionInfo>,
    /// How to connect to a master, wherever it is.
    master: ConnectionInfo,
}

type Named = Result<Option<(String, u16)>, RedisError>;

impl Sentinels {
    pub(super) fn new(name: &str, asked: Vec<ConnectionInfo>, master: ConnectionInfo) -> Self {
        Self { name: name.to_owned(), asked, master }
    }

    /// Connects to the master.
    pub(super) async fn connect(&self) -> Result<Live, Error> {
        let named = self.named().await?;
        let mut failure = Error::Unavailable("no sentinel named a master".into());
        for (host, port) in named {
            let client = Client::open(elsewhere(&self.master, &host, port));
            let client = client.map_err(|error| super::link::unusable(&error))?;
            failure = match connect(&client).await {
                Ok(live) if !live.server.replica => return Ok(live),
                Ok(_) => Error::Unavailable(format!(
                    "sentinels name {host}:{port}, which is a replica: a failover is under way"
                )),
                Err(Error::Unavailable(why)) => Error::Unavailable(format!(
                    "the master that sentinels name, {host}:{port}, does not answer: {why}"
                )),
                Err(other) => other,
            };
        }
        Err(failure)
    }

    /// What sentinels call the master now: what most of them say first.
    async fn named(&self) -> Result<Vec<(String, u16)>, Error> {
        let answers = join_all(
            self.asked
                .iter()
                .map(|sentinel| async { timeout(SENTINEL_WITHIN, self.ask(sentinel)).await.ok() }),
        );
        let mut votes: Vec<((String, u16), usize)> = Vec::new();
        let (mut unknown, mut refused) = (false, None);
        for answer in answers.await.into_iter().flatten() {
            match answer {
                Ok(Some(place)) => match votes.iter_mut().find(|(named, _)| *named == place) {
                    Some((_, count)) => *count += 1,
                    None => votes.push((place, 1)),
                },
                Ok(None) => unknown = true,
                Err(error) => refused = Some(error),
            }
        }
        votes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        match (votes.is_empty(), unknown, refused) {
            (false, _, _) => Ok(votes.into_iter().map(|(place, _)| place).collect()),
            (_, true, _) => Err(Error::Unavailable(format!(
                "no sentinel knows a master called `{}`: redis.url ends in the name that \
                 `sentinel monitor` gives it",
                self.name
            ))),
            (_, _, Some(error)) => Err(super::link::unavailable(&error)),
            _ => Err(Error::Unavailable("no sentinel answers".into())),
        }
    }

    /// Sentinels often have no password where their servers have one, so none is shown at first.
    async fn ask(&self, sentinel: &ConnectionInfo) -> Named {
        let nobody = sentinel.clone().set_redis_settings(RedisConnectionInfo::default());
        match self.ask_as(nobody).await {
            Err(error) if error.code() == Some("NOAUTH") => self.ask_as(sentinel.clone()).await,
            answer => answer,
        }
    }

    async fn ask_as(&self, sentinel: ConnectionInfo) -> Named {
        let client = Client::open(sentinel)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        ask.query_async(&mut connection).await
    }
}

#[cfg(test)]
impl Sentinels {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn asked(&self) -> &[ConnectionInfo] {
        &self.asked
    }

    pub(super) fn master(&self) -> &ConnectionInfo {
        &self.master
    }
}
