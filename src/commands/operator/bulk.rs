//! A step with all messages that match: counted first, asked for, then done with its progress shown.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::Whom;
use super::api::Api;
use super::table::printable;

pub(super) fn many(
    api: &Api,
    step: &str,
    whom: &Whom,
    body: Value,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut request = body;
    request["filter"] = filter(whom);
    request["all"] = json!(true);
    let matched = count(api, step, &request)?;
    if whom.dry_run || matched == 0 {
        match json {
            true => println!("{}", json!({"matched": matched, "results": {}})),
            false => println!("{matched} messages match"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !whom.yes {
        ask(step, matched, &request["filter"])?;
    }
    let results = work(api, step, request, matched, json)?;
    if json {
        println!("{}", json!({"matched": matched, "results": results}));
    } else {
        for (result, count) in &results {
            println!("{count} {}", result.replace('_', " "));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn filter(whom: &Whom) -> Value {
    let mut filter = json!({});
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            filter[name] = value;
        }
    };
    set("destination", whom.of.destination.clone().map(Value::from));
    set("broker", whom.of.broker.clone().map(Value::from));
    set("state", whom.filter.state.clone().map(Value::from));
    set("id", whom.filter.id_prefix.clone().map(Value::from));
    set("key", whom.filter.key.clone().map(Value::from));
    set("due_from", whom.filter.due_from.map(Value::from));
    set("due_to", whom.filter.due_to.map(Value::from));
    filter
}

fn count(api: &Api, step: &str, request: &Value) -> anyhow::Result<u64> {
    let mut look = request.clone();
    look["dry_run"] = json!(true);
    let mut matched = 0;
    loop {
        let answer = api.post(&format!("/v1/bulk/{step}"), &look)?;
        matched += answer["matched"].as_u64().unwrap_or_default();
        if answer["cursor"].is_null() {
            return Ok(matched);
        }
        look["cursor"] = answer["cursor"].clone();
    }
}

fn ask(step: &str, matched: u64, filter: &Value) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("{matched} messages match; add --yes to {step} them without being asked");
    }
    let which = match printable(&filter.to_string()) {
        none if none == "{}" => "of all destinations".to_owned(),
        which => format!("matching {which}"),
    };
    eprint!("{step} {matched} messages {which}? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("nothing was changed");
    }
    Ok(())
}

fn work(
    api: &Api,
    step: &str,
    mut request: Value,
    matched: u64,
    quiet: bool,
) -> anyhow::Result<BTreeMap<String, u64>> {
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(matched) };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len}, {eta} to go") {
        bar.set_style(style);
    }
    let mut results = BTreeMap::<String, u64>::new();
    loop {
        let answer = api.post(&format!("/v1/bulk/{step}"), &request)?;
        for (result, count) in answer["results"].as_object().into_iter().flatten() {
            *results.entry(result.clone()).or_default() += count.as_u64().unwrap_or_default();
        }
        bar.inc(answer["matched"].as_u64().unwrap_or_default());
        if answer["cursor"].is_null() {
            bar.finish_and_clear();
            return Ok(results);
        }
        request["cursor"] = answer["cursor"].clone();
        request["since"] = answer["since"].clone();
        if !answer["due"].is_null() {
            // The same due for all, however long it takes.
            request["deliver_at"] = answer["due"].clone();
            request["delay_ms"] = Value::Null;
        }
    }
}
