//! The marks that a queue leaves on a message that it dead-letters.

use crate::message::amqp::property_list::PropertyList;
use crate::message::amqp::table::{self, Field, Malformed};

/// The header that lists where a message died, one table for each queue and reason.
pub(super) const DEATHS: &str = "x-death";

/// What one queue left on a message.
pub(super) struct Death<'a> {
    pub(super) queue: &'a str,
    /// The expiration that the message had before.
    pub(super) expiration: Option<&'a [u8]>,
    /// Whether the headers that tell of its first and of its last death are this queue's.
    is_first: bool,
    is_last: bool,
}

impl<'a> Death<'a> {
    pub(super) fn read(headers: &'a [u8], queue: &'a str) -> Result<Self, Malformed> {
        let mut death = Self { queue, expiration: None, is_first: false, is_last: false };
        let Some((b'A', deaths)) = table::last_of(headers, DEATHS) else {
            return Ok(death);
        };
        let mut is_alone = true;
        for element in table::elements(&deaths[4..]) {
            let (kind, place) = element?;
            match of_queue(kind, &deaths[4..][place], queue) {
                Some(ours) if death.expiration.is_none() => {
                    death.expiration = text_of(ours, "original-expiration");
                }
                Some(_) => {}
                None => is_alone = false,
            }
        }
        let is_ours = |mark| text_of(headers, mark) == Some(queue.as_bytes());
        death.is_first = is_alone || is_ours("x-first-death-queue");
        death.is_last = is_alone || is_ours("x-last-death-queue");
        Ok(death)
    }

    /// Whether the header of this name is this queue's mark.
    pub(super) fn marks(&self, name: &str) -> bool {
        let is_part = |part: &str| matches!(part, "queue" | "reason" | "exchange");
        self.is_first && name.strip_prefix("x-first-death-").is_some_and(is_part)
            || self.is_last && name.strip_prefix("x-last-death-").is_some_and(is_part)
    }
}

/// Appends the list of deaths without those in `queue`, unless none are left.
pub(super) fn push_others(
    out: &mut Vec<u8>,
    deaths: &Field,
    headers: &[u8],
    queue: &str,
) -> Result<(), Malformed> {
    if deaths.kind != b'A' {
        return Ok(());
    }
    let list = &headers[deaths.value.start + 4..deaths.value.end];
    let mut others = Vec::with_capacity(list.len());
    for element in table::elements(list) {
        let (kind, place) = element?;
        if of_queue(kind, &list[place.clone()], queue).is_none() {
            others.push(kind);
            others.extend_from_slice(&list[place]);
        }
    }
    if !others.is_empty() {
        table::push_name(out, DEATHS);
        out.push(b'A');
        out.extend_from_slice(&(others.len() as u32).to_be_bytes());
        out.extend_from_slice(&others);
    }
    Ok(())
}

/// Why the capture queue gave the message up, in the broker's word, when it did.
pub(in super::super) fn death_reason(properties: &[u8], queue: &str) -> Option<String> {
    let list = PropertyList::read(properties).ok()?;
    let (b'A', deaths) = table::last_of(list.headers(), DEATHS)? else {
        return None;
    };
    let deaths = deaths.get(4..)?;
    let mut elements = table::elements(deaths).flatten();
    let ours = elements.find_map(|(kind, place)| of_queue(kind, &deaths[place], queue))?;
    // A message that had an expiration of its own died by its producer's wish, not by a policy.
    let own_wish = table::last_of(ours, "original-expiration").is_some();
    let reason = text_of(ours, "reason").filter(|_| !own_wish)?;
    Some(String::from_utf8_lossy(reason).into_owned())
}

/// The fields of a death, if it is one in this queue.
fn of_queue<'a>(kind: u8, death: &'a [u8], queue: &str) -> Option<&'a [u8]> {
    let fields = death.get(4..).filter(|_| kind == b'F')?;
    (text_of(fields, "queue") == Some(queue.as_bytes())).then_some(fields)
}

fn text_of<'a>(fields: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (kind, value) = table::last_of(fields, name)?;
    table::text(kind, value)
}
