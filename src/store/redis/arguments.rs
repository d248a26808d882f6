//! What the `park` script is given for each entry; its header says what each place holds.

use super::scripts::Call;
use crate::delay::When;
use crate::message::ProducerId;
use crate::store::mark::Move;
use crate::store::{Author, Entry, envelope};

/// Adds the six arguments of one move of a mark.
pub(super) fn push_move(call: &mut Call, step: &Move) {
    call.arg("mark").arg(step.log).arg(step.expected()).arg(step.to.encode()).arg("").arg("");
}

/// Adds the six arguments of one entry.
pub(super) fn push_entry(call: &mut Call, entry: &Entry) {
    call.arg(match entry {
        Entry::Park { when, by, .. } => match (when, by) {
            (When::At(_), Author::Producer) => "at",
            (When::At(_), Author::Operator) => "at!",
            (When::Since { .. }, Author::Producer) => "since",
            (When::Since { .. }, Author::Operator) => "since!",
            (When::AtOnce | When::In(_), Author::Producer) => "in",
            (When::AtOnce | When::In(_), Author::Operator) => "in!",
        },
        Entry::Bury { .. } => "bury",
        Entry::Cancel { .. } => "cancel",
    });
    call.arg(entry.uid().as_bytes());
    match entry {
        Entry::Park { message, when, priority, .. } => {
            let id = message.id.as_ref().map_or("", ProducerId::as_str);
            call.arg(id);
            match when {
                When::AtOnce => call.arg(0),
                When::In(ms) | When::At(ms) => call.arg(*ms),
                When::Since { stamp, ms } => call.arg(format!("{stamp} {ms}")),
            };
            call.arg(priority).arg(&envelope::pack(message)[..]);
        }
        Entry::Bury { message, reason } => {
            call.arg("").arg(reason.as_str()).arg("").arg(&envelope::pack(message)[..]);
        }
        Entry::Cancel { id, user, .. } => {
            let user = user.as_deref().unwrap_or_default();
            call.arg(id.as_str()).arg(user).arg("").arg("");
        }
    }
}
