//! `xdelay stats`, once or again and again.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::api::Api;
use super::table::{from_now, table, text};

const EVERY: Duration = Duration::from_secs(2);
/// Clears a terminal and goes to its upper left.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Fails when something is bad, so that a script can ask.
pub(super) fn stats(api: &Api, json: bool) -> anyhow::Result<ExitCode> {
    let stats = api.get("/v1/stats")?;
    match json {
        true => println!("{stats}"),
        false => print!("{}", in_words(&stats)),
    }
    Ok(if stats["ready"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Until it is interrupted. An xdelay that is away for a while is waited for.
pub(super) fn stats_again_and_again(api: &Api, json: bool) -> anyhow::Result<ExitCode> {
    loop {
        match api.get("/v1/stats") {
            Ok(stats) if json => println!("{stats}"),
            Ok(stats) => print!("{CLEAR}{}", in_words(&stats)),
            Err(error) => eprintln!("{error:#}"),
        }
        std::thread::sleep(EVERY);
    }
}

fn in_words(stats: &Value) -> String {
    let now = stats["now"].as_u64().unwrap_or_default();
    let mut rows = table(&[
        "DESTINATION",
        "PARKED",
        "LEASED",
        "DEAD",
        "OVERDUE",
        "NEXT DUE",
        "CAPTURED",
        "RELEASED",
        "NOTE",
    ]);
    for it in stats["destinations"].as_array().into_iter().flatten() {
        let mut notes = Vec::new();
        if it["paused"] == true {
            notes.push("paused");
        }
        if it["configured"] == false {
            notes.push("no longer configured");
        }
        rows.add_row([
            format!("{}/{}", text(&it["broker"]), text(&it["destination"])),
            text(&it["parked"]),
            text(&it["leased"]),
            text(&it["dead"]),
            text(&it["overdue"]),
            from_now(&it["next_due"], now),
            text(&it["captured"]),
            text(&it["released"]),
            notes.join(", "),
        ]);
    }
    let mut words = format!("{rows}\n");
    if let Some(minute) = stats["minutes"].as_array().and_then(|minutes| minutes.last()) {
        words.push_str(&format!(
            "\nlast minute with traffic, {}: {} captured, {} released",
            from_now(&minute["start"], now),
            text(&minute["captured"]),
            text(&minute["released"]),
        ));
        if !minute["lateness_ms_p99"].is_null() {
            words.push_str(&format!(
                ", late by {} ms (half), {} ms (99 %), {} ms (most)",
                text(&minute["lateness_ms_p50"]),
                text(&minute["lateness_ms_p99"]),
                text(&minute["lateness_ms_max"]),
            ));
        }
        words.push('\n');
    }
    for part in stats["parts"].as_array().into_iter().flatten() {
        if part["state"] != "ok" {
            words.push_str(&format!(
                "\n{} {}: {}\n",
                text(&part["state"]),
                text(&part["part"]),
                text(&part["detail"])
            ));
        }
    }
    words
}
