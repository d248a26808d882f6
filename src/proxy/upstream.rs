//! The connection to the broker that is made for each client.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri};
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::access::proxy_header;
use super::connection::Stream;
use super::tls;
use crate::config::{Proxy, Url};

/// How long one node may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The nodes of `amqp.url`, and how they are connected to.
pub(super) struct Upstream {
    nodes: Vec<AMQPUri>,
    tls: TlsConnector,
    proxy_protocol: bool,
}

impl Upstream {
    /// # Errors
    /// Which file cannot be used.
    pub(super) fn new(nodes: &[Url], settings: &Proxy) -> anyhow::Result<Self> {
        let nodes = nodes.iter().filter_map(|node| node.expose().parse().ok());
        let tls = tls::connector(&settings.upstream)?;
        Ok(Self { nodes: nodes.collect(), tls, proxy_protocol: settings.proxy_protocol })
    }

    /// The vhost that xdelay itself uses.
    pub(super) fn vhost(&self) -> &str {
        self.nodes.first().map_or("/", |node| node.vhost.as_str())
    }

    /// Connects to the first node that takes us, for a client that came to `here`.
    ///
    /// # Errors
    /// Why none does.
    pub(super) async fn connect(
        &self,
        client: SocketAddr,
        here: SocketAddr,
    ) -> io::Result<Box<dyn Stream>> {
        let mut why = io::Error::other("amqp.url names no node");
        for node in &self.nodes {
            match timeout(CONNECT_WITHIN, self.connect_to(node, client, here)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => why = error,
                Err(_) => why = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(why)
    }

    async fn connect_to(
        &self,
        node: &AMQPUri,
        client: SocketAddr,
        here: SocketAddr,
    ) -> io::Result<Box<dyn Stream>> {
        let (host, port) = (node.authority.host.as_str(), node.authority.port);
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        if self.proxy_protocol {
            stream.write_all(&proxy_header(client, here)).await?;
        }
        if node.scheme == AMQPScheme::AMQP {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.tls.connect(name, stream).await?))
    }
}
