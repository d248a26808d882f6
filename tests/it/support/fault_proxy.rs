//! A TCP proxy that does to connections what networks do: slow them, stop them half-way, cut them
//! in the middle of a frame, reset them, refuse them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Small enough that a cut falls into frames and not between them.
const CHUNK: usize = 4_096;

/// What befalls every connection, until it is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// Each chunk comes so much later.
    pub latency: Duration,
    /// Each direction carries so much.
    pub bytes_per_second: Option<u64>,
    /// Half-open: nothing comes through, and nobody is told.
    pub silent: bool,
    /// New connections are closed at once.
    pub refusing: bool,
    /// Once a connection has carried so many bytes more, it is reset in the middle of them.
    pub cut_after: Option<u64>,
    /// Connections made before this grew are reset; counted by [`FaultProxy::reset`].
    pub resets: u64,
}

/// Stands between xdelay and one server; gone when dropped.
pub struct FaultProxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// In front of the server that a URL names.
    pub async fn before(url: &str) -> Self {
        let server = authority(url).parse().expect("an address and a port");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let weather = watch::Sender::new(Weather::default());
        let accepting = tokio::spawn(accept(listener, server, weather.subscribe()));
        Self { address, weather, accepting }
    }

    /// The same URL, but through here.
    pub fn url(&self, url: &str) -> String {
        url.replacen(authority(url), &self.address.to_string(), 1)
    }

    /// From now on.
    pub fn set(&self, weather: Weather) {
        self.weather.send_modify(|now| *now = Weather { resets: now.resets, ..weather });
    }

    pub fn calm(&self) {
        self.set(Weather::default());
    }

    /// Resets every connection there is.
    pub fn reset(&self) {
        self.weather.send_modify(|now| now.resets += 1);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// `host:port` of a URL.
fn authority(url: &str) -> &str {
    let after = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = after.split(['/', '?']).next().unwrap_or(after);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

async fn accept(listener: TcpListener, server: SocketAddr, weather: watch::Receiver<Weather>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if weather.borrow().refusing {
            continue;
        }
        let weather = weather.clone();
        connections.spawn(async move {
            if let Ok(server) = TcpStream::connect(server).await {
                carry(client, server, weather).await;
            }
        });
    }
}

async fn carry(client: TcpStream, server: TcpStream, mut weather: watch::Receiver<Weather>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let born = weather.borrow_and_update().resets;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let cut = Arc::new(Notify::new());
    let pump = |from, to| Pump { from, to, weather: weather.clone(), cut: Arc::clone(&cut) };
    let (mut there, mut back) = (pump(from_client, to_server), pump(from_server, to_client));
    let fault = {
        let both = async { tokio::join!(there.run(), back.run()) };
        tokio::select! {
            _ = both => false,
            _ = cut.notified() => true,
            _ = weather.wait_for(|now| now.resets > born) => true,
        }
    };
    if fault {
        // Closing with nothing lingering is a reset.
        for side in [&there.from, &back.from] {
            let _ = side.as_ref().set_zero_linger();
        }
    }
}

/// One direction of one connection.
struct Pump {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    weather: watch::Receiver<Weather>,
    /// Told when it was cut: then the whole connection ends.
    cut: Arc<Notify>,
}

impl Pump {
    async fn run(&mut self) {
        let mut chunk = vec![0; CHUNK];
        let (mut carried, mut cut_from) = (0_u64, None);
        loop {
            let Ok(read) = self.from.read(&mut chunk).await else { return };
            if read == 0 {
                let _ = self.to.shutdown().await;
                return;
            }
            let Ok(now) = self.weather.wait_for(|now| !now.silent).await.map(|now| *now) else {
                return;
            };
            let pace = now
                .bytes_per_second
                .map(|rate| Duration::from_micros(read as u64 * 1_000_000 / rate));
            tokio::time::sleep(now.latency + pace.unwrap_or_default()).await;
            let mut pass = read;
            match now.cut_after {
                None => cut_from = None,
                Some(bytes) => {
                    let end = *cut_from.get_or_insert(carried) + bytes;
                    if carried + read as u64 >= end {
                        pass = end.saturating_sub(carried) as usize;
                    }
                }
            }
            if self.to.write_all(&chunk[..pass]).await.is_err() {
                return;
            }
            carried += pass as u64;
            if pass < read {
                self.cut.notify_one();
                return;
            }
        }
    }
}
