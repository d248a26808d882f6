//! A connection to Redis that is made when needed and dropped when it is no good.
//!
//! redis-rs multiplexes and pipelines; this adds what an outage needs: every call is bounded in
//! time, a broken or read-only connection is dropped so that the next call looks its host up
//! anew (a failover without disconnect answers `READONLY` for ever), and a server that was
//! restarted or failed over is looked at again before anything relies on its durability.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::sentinel::Sentinels;
use super::server::Server;
use crate::store::Error;
use crate::tls;

/// The setting that names the server.
pub(super) const KEY: &str = "redis.url";
/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How long an answer may take. A script that takes longer has happened all the same: every
/// script may be sent again.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Link {
    end: End,
    live: Arc<Mutex<Option<Live>>>,
}

/// Whom a connection is made to.
enum End {
    Server(Box<Endpoint>),
    /// Whoever is the master then.
    Master(Arc<Sentinels>),
}

#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) server: Arc<Server>,
    /// Where it is, when sentinels named it.
    pub(super) named: Option<Arc<(String, u16)>>,
}

impl Link {
    /// A link to one server. Connects to nothing yet.
    pub(super) fn to(server: Endpoint) -> Self {
        Self { end: End::Server(Box::new(server)), live: Arc::default() }
    }

    /// A link to the master that sentinels name whenever it is made.
    pub(super) fn behind(sentinels: Sentinels) -> Self {
        Self { end: End::Master(Arc::new(sentinels)), live: Arc::default() }
    }

    /// The live connection, made now when there is none.
    pub(super) async fn live(&self) -> Result<Live, Error> {
        let mut live = self.live.lock().await;
        if let Some(live) = live.as_ref() {
            return Ok(live.clone());
        }
        let made = match &self.end {
            End::Server(server) => connect(server).await?,
            End::Master(sentinels) => {
                let made = sentinels.connect().await?;
                if let Some(named) = &made.named {
                    let link = Arc::downgrade(&self.live);
                    tokio::spawn(Arc::clone(sentinels).watch(link, Arc::clone(named)));
                }
                made
            }
        };
        *live = Some(made.clone());
        Ok(made)
    }

    /// Looks at the server anew, for settings may change while a connection lasts.
    pub(super) async fn look(&self) -> Result<Arc<Server>, Error> {
        let mut now = self.live().await?;
        let look = timeout(ANSWER_WITHIN, Server::inspect(&mut now.connection));
        let server = match look.await {
            Ok(Ok(server)) => Arc::new(server),
            Ok(Err(error)) => {
                self.drop_if_useless(&error).await;
                return Err(unavailable(&error));
            }
            Err(_) => return Err(Error::Unavailable("no answer to INFO in time".into())),
        };
        if let Some(live) = self.live.lock().await.as_mut() {
            live.server = Arc::clone(&server);
        }
        Ok(server)
    }

    /// Sends a pipeline and gives every answer, errors of single commands among them.
    pub(super) async fn send(
        &self,
        live: &mut Live,
        pipeline: &redis::Pipeline,
    ) -> Result<Vec<Value>, Error> {
        let answer =
            timeout(ANSWER_WITHIN * 2, pipeline.query_async::<Vec<Value>>(&mut live.connection));
        match answer.await {
            Ok(Ok(values)) => {
                if let Some(error) = values.iter().find_map(server_error) {
                    self.drop_if_useless(&error).await;
                }
                Ok(values)
            }
            Ok(Err(error)) => {
                self.drop_if_useless(&error).await;
                Err(unavailable(&error))
            }
            Err(_) => {
                *self.live.lock().await = None;
                Err(Error::Unavailable("no answer in time".into()))
            }
        }
    }

    async fn drop_if_useless(&self, error: &RedisError) {
        use ServerErrorKind as Kind;
        let moved_on = matches!(
            error.kind(),
            ErrorKind::Server(Kind::ReadOnly | Kind::MasterDown | Kind::BusyLoading)
        );
        if moved_on || error.is_timeout() || error.is_unrecoverable_error() {
            *self.live.lock().await = None;
        }
    }
}

/// Makes a connection, and looks at who answers.
pub(super) async fn connect(server: &Endpoint) -> Result<Live, Error> {
    let client = server.client()?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_WITHIN))
        .set_response_timeout(Some(ANSWER_WITHIN));
    let connect = async {
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let server = Server::inspect(&mut connection).await?;
        Ok::<_, RedisError>(Live { connection, server: Arc::new(server), named: None })
    };
    match timeout(CONNECT_WITHIN + ANSWER_WITHIN, connect).await {
        Ok(connected) => connected.map_err(|error| unavailable(&error)),
        Err(_) => Err(Error::Unavailable("no answer while connecting".into())),
    }
}

/// The error that one command of a pipeline was answered with.
pub(super) fn server_error(value: &Value) -> Option<RedisError> {
    match value {
        Value::ServerError(error) => Some(error.clone().into()),
        _ => None,
    }
}

/// An error in words that hold no secret: redis-rs's own texts may quote the URL.
pub(super) fn unavailable(error: &RedisError) -> Error {
    let why = category(error);
    Error::Unavailable(match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => {
            format!("{why}: this is a node of a Redis Cluster, write redis.url as redis-cluster://")
        }
        _ => tls::advise(why, KEY),
    })
}

pub(super) fn category(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) if error.is_io_error() => error.to_string(),
        (None, _) => error.category().to_owned(),
    }
}
