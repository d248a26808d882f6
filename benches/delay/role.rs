//! The processes of the benchmark: this very program, started again in another role.
//!
//! What a process is to do goes in as one line of JSON, and its answers come out as lines of
//! JSON. Its input stays open for as long as it may live: a benchmark that is killed leaves no
//! load generator behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

/// A process in a role; ended when dropped.
pub(crate) struct Role {
    name: &'static str,
    child: Child,
    output: BufReader<ChildStdout>,
    // Held open, not used: its end tells the process to end.
    _input: ChildStdin,
}

impl Role {
    pub(crate) fn start(name: &'static str, job: &impl Serialize) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("which program this is")?;
        let mut child = Command::new(program)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting the process `{name}`"))?;
        let mut input = child.stdin.take().context("its input is piped")?;
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        input.write_all(&line).with_context(|| format!("telling `{name}` what to do"))?;
        Ok(Self { name, child, output, _input: input })
    }

    /// Waits for its next answer.
    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            bail!("the process `{}` ended without an answer", self.name);
        }
        serde_json::from_str(&line).with_context(|| format!("what `{}` answered", self.name))
    }

    /// Whether it has ended, having done what it was told to.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        match self.child.try_wait()? {
            Some(status) if !status.success() => bail!("the process `{}` failed", self.name),
            ended => Ok(ended.is_some()),
        }
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // It keeps nothing that a graceful end would save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resolves when whoever started this process is gone.
pub(crate) type Lifeline = oneshot::Receiver<()>;

/// In the started process: reads what to do.
pub(crate) fn receive<J: DeserializeOwned>() -> anyhow::Result<(J, Lifeline)> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("what to do")?;
    let job = serde_json::from_str(&line).context("what to do")?;
    let (gone, lifeline) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = gone.send(());
    });
    Ok((job, lifeline))
}

/// In the started process: answers.
pub(crate) fn say(answer: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(answer)?);
    Ok(())
}
