//! The connection to the broker that is made for each client.

use std::io;
use std::time::Duration;

use lapin::uri::AMQPUri;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::Url;

/// How long one node may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The nodes of `amqp.url`.
pub(super) struct Upstream {
    nodes: Vec<(String, u16)>,
    vhost: String,
}

impl Upstream {
    pub(super) fn new(nodes: &[Url]) -> Self {
        let uris = nodes.iter().filter_map(|node| node.expose().parse::<AMQPUri>().ok());
        let uris: Vec<_> = uris.collect();
        let vhost = uris.first().map_or("/".to_owned(), |uri| uri.vhost.clone());
        let nodes = uris.into_iter().map(|uri| (uri.authority.host, uri.authority.port));
        Self { nodes: nodes.collect(), vhost }
    }

    /// The vhost that xdelay itself uses.
    pub(super) fn vhost(&self) -> &str {
        &self.vhost
    }

    /// Connects to the first node that takes us.
    ///
    /// # Errors
    /// Why none does.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let mut why = io::Error::other("amqp.url names no node");
        for (host, port) in &self.nodes {
            match timeout(CONNECT_WITHIN, TcpStream::connect((host.as_str(), *port))).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => why = error,
                Err(_) => why = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(why)
    }
}
