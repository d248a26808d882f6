//! An xdelay with a proxy, and a tap that hears what passes.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::support::sidecar::Sidecar;
use crate::support::{free_port, setting};

/// An xdelay that captures for nothing but what its proxy meets.
pub fn proxied() -> (Sidecar, String) {
    proxied_to(&setting("TEST_AMQP_URL"))
}

/// The same, before another broker or vhost; gives the URL for clients.
pub fn proxied_to(url: &str) -> (Sidecar, String) {
    let port = free_port();
    let mut sidecar = Sidecar::new(&[]);
    sidecar.set("AMQP__URL", url);
    sidecar.set("PROXY__LISTEN", &format!("127.0.0.1:{port}"));
    (sidecar, at_port(url, port))
}

/// A URL with another port.
pub fn at_port(url: &str, port: u16) -> String {
    let (before, after) = url.rsplit_once('/').expect("a vhost");
    let (host, _) = before.rsplit_once(':').expect("a port");
    format!("{host}:{port}/{after}")
}

fn address(url: &str) -> String {
    let (before, _) = url.rsplit_once('/').expect("a vhost");
    before.rsplit_once('@').expect("a user").1.to_owned()
}

/// What one connection carried.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    pub sent: Vec<u8>,
    pub answered: Vec<u8>,
}

type Shared = Arc<Mutex<Vec<Heard>>>;

/// Carries connections to a server and hears them.
pub struct Tap {
    pub port: u16,
    heard: Shared,
    accepting: JoinHandle<()>,
}

impl Tap {
    /// Before the server of a URL.
    pub async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = Shared::default();
        let accepting = tokio::spawn(accept(listener, address(url), Arc::clone(&heard)));
        Self { port, heard, accepting }
    }

    /// The connections that carried these bytes to the server.
    pub fn those_that_sent(&self, what: &[u8]) -> Vec<Heard> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = |heard: &&Heard| heard.sent.windows(what.len()).any(|bytes| bytes == what);
        heard.iter().filter(sent).cloned().collect()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: String, heard: Shared) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, heard) = (server.clone(), Arc::clone(&heard));
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(server).await else { return };
            let place = {
                let mut all = heard.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(Heard::default());
                all.len() - 1
            };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let note = |heard: Shared, of: fn(&mut Heard) -> &mut Vec<u8>| {
                move |bytes: &[u8]| {
                    let mut all = heard.lock().unwrap_or_else(PoisonError::into_inner);
                    of(&mut all[place]).extend_from_slice(bytes);
                }
            };
            let sent = note(Arc::clone(&heard), |heard| &mut heard.sent);
            let answered = note(heard, |heard| &mut heard.answered);
            tokio::join!(
                carry(from_client, to_server, sent),
                carry(from_server, to_client, answered)
            );
        });
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    note: impl Fn(&[u8]),
) {
    let mut chunk = [0; 4_096];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        note(&chunk[..read]);
        if to.write_all(&chunk[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
