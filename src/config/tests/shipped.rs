//! The file that is shipped says what the defaults are, and says it of every key.

use figment::providers::{Format, Toml};
use figment::value::{Dict, Value};

use super::super::tree::Tree;
use super::*;

const SHIPPED: &str = include_str!("../../../config/xdelay.toml");

#[test]
fn lists_every_key_with_its_default() {
    let shipped: Dict = Toml::from_str(SHIPPED).unwrap();
    let tree = Tree::of_defaults().unwrap();
    assert_eq!(&shipped, tree.root());
}

#[test]
fn has_exactly_one_comment_for_each_key() {
    let body = SHIPPED.split_once("\n\n").unwrap().1;
    let lines: Vec<_> = body.lines().filter(|line| !line.is_empty()).collect();
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.starts_with('[')).collect();
    for pair in lines.chunks(2) {
        assert!(pair[0].starts_with("# ") && !pair[1].starts_with('#'), "{pair:?}");
    }
}

#[test]
fn gives_the_defaults_when_loaded() {
    let sets = [("redis.url", "redis://r"), ("amqp.exchanges", "orders")];
    let shipped = load(SHIPPED, &[], &sets).unwrap();
    let defaults = load("", &[], &sets).unwrap();
    assert_eq!(format!("{shipped:?}"), format!("{defaults:?}"));
    assert_eq!(shipped.delay.max.as_secs(), 3650 * 24 * 60 * 60);
    assert_eq!(shipped.intake.memory, 64 * 1024 * 1024);
    assert_eq!(shipped.release.rate_limit, None);
    assert_eq!(shipped.release.dead_max, std::num::NonZeroU32::new(100_000));
    assert_eq!(shipped.amqp.nodes[0].expose(), "amqp://guest:guest@127.0.0.1:5672/%2f");
    assert!(shipped.admin.token.is_none());
}

#[test]
fn every_default_but_the_two_that_must_be_named_passes() {
    let lines = refused("", &[], &[]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("redis.url = \"\" (default): must be named; write"), "{lines:?}");
    assert!(lines[1].starts_with("amqp.exchanges = [] (default): names no exchange"), "{lines:?}");
}

#[test]
fn known_part_stops_at_the_last_known_key() {
    let tree = Tree::of_defaults().unwrap();
    let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(tree.known_part(&path("amqp.exchanges.0")), "amqp.exchanges");
    assert_eq!(tree.known_part(&path("nothing")), "");
    assert!(matches!(tree.default_of("release.batch"), Some(Value::Num(..))));
}
