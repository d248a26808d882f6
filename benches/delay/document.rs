//! Puts the tables into `docs/benchmarks.md`, between two comments; the prose around is left.

use std::path::PathBuf;

use anyhow::Context;

const BEGIN: &str = "<!-- figures: begin; `dev/bench --write` replaces what follows -->";
const END: &str = "<!-- figures: end -->";

/// Where they go.
pub(crate) const FILE: &str = "docs/benchmarks.md";

/// Replaces the figures.
pub(crate) fn write(tables: &str) -> anyhow::Result<()> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {FILE}"))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) =
        parts.with_context(|| format!("{FILE} lacks the lines `{BEGIN}` and `{END}`"))?;
    let text = format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", tables.trim());
    std::fs::write(&file, text).with_context(|| format!("writing {FILE}"))
}
