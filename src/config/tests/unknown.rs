//! Keys and variables that do not exist, and those that are none of ours.

use super::*;

#[test]
fn an_unknown_key_names_the_one_that_was_meant() {
    for (file, expected) in [
        ("url = \"x\"", "write amqp.url or redis.url"),
        ("[rediss]\nurl = \"x\"", "unknown section; write redis"),
        ("[intake]\nbatch = 1", "the nearest is release.batch"),
        ("[amqp]\nexchange = 1", "the nearest is amqp.exchanges"),
        ("[delay]\nzzz = 1", "[delay] has max, on_invalid"),
        ("release = 5", "expected a section"),
        ("\"redis.url\" = 5", "unknown key"),
        ("[release]\nbatch = { x = 1 }", "expected a whole number"),
        ("[release]\nretry = 5", "expected a section"),
    ] {
        let lines = refused(file, &[], &[("redis.url", "redis://r"), ("amqp.exchanges", "o")]);
        assert!(lines.len() == 1 && lines[0].contains(expected), "{file}: {lines:?}");
    }
    for (name, expected) in [
        ("XDELAY_RELEASE__BACH", "the nearest is XDELAY_RELEASE__BATCH"),
        ("XDELAY_RELESE__BATCH", "unknown section; write XDELAY_RELEASE__BATCH"),
        ("XDELAY_RETRY__FIRST", "write XDELAY_RELEASE__RETRY__FIRST"),
        ("XDELAY_RELEASE__RETRY", "is a section; write one of XDELAY_RELEASE__RETRY__ATTEMPTS"),
        ("XDELAY_RELEASE_RETRY_FIRST", "write XDELAY_RELEASE__RETRY__FIRST"),
        ("XDELAY_REDIS_PASSWORD_FILE", "write XDELAY_REDIS__PASSWORD_FILE"),
        ("XDELAY_LOG", "the form is XDELAY_<SECTION>__<KEY>"),
        ("XDELAY_QQ", "the form is XDELAY_<SECTION>__<KEY>"),
        ("XDELAY_WEATHER__CLOUDS", "this version has no such section"),
    ] {
        let lines = refused(LEAST, &[(name, "x")], &[]);
        assert!(lines.len() == 1 && lines[0].contains(expected), "{name}: {lines:?}");
    }
}

#[test]
fn the_variables_of_kubernetes_are_passed_over() {
    let env = [
        ("XDELAY_SERVICE_HOST", "10.0.0.1"),
        ("XDELAY_SERVICE_PORT", "80"),
        ("XDELAY_SERVICE_PORT_ADMIN", "80"),
        ("XDELAY_PORT", "tcp://10.0.0.1:80"),
        ("XDELAY_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("XDELAY_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("XDELAY_REDIS_SERVICE_HOST", "10.0.0.1"),
        ("XDELAY_REDIS_SERVICE_PORT_REDIS", "6379"),
        ("XDELAY_REDIS_PORT", "tcp://10.0.0.1:6379"),
        ("XDELAY_REDIS_PORT_6379_TCP_PROTO", "tcp"),
        ("PATH", "/bin"),
    ];
    assert!(load(LEAST, &env, &[]).is_ok());
    let lines = refused(LEAST, &[("XDELAY_ADMIN_PORT", "80")], &[]);
    assert!(lines[0].starts_with("XDELAY_ADMIN_PORT"), "{lines:?}");
}
