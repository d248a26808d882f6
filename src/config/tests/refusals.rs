//! What is refused, in which words, and that nothing is left out.

use super::*;

/// Key, value, what the one line must contain.
const VALUES: &[(&str, &str, &str)] = &[
    ("release.lease", "1s", "= \"1s\" (--set release.lease): must be at least 2s; write \"2s\""),
    ("release.lease", "30", "write \"30s\""),
    ("release.lease", "5M", "is not a duration; write \"5m\""),
    ("release.batch", "0", "= 0 (--set release.batch): must be 1 to 500; write 1"),
    ("release.batch", "501", "must be 1 to 500; write 500"),
    ("release.batch", "-1", "must be 1 to 500; write 1"),
    (
        "release.batch",
        "many",
        "= \"many\" (--set release.batch): expected a whole number, such as 200",
    ),
    ("release.batch", "1.5", "expected a whole number, such as 200"),
    ("release.max_in_flight", "199", "must be at least release.batch; write 200"),
    ("release.rate_limit", "-5", "must be 0 to 1000000; write 0"),
    ("release.dead_max", "-1", "must be 0 to 1000000; write 0"),
    ("release.on_unroutable", "Drop", "must be retry or drop; write \"drop\""),
    ("release.retry.first", "6m", "must be at most release.retry.max; write \"5m\""),
    ("release.retry.first", "0s", "must be above 0"),
    ("release.retry.attempts", "0", "must be 1 to 1000000; write 1"),
    ("intake.prefetch", "0", "must be 1 to 65535; write 1"),
    ("intake.prefetch", "65536", "must be 1 to 65535; write 65535"),
    ("intake.memory", "1000KB", "must be at least 1MiB; write \"1MiB\""),
    ("intake.memory", "64M", "is not a size; write \"64MiB\""),
    ("kafka.brokers", "kafka", "must be host:port, several separated by commas"),
    ("kafka.brokers", "a:1,SASL://b:2", "must be host:port"),
    ("kafka.group", "", "must not be empty; write \"xdelay\""),
    ("kafka.topics", "xdelay.orders", "begins with the reserved `xdelay.`"),
    ("kafka.topics", "orders/eu", "is no name of a topic"),
    ("kafka.topics", "orders,*", "write [\"*\"] alone"),
    ("kafka.topics", "orders,orders", "names \"orders\" twice"),
    ("kafka.properties.group.id", "mine", "cannot be set: write it as kafka.group"),
    ("kafka.properties.acks", "1", "cannot be set: a release counts when all replicas have it"),
    ("kafka.properties.sasl.password_file", "/nowhere/p", "cannot be read"),
    ("delay.max", "0s", "must be above 0 and at most 36500d; write \"3650d\""),
    ("delay.max", "36501d", "write \"36500d\""),
    ("delay.on_invalid", "forwrd", "must be bury or forward; write \"forward\""),
    ("redis.durability", "replica", "must be local or replicas or none; write \"replicas\""),
    ("redis.durability", "1", "write \"local\""),
    ("redis.buckets", "0", "must be 1 to 1024; write 1"),
    ("redis.buckets", "1025", "must be 1 to 1024; write 1024"),
    ("redis.namespace", "", "must be one or more of"),
    ("redis.namespace", "a{b}", "must be one or more of"),
    ("redis.url", "", "must be named; write \"redis://127.0.0.1:6379\""),
    ("redis.url", "127.0.0.1:6379", "is not a URL; write redis://127.0.0.1"),
    ("redis.url", "reddis://h", "must begin with redis://"),
    ("redis.url", "reddis://h", "write redis://"),
    ("redis.url", "redis://h1,h2", "names several hosts"),
    ("redis.url", "redis-sentinel://h1,h2", "names no master; write redis-sentinel://"),
    ("redis.url", "redis-sentinel://h1/mymaster/first", "has a path that is no database number"),
    ("redis.url", "redis-cluster://h1,", "names no host"),
    ("redis.url", "redis-cluster://h1/1", "names a database, and a cluster has one alone"),
    ("redis.url", "redis-clusters://h1", "write redis-cluster://"),
    ("redis.url", "redis://", "names no host"),
    ("redis.url", "redis://h:70000", "has a port that is not"),
    ("redis.url", "redis://h:0", "has a port that is not"),
    ("redis.url", "redis://h/first", "has a path that is no database number"),
    ("redis.url", "redis://:a/b@h", "write @ / ? # as %40"),
    ("redis.url", "redis://:a b@h", "holds blanks"),
    ("redis.url", "unix://run/r.sock", "names no socket; write unix:///run/redis.sock"),
    ("redis.url_file", "/nowhere", "redis.url is given too; remove one of the two"),
    ("redis.password_file", "/nowhere/pw", "cannot be read: No such file"),
    ("amqp.url", "http://h", "must begin with amqp:// or amqps://"),
    ("amqp.url", "amqp://h/", "names the empty vhost; write /%2f"),
    ("amqp.url", "amqp://[::1]:5672", "names an IPv6 address"),
    ("amqp.url", "amqp://h1,h2", "names several hosts"),
    ("amqp.url", "", "names no node"),
    ("amqp.url_file", "/nowhere/nodes", "cannot be read: No such file"),
    ("amqp.exchanges", "", "names no exchange, and kafka.topics no topic"),
    ("amqp.exchanges", "a,,b", "has an empty name: the default exchange cannot be captured"),
    ("amqp.exchanges", "xdelay.orders", "begins with the reserved `xdelay.`"),
    ("amqp.exchanges", "a,b,a", "names \"a\" twice"),
    ("amqp.exchanges", "a,a.rescue", "both need the exchange `xdelay.a.rescue`"),
    ("amqp.exchanges", "[broken", "expected a list, such as [\"orders\"]"),
    ("amqp.exchanges", "[1, 2]", "expected a string"),
    ("amqp.declare", "yes", "expected true or false, such as true"),
    ("amqp.front", "header", "must be headers or topic; write \"headers\""),
    ("admin.listen", "localhost:99", "must be an IP address and a port; write \"127.0.0.1:99\""),
    ("admin.listen", ":99", "write \"127.0.0.1:99\""),
    ("admin.listen", "here", "write \"127.0.0.1:7380\""),
    ("admin.listen", "0.0.0.0:7380", "needs admin.token_file"),
    ("admin.token_file", "/nowhere/token", "cannot be read: No such file"),
    ("release.bach", "1", "(--set): unknown key; the nearest is --set release.batch="),
];

