//! From a fresh connection to one that is open on its virtual host.

use std::time::Duration;

use amq_protocol::auth::Credentials;
use amq_protocol::frame::{AMQPFrame, ProtocolVersion};
use amq_protocol::protocol::connection::{self, AMQPMethod, Start, StartOk, Tune, TuneOk};
use amq_protocol::protocol::{AMQPClass, constants};
use amq_protocol::types::{AMQPValue, FieldTable, ShortString};
use lapin::uri::AMQPUri;

use super::session::Session;
use super::{Node, RawError};

/// The frame size asked for when the URI names none (RabbitMQ's own default), and the bound on
/// frames before one is agreed.
pub(super) const FRAME_MAX: u32 = 131_072;

/// What was agreed, and what the broker says of itself.
pub(super) struct Agreed {
    pub(super) broker: FieldTable,
    pub(super) channel_max: u16,
}

/// Connects and runs the handshake; afterwards heartbeat and frame size are agreed and in force.
/// `timeout` bounds each single wait.
pub(super) async fn open(
    node: &Node,
    name: &str,
    channel_max: u16,
    timeout: Duration,
) -> Result<(Session, Agreed), RawError> {
    let uri = &node.uri;
    let mut session = Session::connect(node, timeout).await?;
    session.send_frame(&AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1())).await?;
    let start = match session.answer().await? {
        AMQPMethod::Start(start) => start,
        other => return Err(unexpected("connection.start", other)),
    };
    session.send(AMQPMethod::StartOk(start_ok(uri, name, &start)?)).await?;
    let tune = match session.answer().await? {
        AMQPMethod::Tune(tune) => tune,
        other => return Err(unexpected("connection.tune", other)),
    };
    let tuned = tune_ok(uri, &tune, channel_max);
    let channel_max = tuned.channel_max;
    session.tune(tuned.heartbeat, tuned.frame_max);
    session.send(AMQPMethod::TuneOk(tuned)).await?;
    let virtual_host = short(&uri.vhost, "virtual host")?;
    session.call(AMQPMethod::Open(connection::Open { virtual_host })).await?;
    Ok((session, Agreed { broker: start.server_properties, channel_max }))
}

fn unexpected(awaited: &str, got: AMQPMethod) -> RawError {
    RawError::unexpected(awaited, &AMQPClass::Connection(got))
}

/// Logs in with the URI's mechanism, PLAIN when it names none, as lapin does.
fn start_ok(uri: &AMQPUri, name: &str, start: &Start) -> Result<StartOk, RawError> {
    let mechanism = uri.query.auth_mechanism.unwrap_or_default();
    let offered = String::from_utf8_lossy(start.mechanisms.as_bytes()).into_owned();
    if !offered.split(' ').any(|offer| offer == mechanism.name()) {
        return Err(RawError::protocol(format!("the broker offers {offered}, not {mechanism}")));
    }
    let credentials = Credentials::from(uri.authority.userinfo.clone());
    Ok(StartOk {
        client_properties: client_properties(name),
        mechanism: mechanism.name().into(),
        response: credentials.sasl_auth_string(mechanism),
        locale: "en_US".into(),
    })
}

fn client_properties(name: &str) -> FieldTable {
    let mut capabilities = FieldTable::default();
    // Say so when the queue goes, instead of falling silent; name a wrong password in a close,
    // instead of just hanging up; confirm; refuse one message; tell when publishing is blocked.
    for capability in [
        "consumer_cancel_notify",
        "authentication_failure_close",
        "publisher_confirms",
        "basic.nack",
        "connection.blocked",
    ] {
        capabilities.insert(capability.into(), AMQPValue::Boolean(true));
    }
    let mut properties = FieldTable::default();
    for (key, value) in [
        ("product", "xdelay"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("platform", "Rust"),
        ("connection_name", name),
    ] {
        properties.insert(key.into(), AMQPValue::LongString(value.into()));
    }
    properties.insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
    properties
}

/// The lower of both wishes, where 0 is none. Heartbeats as lapin agrees them: only when neither
/// side wants any are there none.
fn tune_ok(uri: &AMQPUri, tune: &Tune, channel_max: u16) -> TuneOk {
    let ours = uri.query.frame_max.filter(|max| *max != 0);
    let ours = ours.unwrap_or(FRAME_MAX).max(constants::FRAME_MIN_SIZE);
    let beat = uri.query.heartbeat.unwrap_or(0);
    TuneOk {
        channel_max: match tune.channel_max {
            0 => channel_max,
            theirs => theirs.min(channel_max),
        },
        frame_max: match tune.frame_max {
            0 => ours,
            theirs => theirs.min(ours),
        },
        heartbeat: match (beat, tune.heartbeat) {
            (0, one) | (one, 0) => one,
            (one, other) => one.min(other),
        },
    }
}

/// A short string, or an error where the text is too long for one.
fn short(text: &str, what: &str) -> Result<ShortString, RawError> {
    ShortString::try_new(text).map_err(|e| RawError::protocol(format!("{what}: {e}")))
}
