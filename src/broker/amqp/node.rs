//! One node of RabbitMQ: where it is, and how a connection to it is made.

use std::io;

use futures_util::io::{AsyncRead, AsyncWrite};
use lapin::tcp::{AsyncTcpStream, RustlsConnector};
use lapin::uri::{AMQPScheme, AMQPUri};

use crate::config::{TlsFiles, Url};
use crate::tls;

/// Seconds between heartbeats where the URL does not say otherwise.
const HEARTBEAT_SECONDS: u16 = 10;
/// The setting that names it.
const KEY: &str = "amqp.url";

/// A node, and the files of TLS that its URL names.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) uri: AMQPUri,
    files: TlsFiles,
}

impl Node {
    /// # Errors
    /// That its URL cannot be read, in words without secrets.
    pub(super) fn of(url: &Url) -> Result<Self, String> {
        let text = url.expose();
        let mut uri: AMQPUri = text.parse().map_err(|why: String| {
            // The parser's text may quote the URL, and with it the password.
            let _ = why;
            "amqp.url cannot be read".to_owned()
        })?;
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        Ok(Self { uri, files: TlsFiles::named_in(&text) })
    }

    /// Where to connect to, TLS being none of the connection's business yet.
    pub(super) fn in_the_clear(&self) -> AMQPUri {
        AMQPUri { scheme: AMQPScheme::AMQP, ..self.uri.clone() }
    }

    /// Begins TLS on a connection to this node, where its URL asks for that.
    ///
    /// # Errors
    /// Which file cannot be used, or why one of the two does not trust the other.
    pub(super) async fn secure<S>(&self, stream: AsyncTcpStream<S>) -> io::Result<AsyncTcpStream<S>>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if self.uri.scheme == AMQPScheme::AMQP {
            return Ok(stream);
        }
        let config =
            tls::client(&self.files).map_err(|error| io::Error::other(format!("{error:#}")))?;
        stream.into_rustls(&RustlsConnector::from(config), &self.uri.authority.host).await
    }
}

impl From<AMQPUri> for Node {
    fn from(uri: AMQPUri) -> Self {
        Self { uri, files: TlsFiles::default() }
    }
}

/// Why a connection failed, and what to do about it.
pub(super) fn words(error: &impl ToString) -> String {
    tls::advise(error.to_string(), KEY)
}
