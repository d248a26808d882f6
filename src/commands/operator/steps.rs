//! `xdelay cancel`, `reschedule`, `release`, `revive`, `bury`, `pause` and `resume`

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use xdelay::clock::rfc3339;

use super::api::{Api, escape, query};
use super::{NewDue, Of, Order, Whom};

/// The step's name in the API, with whom, and what it needs to know.
pub(super) fn of(order: Order) -> anyhow::Result<(&'static str, Whom, Value)> {
    let due = |due: NewDue| match (due.after, due.at) {
        (Some(ms), _) => json!({"delay_ms": ms}),
        (None, Some(ms)) => json!({"deliver_at": ms}),
        (None, None) => json!({}),
    };
    Ok(match order {
        Order::Cancel(whom) => ("cancel", whom, json!({})),
        Order::Release(whom) => ("release", whom, json!({})),
        Order::Reschedule { due: NewDue { after: None, at: None }, .. } => {
            bail!("say when: --in 2h, or --at 2026-12-01T00:00:00Z");
        }
        Order::Reschedule { whom, due: new } => ("reschedule", whom, due(new)),
        Order::Revive { whom, due: new } => ("revive", whom, due(new)),
        Order::Bury { whom, reason } => {
            ("bury", whom, reason.map_or(json!({}), |reason| json!({"reason": reason})))
        }
        Order::Ls { .. }
        | Order::Show(_)
        | Order::Stats { .. }
        | Order::History { .. }
        | Order::Pause { .. }
        | Order::Resume { .. } => bail!("this is no step with messages"),
    })
}

/// Takes a step with one message.
pub(super) fn one(
    api: &Api,
    step: &str,
    id: &str,
    of: &Of,
    body: &Value,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let query = query(&[("destination", of.destination.clone()), ("broker", of.broker.clone())]);
    let done = match step {
        "cancel" => api.delete(&format!("/v1/messages/{}{query}", escape(id)))?,
        _ => api.post(&format!("/v1/messages/{}/{step}{query}", escape(id)), body)?,
    };
    if json {
        println!("{done}");
        return Ok(ExitCode::SUCCESS);
    }
    let said = match done["result"].as_str().unwrap_or_default() {
        "cancelled" => "cancelled: it is not delivered".to_owned(),
        "cancelled_possibly_delivered" => {
            "cancelled, possibly after it was delivered: a replica had taken it to release it"
                .into()
        }
        "rescheduled" if step == "release" => {
            "due now: it goes out as soon as its destination takes messages".to_owned()
        }
        "rescheduled" => {
            format!("due at {} now", rfc3339(done["due"].as_u64().unwrap_or_default()))
        }
        "revived" => "parked again".to_owned(),
        other => other.replace('_', " "),
    };
    println!("{}: {said}", done["uid"].as_str().unwrap_or(id));
    Ok(ExitCode::SUCCESS)
}

/// Pauses or resumes a destination.
pub(super) fn stand(
    api: &Api,
    destination: &str,
    broker: Option<&str>,
    step: &str,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let query = query(&[("broker", broker.map(str::to_owned))]);
    let path = format!("/v1/destinations/{}/{step}{query}", escape(destination));
    let standing = api.post(&path, &json!({}))?;
    match (json, standing["paused"].as_bool()) {
        (true, _) => println!("{standing}"),
        (false, Some(true)) => {
            println!(
                "{destination}: paused; what comes due waits until `xdelay resume {destination}`"
            );
        }
        (false, _) => println!("{destination}: goes on"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads `90s`, `2h`, `1d 6h` as milliseconds.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| "it is a duration such as 90s, 15m, 2h or 3d".to_owned())?;
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).map_err(|_| "it is too long".to_owned())
}

/// Below it a number is a time in seconds: in milliseconds it would lie in 1973 or before.
const SECONDS_LIKELY: u64 = 100_000_000_000;

/// Reads RFC 3339, or Unix milliseconds.
pub(super) fn instant(text: &str) -> Result<u64, String> {
    if let Ok(ms) = text.parse() {
        return match ms {
            ..SECONDS_LIKELY => Err("it is in milliseconds, not seconds, since 1970".to_owned()),
            ms => Ok(ms),
        };
    }
    let time = OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| "it is an instant such as 2026-12-01T00:00:00Z, or Unix milliseconds")?;
    // Rounded up, like every due.
    u64::try_from((time.unix_timestamp_nanos() + 999_999) / 1_000_000)
        .map_err(|_| "it lies before 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(duration("90s"), Ok(90_000));
        assert!(duration("soon").is_err());
        assert_eq!(instant("2026-11-21T16:00:00Z"), Ok(1_795_276_800_000));
        assert_eq!(instant("1795276800000"), Ok(1_795_276_800_000));
        assert!(instant("1795276800").expect_err("seconds").contains("milliseconds"));
        assert_eq!(duration("1500us"), Ok(2));
        assert!(instant("tomorrow").expect_err("no instant").contains("2026-12-01"));
    }
}
