//! Who a broker says it is. lapin keeps that to itself, so it is asked for here.

use std::time::Duration;

use amq_protocol::types::{AMQPValue, FieldTable};

use super::{Node, RawError, handshake};

/// What a broker says of itself when a client connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Identity {
    /// Such as `RabbitMQ`.
    pub(in super::super) product: String,
    /// Such as `4.1.0`.
    pub(in super::super) version: String,
    /// The name that all nodes of a cluster share.
    pub(in super::super) cluster: String,
}

/// Connects, asks, and hangs up.
pub(in super::super) async fn identify(
    node: &Node,
    timeout: Duration,
) -> Result<Identity, RawError> {
    let asking = async {
        let (session, agreed) = handshake::open(node, "xdelay check", 1, timeout).await?;
        let properties = agreed.broker;
        session.close().await?;
        Ok(Identity {
            product: text(&properties, "product"),
            version: text(&properties, "version"),
            cluster: text(&properties, "cluster_name"),
        })
    };
    let asked = tokio::time::timeout(timeout, asking).await;
    asked.map_err(|_| RawError::Timeout("asking a broker who it is"))?
}

fn text(properties: &FieldTable, name: &str) -> String {
    match properties.inner().get(name) {
        Some(AMQPValue::LongString(text)) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        _ => String::new(),
    }
}
