//! The web page at `/`: plain files, compiled in, so that nothing is needed to build or serve it.
//!
//! It stands on the admin API alone and holds nothing of its own. Its script is split by noun into
//! modules that the browser puts together; `uplot/` is a library, with its licence beside it.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Path, type and content of each file.
macro_rules! files {
    ($($kind:ident: $($name:literal),+;)+) => {
        &[$($((concat!("/page/", $name), $kind, include_str!(concat!("page/", $name))),)+)+]
    };
}

const START: &str = include_str!("page/index.html");

const FILES: &[(&str, &str, &str)] = files! {
    CSS: "style.css", "parts.css", "uplot/uPlot.min.css";
    SVG: "icon.svg";
    PLAIN: "uplot/LICENSE";
    SCRIPT: "uplot/uPlot.iife.min.js", "api.js", "app.js", "backlog.js", "banner.js", "body.js",
        "bulk.js", "chart.js", "destinations.js", "dialog.js", "due.js", "element.js", "filter.js",
        "history.js", "live.js", "message.js", "messages.js", "minutes.js", "notice.js",
        "overview.js", "park.js", "route.js", "spans.js", "steps.js", "theme.js", "time.js",
        "token.js", "words.js";
};

/// A route for each file.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let start = get(|| async { ([(CONTENT_TYPE, HTML)], START) });
    FILES.iter().fold(Router::new().route("/", start), |routes, &(path, kind, content)| {
        routes.route(path, get(move || async move { ([(CONTENT_TYPE, kind)], content) }))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn files_in(directory: &Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(directory).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn every_file_of_the_page_is_served() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/page");
        for file in files_in(&root) {
            let name = file.strip_prefix(&root).expect("inside").to_string_lossy().into_owned();
            let path = format!("/page/{name}");
            let served = FILES.iter().any(|(served, ..)| *served == path);
            assert!(served || name == "index.html", "{path} is not served");
        }
    }

    #[test]
    fn what_the_page_asks_for_is_served() {
        let is_served = |path: &str| FILES.iter().any(|(served, ..)| *served == path);
        let quoted = START.split('"').filter(|text| text.starts_with("/page/"));
        for path in quoted {
            assert!(is_served(path), "index.html asks for {path}");
        }
        for (file, _, script) in
            FILES.iter().filter(|(path, kind, _)| *kind == SCRIPT && !path.contains("uplot"))
        {
            let imports = script.lines().filter(|line| line.starts_with("import "));
            for line in imports {
                let module = line.split('"').nth(1).expect("a module").trim_start_matches("./");
                assert!(is_served(&format!("/page/{module}")), "{file} imports {module}");
            }
        }
    }

    /// The policy that browsers are given forbids these; better to learn it here.
    #[test]
    fn nothing_becomes_markup_and_nothing_is_inline() {
        for (file, _, script) in FILES.iter().filter(|(path, ..)| !path.contains("uplot")) {
            for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!script.contains(way), "{file} uses {way}");
            }
        }
        assert!(!START.contains("style=") && !START.contains("<style"), "style stands in files");
        for script in START.split("<script").skip(1) {
            assert!(script.trim_start().starts_with("src="), "scripts stand in files");
        }
    }
}