#[test]
fn a_value_that_cannot_work_is_refused_in_these_words() {
    for (key, value, expected) in VALUES {
        let line = refused_set(key, value);
        assert!(line.starts_with(key) && line.contains(expected), "{line}\n  lacks {expected}");
    }
}

#[test]
fn the_bounds_themselves_are_accepted() {
    let longest = "n".repeat(241);
    for (key, value) in [
        ("release.lease", "2s"),
        ("release.batch", "500"),
        ("release.max_in_flight", "200"),
        ("release.retry.first", "5m"),
        ("intake.prefetch", "65535"),
        ("intake.memory", "1MiB"),
        ("delay.max", "36500d"),
        ("redis.buckets", "1024"),
        ("redis.min_replicas", "0"),
        ("redis.url", "redis+unix:///run/r.sock"),
        ("redis.url", "redis-cluster://u:p@h1:1,h2,[::1]:3"),
        ("redis.url", "rediss-cluster://h1/"),
        ("redis.url", "redis-sentinel://h1,h2:1/mymaster"),
        ("redis.url", "rediss-sentinel://:p@h1/mymaster/1"),
        ("amqp.exchanges", "amq.topic"),
        ("amqp.exchanges", &longest),
        ("admin.listen", "127.0.0.2:0"),
        ("admin.listen", "[::ffff:127.0.0.1]:1"),
    ] {
        assert!(load(LEAST, &[], &[(key, value)]).is_ok(), "{key} = {value}");
    }
}

#[test]
fn a_name_that_leaves_no_room_is_refused() {
    let line = refused_set("amqp.exchanges", &"n".repeat(242));
    assert!(line.contains("is 242 bytes long; xdelay can serve at most 241"), "{line}");
}

