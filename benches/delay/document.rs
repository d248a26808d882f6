//! Puts a run into the docs: its tables into `docs/benchmarks.md`, between two comments, with the
//! prose around left as it is; its plots and its data beside it.
//!
//! One run cannot hold everything, so the page has several such places, by name.

use std::path::PathBuf;

use anyhow::Context;

use crate::plot::Plot;

/// Where the tables go.
const FILE: &str = "docs/benchmarks.md";
/// Where plots and data go.
const BESIDE: &str = "docs/benchmarks";

/// Replaces the figures called `name`. Answers what was written.
pub(crate) fn write(
    name: &str,
    tables: &str,
    plots: &[Plot],
    data: &str,
) -> anyhow::Result<Vec<String>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let text =
        std::fs::read_to_string(root.join(FILE)).with_context(|| format!("reading {FILE}"))?;
    let shown = |plot: &Plot| format!("![{}](benchmarks/{name}-{}.svg)", plot.name, plot.name);
    let pictures: Vec<String> = plots.iter().map(shown).collect();
    let source = format!("All outcomes as data: [{name}.json](benchmarks/{name}.json).");
    let figures = [tables.trim(), &pictures.join("\n\n"), &source].join("\n\n");
    let text = replaced(&text, name, &figures)
        .with_context(|| format!("{FILE} lacks the lines `{}` and `{}`", begin(name), end(name)))?;

    let mut files: Vec<(String, &str)> =
        plots.iter().map(|plot| (format!("{name}-{}.svg", plot.name), plot.svg.as_str())).collect();
    files.push((format!("{name}.json"), data));
    std::fs::create_dir_all(root.join(BESIDE)).with_context(|| format!("making {BESIDE}"))?;
    let mut written = vec![FILE.to_owned()];
    for (file, content) in files {
        let path = format!("{BESIDE}/{file}");
        std::fs::write(root.join(&path), content).with_context(|| format!("writing {path}"))?;
        written.push(path);
    }
    std::fs::write(root.join(FILE), text).with_context(|| format!("writing {FILE}"))?;
    Ok(written)
}

fn begin(name: &str) -> String {
    format!("<!-- figures of {name}: begin -->")
}

fn end(name: &str) -> String {
    format!("<!-- figures of {name}: end -->")
}

/// `None` when there is no such place.
fn replaced(text: &str, name: &str, figures: &str) -> Option<String> {
    let (begin, end) = (begin(name), end(name));
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{figures}\n\n{end}{after}"))
}
