//! A connection to Redis that is made when needed and dropped when it is no good.
//!
//! redis-rs multiplexes and pipelines; this adds what an outage needs: every call is bounded in
//! time, a broken or read-only connection is dropped so that the next call looks its host up
//! anew (a failover without disconnect answers `READONLY` for ever), and a server that was
//! restarted or failed over is looked at again before anything relies on its durability.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo, RedisError, TlsCertificates, Value,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::server::Server;
use crate::config::TlsFiles;
use crate::store::Error;
use crate::tls;

/// The setting that names the server.
const KEY: &str = "redis.url";
/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How long an answer may take. A script that takes longer has happened all the same: every
/// script may be sent again.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Link {
    info: ConnectionInfo,
    /// The files of TLS, where there is to be any.
    tls: Option<TlsFiles>,
    live: Mutex<Option<Live>>,
}

#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) server: Arc<Server>,
}

impl Link {
    /// # Errors
    /// When the URL is none that redis-rs can read. Connects to nothing yet.
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        let info = url.into_connection_info().map_err(|error| unusable(&error))?;
        let is_secure = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let tls = is_secure.then(|| TlsFiles::named_in(url));
        Ok(Self { info: info.set_tcp_settings(tcp()), tls, live: Mutex::new(None) })
    }

    /// Reads the files of TLS anew: they may have been renewed since the last connection.
    fn client(&self) -> Result<Client, Error> {
        let info = self.info.clone();
        let client = match &self.tls {
            None => Client::open(info),
            Some(files) => {
                let certificates = certificates(files)?;
                Client::build_with_tls(info, certificates)
            }
        };
        client.map_err(|error| unusable(&error))
    }

    /// The live connection, made now when there is none.
    pub(super) async fn live(&self) -> Result<Live, Error> {
        let mut live = self.live.lock().await;
        if let Some(live) = live.as_ref() {
            return Ok(live.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let client = self.client()?;
        let connect = async {
            let mut connection =
                client.get_multiplexed_async_connection_with_config(&config).await?;
            let server = Server::inspect(&mut connection).await?;
            Ok::<_, RedisError>((connection, server))
        };
        let (connection, server) = match timeout(CONNECT_WITHIN + ANSWER_WITHIN, connect).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(unavailable(&error)),
            Err(_) => return Err(Error::Unavailable("no answer while connecting".into())),
        };
        let server = Arc::new(server);
        *live = Some(Live { connection, server });
        live.clone().ok_or_else(|| Error::Unavailable("gone again".into()))
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
        use redis::{ErrorKind, ServerErrorKind as Server};
        let moved_on = matches!(
            error.kind(),
            ErrorKind::Server(Server::ReadOnly | Server::MasterDown | Server::BusyLoading)
        );
        if moved_on || error.is_timeout() || error.is_unrecoverable_error() {
            *self.live.lock().await = None;
        }
    }
}

/// A connection that is given up must not deliver later what it still holds: a park that arrives
/// after a cancel on the next connection would bring back what was cancelled. So closing discards
/// what was not sent, and the kernel gives up before we do.
fn tcp() -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true).set_linger_time(Duration::ZERO);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(ANSWER_WITHIN - Duration::from_secs(1));
    settings
}

fn unusable(error: &RedisError) -> Error {
    Error::Unavailable(format!("{KEY} cannot be used: {}", category(error)))
}

/// What the files hold; that they can be used is seen first, by whoever says which one cannot.
fn certificates(files: &TlsFiles) -> Result<TlsCertificates, Error> {
    let read = || -> anyhow::Result<TlsCertificates> {
        tls::client(files)?;
        let client_tls = files.identity.as_ref().map(|ours| {
            let client_cert = std::fs::read(&ours.certificate)?;
            Ok::<_, std::io::Error>(ClientTlsConfig {
                client_cert,
                client_key: std::fs::read(&ours.key)?,
            })
        });
        let root_cert = match &files.ca {
            Some(path) => Some(std::fs::read(path)?),
            // Without any redis-rs trusts whom Mozilla does.
            None => tls::trusted_here(),
        };
        Ok(TlsCertificates { client_tls: client_tls.transpose()?, root_cert })
    };
    read().map_err(|error| Error::Unavailable(format!("{KEY} cannot be used: {error:#}")))
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
    Error::Unavailable(tls::advise(category(error), KEY))
}

fn category(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) if error.is_io_error() => error.to_string(),
        (None, _) => error.category().to_owned(),
    }
}
