//! What the pages say of the tests is so.

use std::path::Path;

const RELIABILITY: &str = include_str!("../../docs/reliability.md");

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
        let is_there = [format!("fn {test}("), format!("mod {test} ")]
            .iter()
            .any(|definition| source.contains(definition));
        assert!(is_there, "docs/reliability.md names {name}, which is not there");
    }
}
