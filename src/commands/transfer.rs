//! `xdelay export` and `xdelay import`: move what is parked from one store or namespace to another.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use xdelay::app;
use xdelay::clock::host_now;
use xdelay::config::Config;
use xdelay::message::Destination;
use xdelay::store::transfer::{self, Moved};
use xdelay::store::{Entry, Name, Outcome, Seen, Start, State, Steer, Step};

/// Messages looked up at a time.
const AT_ONCE: usize = 64;
/// Messages of a page.
const PAGE: usize = 50;
/// What is due within so many milliseconds is taken as due.
const SOON_MS: u64 = 60_000;

/// Writes everything that is parked or dead to stdout, one line a message.
pub(super) fn export(config: &Config) -> anyhow::Result<ExitCode> {
    on_store(config, |store| async move {
        let (mut written, mut leased, mut unreadable) = (0_u64, 0_u64, 0_u64);
        for destination in store.destinations().await? {
            // Says so when the store is laid out otherwise than the configuration has it.
            store.open(&destination).await?;
            // What a lost holder had is nobody's any more.
            store.recover(&destination).await?;
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

/// Parks everything that [`export`] wrote, read from stdin. What is there already, under its uid or
/// under its producer's id, is left as it is.
pub(super) fn import(config: &Config) -> anyhow::Result<ExitCode> {
    on_store(config, |store| async move {
        let (mut parked, mut known, mut taken) = (0_u64, 0_u64, 0_u64);
        for (number, line) in std::io::stdin().lock().lines().enumerate() {
            let line = line.context("stdin cannot be read")?;
            let moved = transfer::from_line(&line)
                .map_err(|why| anyhow::anyhow!("line {}: {why}", number + 1))?;
            let came = park(&*store, &moved).await?;
            if moved.attempts > 0 && !matches!(came, Came::AfterAnother) {
                restore(&*store, &moved).await?;
            }
            match came {
                Came::In => parked += 1,
                Came::Before => known += 1,
                Came::AfterAnother => {
                    taken += 1;
                    let id = moved.message.id.as_ref().map(ToString::to_string);
                    eprintln!("line {}: left out: {id:?} is another message there", number + 1);
                }
            }
        }
        eprintln!("{parked} parked, {known} there already, {taken} left out");
        Ok(ExitCode::SUCCESS)
    })
}

/// What came of one message.
enum Came {
    In,
    Before,
    AfterAnother,
}

async fn park(store: &dyn Steer, moved: &Moved) -> anyhow::Result<Came> {
    let destination = &moved.destination;
    store.open(destination).await?;
    let uid = &moved.message.uid;
    if let Some(id) = &moved.message.id
        && let Some(found) = store.find(destination, &Name::Id(id.clone())).await?
        && found.seen.uid != *uid
        && found.seen.state != State::Dead
        && moved.reason.is_none()
    {
        return Ok(Came::AfterAnother);
    }
    let Some(reason) = moved.burial() else {
        let parkings = store.park(destination, &[moved.entry()]).await?;
        let known = parkings.entries.iter().any(|it| it.outcome == Outcome::Known);
        return Ok(if known { Came::Before } else { Came::In });
    };
    let parked = match moved.due > host_now() + SOON_MS {
        true => store.park(destination, &[moved.entry()]).await?,
        // It would go out before it is buried, and its due does not matter any more.
        false => {
            let message = moved.message.clone();
            store.park(destination, &[Entry::Bury { message, reason: reason.clone() }]).await?
        }
    };
    if parked.entries.iter().any(|it| it.outcome == Outcome::Known) {
        return Ok(Came::Before);
    }
    if let Some(found) = store.find(destination, &Name::Uid(uid.clone())).await?
        && found.seen.state == State::Parked
    {
        store.steer(destination, &Step::Bury(reason), &[found.seen.handle()]).await?;
    }
    Ok(Came::In)
}

/// What was tried elsewhere is not tried as often again. Also for what is there already: an import
/// may have been cut off in between.
async fn restore(store: &dyn Steer, moved: &Moved) -> anyhow::Result<()> {
    let name = Name::Uid(moved.message.uid.clone());
    if let Some(found) = store.find(&moved.destination, &name).await? {
        store.restore(&moved.destination, &found.seen.handle(), moved.attempts).await?;
    }
    Ok(())
}

fn on_store<W>(config: &Config, work: impl FnOnce(Arc<dyn Steer>) -> W) -> anyhow::Result<ExitCode>
where
    W: Future<Output = anyhow::Result<ExitCode>>,
{
    let runtime = tokio::runtime::Runtime::new().context("no threads to run on")?;
    runtime.block_on(async { work(app::store(config, &Arc::default())?).await })
}
