//! `xdelay ls`, `show` and `history`

use std::process::ExitCode;

use serde_json::{Value, json};

use super::api::{Api, escape, query};
use super::table::{from_now, table, text};
use super::{Filter, Message, Of};

/// Messages the API gives at a time.
const PAGE: usize = 500;

pub(super) fn ls(
    api: &Api,
    of: &Of,
    filter: &Filter,
    limit: usize,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (mut messages, mut cursor) = (Vec::new(), None);
    let more = loop {
        let page = api.get(&format!(
            "/v1/messages{}",
            query(&[
                ("destination", of.destination.clone()),
                ("broker", of.broker.clone()),
                ("state", filter.state.clone()),
                ("id", filter.id_prefix.clone()),
                ("key", filter.key.clone()),
                ("due_from", filter.due_from.map(|ms| ms.to_string())),
                ("due_to", filter.due_to.map(|ms| ms.to_string())),
                ("limit", Some((limit - messages.len()).clamp(1, PAGE).to_string())),
                ("cursor", cursor.take()),
            ])
        ))?;
        messages.extend(page["messages"].as_array().cloned().unwrap_or_default());
        cursor = page["cursor"].as_str().map(str::to_owned);
        if cursor.is_none() || messages.len() >= limit {
            break cursor.is_some();
        }
    };
    if json {
        println!("{}", json!({"messages": messages, "more": more}));
        return Ok(ExitCode::SUCCESS);
    }
    if messages.is_empty() {
        println!("nothing matches");
        return Ok(ExitCode::SUCCESS);
    }
    let now = api.get("/v1/stats")?["now"].as_u64().unwrap_or_default();
    let mut rows = table(&["UID", "ID", "DESTINATION", "STATE", "DUE", "KEY", "BYTES", "NOTE"]);
    for message in &messages {
        let note = match (&message["reason"], &message["fault"]) {
            (Value::Null, Value::Null) => attempts(message),
            (Value::Null, fault) => text(fault),
            (reason, _) => text(reason),
        };
        rows.add_row([
            text(&message["uid"]),
            text(&message["id"]),
            text(&message["destination"]),
            text(&message["state"]),
            from_now(&message["due"], now),
            text(&message["key"]),
            text(&message["bytes"]),
            note,
        ]);
    }
    println!("{rows}");
    if more {
        println!("there are more: raise --limit, or narrow it down");
    }
    Ok(ExitCode::SUCCESS)
}

fn attempts(message: &Value) -> String {
    match message["attempts"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => "1 failed attempt".to_owned(),
        Some(many) => format!("{many} failed attempts"),
    }
}

pub(super) fn show(api: &Api, message: &Message, json: bool) -> anyhow::Result<ExitCode> {
    let of = query(&[
        ("destination", message.of.destination.clone()),
        ("broker", message.of.broker.clone()),
    ]);
    let shown = api.get(&format!("/v1/messages/{}{of}", escape(&message.id)))?;
    if json {
        println!("{shown}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = table(&["", ""]);
    for fact in [
        "uid",
        "id",
        "destination",
        "broker",
        "state",
        "due_at",
        "delay_ms",
        "key",
        "attempts",
        "bytes",
        "reason",
        "fault",
    ] {
        if shown[fact] != Value::Null {
            rows.add_row([fact.to_owned(), text(&shown[fact])]);
        }
    }
    let content = &shown["content"];
    for (group, prefix) in [("properties", ""), ("headers", "header ")] {
        for (name, value) in content[group].as_object().into_iter().flatten() {
            rows.add_row([text(&json!(format!("{prefix}{name}"))), text(value)]);
        }
    }
    println!("{rows}");
    let body = &content["body"];
    if let Some(preview) = body["preview"].as_str().filter(|preview| !preview.is_empty()) {
        let more = if body["truncated"] == true { ", its beginning" } else { "" };
        println!("\nbody ({}{more}):", text(&body["format"]));
        for line in preview.lines() {
            println!("  {}", text(&json!(line)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn history(
    api: &Api,
    destination: Option<&str>,
    what: Option<&str>,
    limit: usize,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let answer = api.get(&format!(
        "/v1/history{}",
        query(&[
            ("destination", destination.map(str::to_owned)),
            ("what", what.map(str::to_owned)),
            ("limit", Some(limit.to_string())),
        ])
    ))?;
    if json {
        println!("{answer}");
        return Ok(ExitCode::SUCCESS);
    }
    let events = answer["events"].as_array().cloned().unwrap_or_default();
    if events.is_empty() {
        println!("nothing happened lately on this replica");
        return Ok(ExitCode::SUCCESS);
    }
    let now = api.get("/v1/stats")?["now"].as_u64().unwrap_or_default();
    let mut rows = table(&["WHEN", "WHAT", "UID", "ID", "DESTINATION", "LATE", "NOTE"]);
    for event in &events {
        let late = event["lateness_ms"].as_u64().map_or_else(String::new, |ms| format!("{ms} ms"));
        rows.add_row([
            from_now(&event["at"], now),
            text(&event["what"]).replace('_', " "),
            text(&event["uid"]),
            text(&event["id"]),
            text(&event["destination"]),
            late,
            event["reason"].as_str().map_or_else(String::new, |it| text(&json!(it))),
        ]);
    }
    println!("{rows}");
    Ok(ExitCode::SUCCESS)
}
