//! `xdelay run`

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use xdelay::app;
use xdelay::broker::kafka;
use xdelay::config::Config;

pub(super) fn run(config: Config) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    abort_on_panic();
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

/// A loop that ended by a bug would leave a process that looks alive and does nothing. What is in
/// hand is safe in the broker or the store, so it is better to end whole and be started again.
fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if kafka::panic_is_expected() {
            return;
        }
        tracing::error!(%panic, "a bug: xdelay ends itself");
        say(panic);
        std::process::abort();
    }));
}

/// For people on a terminal, else as JSON, one object a line. `RUST_LOG` chooses what is said.
fn log_to_stderr() {
    // lapin logs returned messages whole, and no level of ours should make it.
    let wanted = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = EnvFilter::new(format!("{wanted},lapin=off,amq_protocol=off"));
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    if std::io::stderr().is_terminal() {
        log.with_target(false).init();
    } else {
        log.json().flatten_event(true).init();
    }
}
