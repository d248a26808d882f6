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
use crate::config::{Proxy, TlsFiles, Url};

/// How long one node may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// One node, and how its TLS is begun.
struct Node {
    uri: AMQPUri,
    tls: TlsConnector,
}

/// The nodes of `amqp.url`, and how they are connected to.
pub(super) struct Upstream {
    nodes: Vec<Node>,
    proxy_protocol: bool,
}

impl Upstream {
    /// # Errors
    /// Which file cannot be used.
    pub(super) fn new(nodes: &[Url], settings: &Proxy) -> anyhow::Result<Self> {
        let node = |url: &Url| {
            let text = url.expose();
            let uri = text.parse().ok()?;
            // Whoever vouches for the node to xdelay does so to the proxy, unless another is named.
            let named = TlsFiles::named_in(&text).ca;
            let ca = settings.upstream.ca.clone().or(named);
            let files = TlsFiles { ca, ..settings.upstream.clone() };
            Some(tls::connector(&files).map(|tls| Node { uri, tls }))
        };
        let nodes = nodes.iter().filter_map(node).collect::<anyhow::Result<_>>()?;
        Ok(Self { nodes, proxy_protocol: settings.proxy_protocol })
    }

    /// The vhost that xdelay itself uses.
    pub(super) fn vhost(&self) -> &str {
        self.nodes.first().map_or("/", |node| node.uri.vhost.as_str())
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
        Node { uri: node, tls }: &Node,
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
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}
