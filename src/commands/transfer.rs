//! `xdelay export` and `xdelay import`: move what is parked from one store or namespace to another.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use xdelay::app;
use xdelay::config::Config;
use xdelay::message::Destination;
use xdelay::store::{Entry, Name, Seen, Start, State, Steer, transfer};

/// Messages looked up at a time.
const AT_ONCE: usize = 64;
/// Messages of a page, and of a batch.
const PAGE: usize = 200;

/// Writes everything that is parked or dead to stdout, one line a message.
pub(super) fn export(config: &Config) -> anyhow::Result<ExitCode> {
    on_store(config, |store| async move {
        let (mut written, mut leased, mut unreadable) = (0_u64, 0_u64, 0_u64);
        for destination in store.destinations().await? {
            for state in State::ALL {
                let mut start = Start::At(0);
                loop {
                    let listing = store.list(&destination, state, start, PAGE).await?;
                    let lines = lines(&*store, &destination, &listing.seen).await?;
                    for line in lines {
                        match line {
                            Ok(Some(line)) => {
                                writeln!(std::io::stdout(), "{line}")?;
                                written += 1;
                            }
                            Ok(None) => leased += 1,
                            Err(fault) => {
                                eprintln!("{destination}: left out: {fault}");
                                unreadable += 1;
                            }
                        }
                    }
                    let Some(last) = listing.seen.last().filter(|_| listing.more) else { break };
                    start = Start::After(last.place().clone());
                }
            }
        }
        eprintln!("{written} messages written");
        if leased + unreadable > 0 {
            bail!(
                "{leased} messages were being released and {unreadable} cannot be read: those are \
                 not in it. Stop xdelay before an export"
            );
        }
        Ok(ExitCode::SUCCESS)
    })
}

type Line = Result<Option<String>, xdelay::store::Fault>;

async fn lines(
    store: &dyn Steer,
    destination: &Destination,
    seen: &[Seen],
) -> anyhow::Result<Vec<Line>> {
    let looks = seen.iter().map(|seen| async move {
        let name = Name::Uid(seen.uid.clone());
        // Released since the list was made: then there is nothing to move.
        let found = store.find(destination, &name).await?;
        Ok::<_, xdelay::store::Error>(
            found.map_or(Ok(None), |found| transfer::to_line(destination, &found)),
        )
    });
    Ok(iter(looks).buffered(AT_ONCE).try_collect().await?)
}

/// Parks everything that [`export`] wrote, read from stdin. What is there already is left as it is.
pub(super) fn import(config: &Config) -> anyhow::Result<ExitCode> {
    on_store(config, |store| async move {
        let mut read = 0_u64;
        let mut batch: Vec<Entry> = Vec::new();
        let mut of: Option<Destination> = None;
        for (number, line) in std::io::stdin().lock().lines().enumerate() {
            let line = line.context("stdin cannot be read")?;
            let (destination, entry) = transfer::from_line(&line)
                .map_err(|why| anyhow::anyhow!("line {}: {why}", number + 1))?;
            if batch.len() == PAGE || of.as_ref().is_some_and(|of| *of != destination) {
                park(&*store, of.as_ref(), &mut batch).await?;
            }
            of = Some(destination);
            batch.push(entry);
            read += 1;
        }
        park(&*store, of.as_ref(), &mut batch).await?;
        eprintln!("{read} messages parked");
        Ok(ExitCode::SUCCESS)
    })
}

async fn park(
    store: &dyn Steer,
    of: Option<&Destination>,
    batch: &mut Vec<Entry>,
) -> anyhow::Result<()> {
    let Some(destination) = of else { return Ok(()) };
    store.open(destination).await?;
    let _ = store.park(destination, batch).await?;
    batch.clear();
    Ok(())
}

fn on_store<W>(config: &Config, work: impl FnOnce(Arc<dyn Steer>) -> W) -> anyhow::Result<ExitCode>
where
    W: Future<Output = anyhow::Result<ExitCode>>,
{
    let runtime = tokio::runtime::Runtime::new().context("no threads to run on")?;
    runtime.block_on(async { work(app::store(config, &Arc::default())?).await })
}
