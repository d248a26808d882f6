//! `xdelay rebucket`: spreads what is parked over as many buckets as `redis.buckets` says.

use std::process::ExitCode;

use anyhow::{Context, bail};
use xdelay::app;
use xdelay::config::{self, Config};

pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let config::Store::Redis(redis) = &config.store else {
        bail!("the store at store.path has no buckets; only Redis has");
    };
    let store = app::redis_store(redis, Default::default())?;
    let runtime = tokio::runtime::Runtime::new().context("no threads to run on")?;
    let done = runtime.block_on(store.rebucket()).context("not finished; run it again")?;
    if done.from == done.to {
        println!("nothing to do: namespace `{}` has {} buckets", redis.namespace, done.to);
    } else {
        println!("{} buckets instead of {}, {} messages moved", done.to, done.from, done.moved);
    }
    Ok(ExitCode::SUCCESS)
}
