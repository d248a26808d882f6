//! `xdelay convert-definitions`

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;
use xdelay::broker::amqp::definitions;

pub(super) fn run(file: &Path, output: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let shown = file.display();
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
    }
    let mut all: Value =
        serde_json::from_str(&text).with_context(|| format!("{shown} is not JSON"))?;
    let report = match definitions::convert(&mut all) {
        Ok(report) => report,
        Err(wrong) => {
            for line in wrong {
                eprintln!("cannot be converted: {line}");
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    let converted = format!("{all:#}\n");
    match output {
        Some(path) => std::fs::write(&path, converted)
            .with_context(|| format!("{} cannot be written", path.display()))?,
        None => std::io::stdout().write_all(converted.as_bytes()).context("standard output")?,
    }
    for change in &report.changes {
        eprintln!("changed: {change}");
    }
    for note in &report.notes {
        eprintln!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}
