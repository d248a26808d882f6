//! What the pages say of the tests is so.

use std::path::Path;

const RELIABILITY: &str = include_str!("../../docs/reliability.md");
const ALERTS: &str = include_str!("../../ops/alerts.yml");
const DASHBOARD: &str = include_str!("../../ops/dashboard.json");
const METRICS: &str =
    concat!(include_str!("../../src/metrics.rs"), include_str!("../../src/metrics/proxy.rs"));
const RUNBOOKS: &str = include_str!("../../docs/runbooks.md");

/// The source of a module of this binary, its sub-modules included.
fn source(module: &str) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut text = std::fs::read_to_string(here.join(format!("{module}.rs"))).unwrap_or_default();
    if let Ok(rooms) = std::fs::read_dir(here.join(module)) {
        for room in rooms.flatten() {
            text += &std::fs::read_to_string(room.path()).unwrap_or_default();
        }
    }
    text
}

#[test]
fn every_test_that_the_matrix_names_is_there() {
    let named: Vec<_> = RELIABILITY.split('`').filter(|text| text.contains("::")).collect();
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        let (module, test) = name.split_once("::").expect("a module and a test");
        let source = source(module);
        let is_there = [format!("fn {test}("), format!("mod {test} "), format!("mod {test};")]
            .iter()
            .any(|definition| source.contains(definition));
        assert!(is_there, "docs/reliability.md names {name}, which is not there");
    }
}

/// Every name that `/metrics` can show, without the endings that the format adds. One that has not
/// counted yet is not shown, so they are read where they are registered.
fn metric_names() -> Vec<String> {
    let registered = METRICS.split("register(").skip(1);
    let names = registered.filter_map(|rest| rest.split('"').nth(1));
    names.map(|name| format!("xdelay_{name}")).collect()
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let known = metric_names();
    for page in [ALERTS, DASHBOARD] {
        let words = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: Vec<_> = words.filter(|word| word.starts_with("xdelay_")).collect();
        assert!(named.len() > 5);
        for name in named {
            let bare = name.trim_end_matches("_bucket").trim_end_matches("_total");
            assert!(known.iter().any(|known| known == bare), "{name} is no metric of xdelay");
        }
    }
}

#[test]
fn every_alert_has_its_runbook() {
    let named: Vec<_> =
        ALERTS.lines().filter_map(|it| it.trim().strip_prefix("- alert: ")).collect();
    assert!(named.len() > 5);
    for alert in named {
        assert!(RUNBOOKS.contains(&format!("## {alert}\n")), "{alert} has no runbook");
        assert!(ALERTS.contains(&format!("runbooks.md#{}", alert.to_lowercase())), "{alert}");
    }
}

#[test]
fn every_picture_of_the_guide_is_kept_by_a_test_and_is_small() {
    let guide = include_str!("../../docs/operating.md");
    let named: Vec<_> = guide
        .split("images/")
        .skip(1)
        .filter_map(|rest| rest.split_once(".png").map(|(name, _)| name))
        .collect();
    assert!(named.len() >= 4, "{named:?}");
    let tests = source("page");
    for name in named {
        let image = format!("docs/images/{name}.png");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&image);
        let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
        assert!((1..=150_000).contains(&bytes), "{image} has {bytes} bytes: make pictures");
        // Those of a phone are kept view by view.
        let kept = name.strip_prefix("phone-").unwrap_or(name);
        assert!(tests.contains(&format!("\"{kept}\"")), "no test of the page keeps {name}");
    }
}