#[test]
fn replicas_need_a_count() {
    let lines =
        refused(LEAST, &[], &[("redis.durability", "replicas"), ("redis.min_replicas", "0")]);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("redis.min_replicas = 0"), "{lines:?}");
}

#[test]
fn every_problem_is_named_with_its_origin() {
    let file = "[redis]\nbuckets = 0\n[release]\nlease = 30\n\
                retry = { first = \"x\", maxx = \"1m\" }\n\
                [pigeons]\nloft = \"b\"\n";
    let env = [("XDELAY_INTAKE__PREFETCH", "0"), ("XDELAY_REDIS_URL", "redis://h")];
    let lines = refused(file, &env, &[("amqp.front", "tropic"), ("stoer.path", "p")]);
    for expected in [
        "x.toml:5): unknown key; the nearest is release.retry.max",
        "x.toml:6): this version has no such section; it has admin, amqp, delay,",
        "XDELAY_REDIS_URL (environment): unknown variable; write XDELAY_REDIS__URL",
        "stoer.path (--set): unknown section; write --set store.path=",
        "x.toml:4): has no unit; write \"30s\"",
        "x.toml:5): is not a duration; write \"30s\"",
        "redis.url = \"\" (default): must be named",
        "redis.buckets = 0 (",
        "x.toml:2): must be 1 to 1024",
        "intake.prefetch = 0 (environment variable XDELAY_INTAKE__PREFETCH): must be",
        "amqp.exchanges = [] (default): names no exchange",
        "amqp.front = \"tropic\" (--set amqp.front): must be headers or topic; write \"topic\"",
    ] {
        assert!(lines.iter().any(|line| line.contains(expected)), "{expected}\n{lines:#?}");
    }
    assert_eq!(lines.len(), 11, "{lines:#?}");
}

#[test]
fn messages_are_parked_in_one_place() {
    let path = ("store.path", "target/store");
    let line = refused_set(path.0, path.1);
    assert!(line.contains("redis.url is given too; remove one of the two"), "{line}");
    let sets = [path, ("amqp.exchanges", "orders")];
    let config = load("", &[], &sets).unwrap();
    assert!(matches!(config.store, super::super::Store::Embedded(_)));
}

#[test]
fn a_file_that_cannot_be_used_is_reported_alone() {
    let lines = refused("[redis]\nurl = \"a\"\nurl = \"b\"\n", &[], &[]);
    assert!(
        lines.len() == 1 && lines[0].contains("x.toml:3: is not valid TOML: duplicate"),
        "{lines:?}"
    );
    let file = Some("/nowhere/x.toml".into());
    let error = Config::load(Sources { file, ..Sources::default() }).unwrap_err();
    let expected =
        "the configuration was refused:\n  /nowhere/x.toml: cannot be read: No such file";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn a_file_of_a_secret_must_hold_one() {
    let files = Files::new();
    let empty = files.path("empty", "\n");
    let two = files.path("two", "redis://a\nredis://b\n");
    let token = files.path("token", "a b");
    for (sets, expected) in [
        ([("redis.password_file", &empty), ("redis.buckets", &"1".into())], "names an empty file"),
        ([("redis.url_file", &empty), ("redis.url", &String::new())], "holds no URL"),
        ([("redis.url_file", &two), ("redis.url", &String::new())], "holds several URLs"),
        ([("amqp.url_file", &empty), ("redis.buckets", &"1".into())], "names no node"),
        (
            [("admin.token_file", &token), ("redis.buckets", &"1".into())],
            "one line of visible ASCII",
        ),
        ([("amqp.password_file", &token), ("amqp.url", &"amqp://h".into())], "needs a user"),
    ] {
        let sets: Vec<_> = sets.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let lines = refused(LEAST, &[], &sets);
        assert!(lines.len() == 1 && lines[0].contains(expected), "{expected}: {lines:?}");
    }
}

#[test]
fn text_that_is_not_utf8_is_not_altered() {
    let lines = refused(LEAST, &[("XDELAY_REDIS__NAMESPACE", "a\u{FFFD}")], &[]);
    assert!(lines[0].contains("is not UTF-8"), "{lines:?}");
}
