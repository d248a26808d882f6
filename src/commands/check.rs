//! `xdelay check`

use std::process::ExitCode;

use anyhow::Context;
use xdelay::app::Parts;
use xdelay::config::Config;
use xdelay::finding::{Finding, Grade};

pub(super) fn run(config: Config) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("no threads to run on")?;
    let findings = runtime.block_on(async {
        let parts = Parts::new(&config)?;
        let mut findings = vec![Finding::good("configuration", "understood")];
        findings.extend(parts.watched().look().await);
        let bound = match parts.open().await {
            Ok(()) => parts.bind_all().await,
            Err(why) => Err(why),
        };
        findings.push(match bound {
            Ok(()) => Finding::good("namespace", "is this broker's"),
            Err(why) => Finding::bad("namespace", why),
        });
        anyhow::Ok(findings)
    })?;
    for finding in &findings {
        println!("{finding}");
    }
    let bad = findings.iter().filter(|finding| finding.grade == Grade::Bad).count();
    if bad > 0 {
        println!("\n{bad} of {} failed", findings.len());
        return Ok(ExitCode::FAILURE);
    }
    println!("\nall is well");
    Ok(ExitCode::SUCCESS)
}
