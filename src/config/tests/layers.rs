//! Which layer wins, and how text becomes a value.

use std::path::Path;
use std::time::Duration;

use super::super::layers::File;
use super::*;

#[test]
fn a_later_layer_wins() {
    let file =
        format!("{LEAST}[release]\nbatch = 2\nlease = \"20s\"\n[release.retry]\nfirst = \"2s\"\n");
    let env = [("XDELAY_RELEASE__BATCH", "3"), ("XDELAY_RELEASE__RETRY__FIRST", "3s")];
    let release = load(&file, &[], &[]).unwrap().release;
    assert_eq!((release.batch, release.retry.first), (2, Duration::from_secs(2)));
    let release = load(&file, &env, &[]).unwrap().release;
    assert_eq!((release.batch, release.retry.first), (3, Duration::from_secs(3)));
    let sets = [("release.batch", "4"), ("release.batch", "5")];
    let release = load(&file, &env, &sets).unwrap().release;
    assert_eq!((release.batch, release.lease), (5, Duration::from_secs(20)));
    assert_eq!(release.retry.max, Duration::from_secs(300), "the rest of the table stays");
}

#[test]
fn a_list_may_be_written_in_three_ways() {
    for (text, expected) in [
        ("[\"orders\",\"payments\"]", vec!["orders", "payments"]),
        ("orders,payments", vec!["orders", "payments"]),
        ("orders, payments", vec!["orders", "payments"]),
        ("orders", vec!["orders"]),
        ("\"orders\"", vec!["orders"]),
        ("123", vec!["123"]),
        ("[orders]", vec!["orders"]),
    ] {
        let env = [("XDELAY_AMQP__EXCHANGES", text)];
        assert_eq!(load(LEAST, &env, &[]).unwrap().amqp.exchanges, expected, "{text}");
        let sets = [("amqp.exchanges", text)];
        assert_eq!(load(LEAST, &[], &sets).unwrap().amqp.exchanges, expected, "{text}");
    }
}

#[test]
fn several_nodes_are_a_list_or_separated_by_commas() {
    let expected = ["amqp://u:a,b@h1", "amqps://h2:5671/v"];
    for text in
        ["[\"amqp://u:a,b@h1\", \"amqps://h2:5671/v\"]", "amqp://u:a,b@h1, amqps://h2:5671/v"]
    {
        let nodes = load(LEAST, &[("XDELAY_AMQP__URL", text)], &[]).unwrap().amqp.nodes;
        assert_eq!(nodes.iter().map(|node| node.expose()).collect::<Vec<_>>(), expected);
    }
    let file =
        LEAST.replace("[amqp]", "[amqp]\nurl = [\"amqp://u:a,b@h1\", \"amqps://h2:5671/v\"]");
    assert_eq!(load(&file, &[], &[]).unwrap().amqp.nodes.len(), 2);
}

#[test]
fn the_kind_of_a_text_follows_from_its_key() {
    let env = [
        ("XDELAY_REDIS__NAMESPACE", "123"),
        ("XDELAY_AMQP__DECLARE", "false"),
        ("XDELAY_INTAKE__MEMORY", "67108864"),
        ("XDELAY_DELAY__MAX", "\"90d\""),
        ("XDELAY_ADMIN__LISTEN", "[::1]:7380"),
    ];
    let config = load(LEAST, &env, &[]).unwrap();
    assert_eq!(redis(&config).namespace, "123");
    assert!(!config.amqp.declare);
    assert_eq!(config.intake.memory, 64 << 20);
    assert_eq!(config.delay.max, Duration::from_secs(90 * 86_400));
    assert!(config.admin.listen.is_ipv6());
}

#[test]
fn the_default_file_is_read_only_when_it_is_there() {
    let files = Files::new();
    let present = files.write("xdelay.toml", LEAST);
    let absent = Path::new("/nowhere/xdelay.toml");
    assert!(File::open(None, &present).unwrap().is_some());
    assert!(File::open(None, absent).unwrap().is_none());
    let error = File::open(Some(absent.to_owned()), &present).err().unwrap();
    assert!(error.to_string().contains("/nowhere/xdelay.toml: cannot be read: No such"), "{error}");
}

#[test]
fn secrets_come_from_files() {
    let files = Files::new();
    let env = [
        ("XDELAY_REDIS__PASSWORD_FILE", files.path("redis", "p@ss/w rd\n")),
        (
            "XDELAY_AMQP__URL_FILE",
            files.path("nodes", "# both\namqp://u@h1/%2f\n\namqp://u:old@h2\n"),
        ),
        ("XDELAY_AMQP__PASSWORD_FILE", files.path("amqp", "secret\r\n")),
        ("XDELAY_ADMIN__TOKEN_FILE", files.path("token", "abc\n")),
        ("XDELAY_ADMIN__LISTEN", "0.0.0.0:7380".to_owned()),
    ];
    let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let config = load(LEAST, &env, &[]).unwrap();
    assert_eq!(redis(&config).url.expose(), "redis://:p%40ss%2Fw%20rd@127.0.0.1");
    let nodes: Vec<_> = config.amqp.nodes.iter().map(|node| node.expose()).collect();
    assert_eq!(nodes, ["amqp://u:secret@h1/%2f", "amqp://u:secret@h2"]);
    assert_eq!(config.admin.token.unwrap().expose(), "abc");
}

#[test]
fn a_socket_takes_its_password_in_the_query() {
    let files = Files::new();
    let path = files.path("redis", "p&w");
    let sets = [("redis.url", "unix:///run/r.sock?db=1&pass=old"), ("redis.password_file", &path)];
    let url = redis(&load(LEAST, &[], &sets).unwrap()).url.clone();
    assert_eq!(url.expose(), "unix:///run/r.sock?db=1&pass=p%26w");
    assert_eq!(url.to_string(), "unix:///run/r.sock?db=1&pass=***");
}

#[test]
fn the_url_of_redis_comes_from_a_file() {
    let files = Files::new();
    let path = files.path("redis", "rediss://u:p@host:6380/1\n");
    let env = [("XDELAY_REDIS__URL", ""), ("XDELAY_REDIS__URL_FILE", path.as_str())];
    let url = redis(&load(LEAST, &env, &[]).unwrap()).url.clone();
    assert_eq!((url.scheme(), url.expose()), ("rediss", "rediss://u:p@host:6380/1".to_owned()));
}

#[test]
fn an_assignment_is_split_at_the_first_equals_sign() {
    let split = super::super::assignment("redis.url=unix:///r?db=1").unwrap();
    assert_eq!(split, ("redis.url".to_owned(), "unix:///r?db=1".to_owned()));
    let error = super::super::assignment("hunter2").unwrap_err();
    assert!(!error.contains("hunter2"));
}
