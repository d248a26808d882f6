//! Asks whether an exchange would take our messages, without sending one.
//!
//! A publish whose `expiration` is not a number is always refused, but only after the broker has
//! looked whether the exchange exists, whether we may write to it and whether it is internal. So
//! the kind of refusal is the answer, and nothing is ever routed.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, ErrorKind};

use super::link::{Link, answer};
use super::refusal::{Blame, blame, is_about_topic};

/// The code that a bad property is refused with.
const PRECONDITION_FAILED: u16 = 406;

/// # Errors
/// Why the exchange takes nothing from us.
pub(super) async fn probe(link: &Link, exchange: &str) -> Result<(), Blame> {
    let channel = link.channel().await.map_err(Blame::Connection)?;
    let select = channel.confirm_select(ConfirmSelectOptions::default());
    answer("confirm.select", select).await.map_err(Blame::Connection)?;
    let refused = BasicProperties::default().with_expiration("probe".into());
    let publish = async {
        let options = BasicPublishOptions::default();
        let publish = channel.basic_publish(exchange.into(), "".into(), options, b"", refused);
        let confirm = async { publish.await?.await };
        match tokio::time::timeout(super::link::ANSWER_WITHIN, confirm).await {
            Ok(Ok(_)) => Err(Blame::Connection("the broker confirmed a probe".into())),
            Ok(Err(error)) => Ok(error),
            Err(_) => Err(Blame::Connection("no answer to a probe in time".into())),
        }
    };
    let error = publish.await?;
    match error.kind() {
        ErrorKind::ProtocolError(refusal) if refusal.get_id() == PRECONDITION_FAILED => Ok(()),
        ErrorKind::ProtocolError(refusal) if is_about_topic(refusal.get_message().as_str()) => {
            Ok(())
        }
        _ => Err(match blame(&error) {
            Blame::Message(text) => Blame::Destination(text),
            other => other,
        }),
    }
}
