//! The connection that declares: lapin's.
//!
//! Its own recovery is not used: it is silent for as long as it lasts.

use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::tcp::AMQPUriTcpExt;
use lapin::{Channel, Connection, ConnectionProperties, Event};
use tokio::sync::watch;
use tokio::time::timeout;

use super::link::{ANSWER_WITHIN, Connect, Link, Standing};
use super::node::{self, Node};

impl Link<Connection> {
    /// A new channel on the live connection.
    pub(super) async fn channel(&self) -> Result<Channel, String> {
        let connection = self.connection().await?;
        answer("opening a channel", connection.create_channel()).await
    }
}

#[async_trait]
impl Connect for Connection {
    async fn connect(node: Node, name: &str) -> Result<Self, String> {
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
        let uri = node.uri.clone();
        let connect = Self::connector(
            uri,
            runtime,
            async move |_, runtime| {
                let stream = node.in_the_clear().connect_async(&runtime).await?;
                Ok(node.secure(stream).await?)
            },
            properties,
        );
        answer("connecting", connect).await.map_err(|why| node::words(&why))
    }

    fn is_connected(&self) -> bool {
        self.status().connected()
    }

    fn standing(&self) -> watch::Receiver<Standing> {
        let (sender, standing) = watch::channel(Standing::Connected);
        let mut events = Box::pin(self.events_listener());
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let said = match event {
                    Event::ConnectionBlocked(why) => Standing::Blocked(why),
                    Event::ConnectionUnblocked | Event::Connected => Standing::Connected,
                    // A channel's error, which concerns whoever uses that channel.
                    Event::Error(error) if error.is_amqp_soft_error() => continue,
                    Event::Error(error) => Standing::Lost(error.to_string()),
                    _ => continue,
                };
                if sender.send(said).is_err() {
                    break;
                }
            }
        });
        standing
    }

    async fn close(&self) {
        let _ = answer("closing", Connection::close(self, 200, "bye".into())).await;
    }
}

/// Awaits the broker's answer, but not for ever; errors come as text for people.
pub(super) async fn answer<T>(
    what: &str,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, String> {
    match timeout(ANSWER_WITHIN, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: no answer in {} s", ANSWER_WITHIN.as_secs())),
    }
}
