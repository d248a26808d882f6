//! `xdelay run`

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use xdelay::app;
use xdelay::config::Config;

pub(super) fn run(config: Config) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    let runtime = tokio::runtime::Runtime::new().context("no threads to run on")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("no SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("no SIGINT")?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        app::run(config, stop).await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// For people on a terminal, else as JSON, one object a line. `RUST_LOG` chooses what is said.
fn log_to_stderr() {
    let quiet = "info,lapin=off,amq_protocol=off";
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(quiet));
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    if std::io::stderr().is_terminal() {
        log.with_target(false).init();
    } else {
        log.json().flatten_event(true).init();
    }
}
