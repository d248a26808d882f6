//! `xdelay completions` and `xdelay man`: both made from the arguments themselves.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Arguments;

pub(super) fn completions(shell: Shell) {
    clap_complete::generate(shell, &mut Arguments::command(), "xdelay", &mut std::io::stdout());
}

pub(super) fn page() -> anyhow::Result<ExitCode> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    std::io::stdout().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}
