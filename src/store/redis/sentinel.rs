//! The master that sentinels name.
//!
//! A sentinel that was cut off from the others goes on naming the master it knew, and that one
//! goes on saying it is one. So all sentinels are asked at once, what most of them say is tried
//! first, and only a server that calls itself a master is taken.
//!
//! A master that is replaced while it lives does not know for seconds, and all it answers meanwhile
//! is lost. So sentinels are asked again as long as a connection lasts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::endpoint::Endpoint;
use super::link::{Live, connect, unavailable};
use crate::store::Error;

/// How long a sentinel may take to answer.
const SENTINEL_WITHIN: Duration = Duration::from_secs(2);
/// How often they are asked whether the master is still the same.
const WATCH_EVERY: Duration = Duration::from_millis(250);

pub(super) struct Sentinels {
    name: String,
    asked: Vec<Sentinel>,
    /// How to connect to a master, wherever it is.
    master: Endpoint,
}

/// One of them, and the connection to it while it is good.
struct Sentinel {
    server: Endpoint,
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// Host and port of a master.
type Place = (String, u16);
type Named = Result<Option<Place>, Error>;

impl Sentinels {
    pub(super) fn new(name: &str, asked: Vec<Endpoint>, master: Endpoint) -> Self {
        let asked =
            asked.into_iter().map(|server| Sentinel { server, connection: Mutex::default() });
        Self { name: name.to_owned(), asked: asked.collect(), master }
    }

    /// Connects to the master.
    pub(super) async fn connect(&self) -> Result<Live, Error> {
        let named = self.named().await?;
        let mut failure = Error::Unavailable("no sentinel named a master".into());
        for ((host, port), _) in named {
            failure = match connect(&self.master.elsewhere(&host, port)).await {
                Ok(live) if !live.server.replica => {
                    return Ok(Live { named: Some(Arc::new((host, port))), ..live });
                }
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

    /// Ends a connection as soon as another master is named, and itself when the connection is gone.
    pub(super) async fn watch(self: Arc<Self>, link: Weak<Mutex<Option<Live>>>, named: Arc<Place>) {
        loop {
            sleep(WATCH_EVERY).await;
            let places = self.named().await;
            let Some(link) = link.upgrade() else { return };
            let mut live = link.lock().await;
            let made = live.as_ref().and_then(|live| live.named.as_ref());
            if !made.is_some_and(|made| Arc::ptr_eq(made, &named)) {
                return;
            }
            // Without an answer nothing is known against it, nor where sentinels are evenly divided.
            if places.is_ok_and(|places| is_outvoted(&places, &named)) {
                *live = None;
                return;
            }
        }
    }

    /// What sentinels call the master now: what most of them say first.
    async fn named(&self) -> Result<Vec<(Place, usize)>, Error> {
        let answers = join_all(
            self.asked
                .iter()
                .map(|one| async { timeout(SENTINEL_WITHIN, one.ask(&self.name)).await.ok() }),
        );
        let mut votes: Vec<(Place, usize)> = Vec::new();
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
            (false, _, _) => Ok(votes),
            (_, true, _) => Err(Error::Unavailable(format!(
                "no sentinel knows a master called `{}`: redis.url ends in the name that \
                 `sentinel monitor` gives it",
                self.name
            ))),
            (_, _, Some(error)) => Err(error),
            _ => Err(Error::Unavailable("no sentinel answers".into())),
        }
    }
}

fn is_outvoted(votes: &[(Place, usize)], named: &Place) -> bool {
    let most = votes.iter().map(|(_, count)| *count).max();
    let own = votes.iter().find(|(place, _)| place == named).map(|(_, count)| *count);
    own < most
}

impl Sentinel {
    async fn ask(&self, name: &str) -> Named {
        let mut connection = self.connection.lock().await;
        let mut asked = match connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let named = ask.query_async(&mut asked).await.map_err(|error| unavailable(&error))?;
        *connection = Some(asked);
        Ok(named)
    }

    /// Sentinels often have no password where their servers have one, so none is shown at first.
    async fn connect(&self) -> Result<MultiplexedConnection, Error> {
        let mut connection = plainly(&self.server.as_nobody()).await?;
        match redis::cmd("PING").query_async::<()>(&mut connection).await {
            Err(error) if error.code() == Some("NOAUTH") => plainly(&self.server).await,
            _ => Ok(connection),
        }
    }
}

/// Without a look at who answers: a sentinel keeps nothing.
async fn plainly(server: &Endpoint) -> Result<MultiplexedConnection, Error> {
    let connected = server.client()?.get_multiplexed_async_connection().await;
    connected.map_err(|error| unavailable(&error))
}

#[cfg(test)]
impl Sentinels {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn asked(&self) -> Vec<Endpoint> {
        self.asked.iter().map(|sentinel| sentinel.server.clone()).collect()
    }

    pub(super) fn master(&self) -> &Endpoint {
        &self.master
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_is_given_up_when_more_name_another() {
        let place = |port| ("h".to_owned(), port);
        assert!(!is_outvoted(&[(place(1), 2), (place(2), 1)], &place(1)));
        assert!(!is_outvoted(&[(place(2), 1), (place(1), 1)], &place(1)));
        assert!(is_outvoted(&[(place(2), 2), (place(1), 1)], &place(1)));
        assert!(is_outvoted(&[(place(2), 1)], &place(1)));
    }
}
