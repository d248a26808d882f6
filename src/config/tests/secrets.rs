//! Planted passwords must not come out again, whatever is printed and whatever is wrong.

use super::super::Url;
use super::*;

/// Every planted password contains this.
const PLANTED: &str = "hunter2";

fn assert_clean(text: &str) {
    assert!(!text.contains(PLANTED), "{text}");
}

#[test]
fn a_whole_configuration_prints_none() {
    let files = Files::new();
    let file = files.path("secret", "hunter2-file");
    let sets = [
        ("redis.url", "redis://hunter2-user:hunter2@h:6379/1?protocol=resp3&x=hunter2#hunter2"),
        ("amqp.url", "[\"amqp://hunter2-user:hunter2@h1/v\",\"amqps://u:hunter2@h2?heartbeat=5\"]"),
        ("admin.token_file", file.as_str()),
    ];
    let config = load(LEAST, &[], &sets).unwrap();
    assert_clean(&format!("{config:?} {config:#?}"));
    let token = config.admin.token.clone().unwrap();
    assert_clean(&format!("{token} {token:?} {}", serde_json::to_string(&token).unwrap()));
    assert_eq!(token.expose(), "hunter2-file");
    assert_clean(&serde_json::to_string(&redis(&config).url).unwrap());
    assert_eq!(redis(&config).url.to_string(), "redis://h:6379/1?protocol=resp3&x=***#***");
    assert_eq!(config.amqp.nodes[1].to_string(), "amqps://h2?heartbeat=5");
    assert_eq!(redis(&config).url.expose(), sets[0].1);
}

#[test]
fn no_refusal_repeats_one() {
    let files = Files::new();
    let url = files.path("url", "redis://:hunter2\n");
    let path = files.path("password", "hunter2");
    for (key, value) in [
        ("redis.url", "hunter2"),
        ("redis.url", "hunter2://h"),
        ("redis.url", "redis://:hunter2"),
        ("redis.url", "redis://u:a/hunter2@h"),
        ("redis.url", "redis://u:a?hunter2@h"),
        ("redis.url", "redis://:hunter 2@h"),
        ("redis.url", "redis://:hunter2@h:port"),
        ("redis.url", "redis://:hunter2@h/db"),
        ("redis.url", "redis-cluster://:hunter2@h/db"),
        ("redis.url", "unix://x?pass=hunter2"),
        ("redis.password", "hunter2"),
        ("redis.password_file", "hunter2"),
        ("redis.namespace", "redis://:hunter2@h"),
        ("amqp.url", "amqp://u:hunter2@h/"),
        ("amqp.url", "[\"amqp://u:hunter2@h\", \"http://u:hunter2@h\"]"),
        ("amqp.url", "[\"amqp://u:hunter2@h\", 5]"),
        ("amqp.exchanges", "amqp://u:hunter2@h,amqp://u:hunter2@h"),
        ("amqp.password", "hunter2"),
        ("admin.token", "hunter2"),
        ("admin.listen", "http://hunter2@h"),
        ("release.batch", "redis://:hunter2@h"),
    ] {
        let error = load(LEAST, &[], &[(key, value)]);
        let text = error
            .map(|config| format!("accepted: {config:?}"))
            .unwrap_or_else(|error| format!("{error} {error:?}"));
        assert_clean(&text);
        let name = format!("XDELAY_{}", key.replace('.', "__").to_uppercase());
        if let Err(error) = load(LEAST, &[(&name, value)], &[]) {
            assert_clean(&format!("{error} {error:?}"));
        }
    }
    let sets =
        [("redis.url_file", url.as_str()), ("redis.url", ""), ("amqp.url_file", path.as_str())];
    assert_clean(&refused(LEAST, &[], &sets).join(" "));
}

#[test]
fn a_file_that_does_not_parse_shows_none_of_its_lines() {
    for text in [
        "[redis]\nurl = redis://:hunter2@h\n",
        "[redis]\nurl = \"redis://:hunter2@h\n",
        "[redis]\nurl = \"redis://:\\hunter2@h\"\n",
        "[redis]\nurl = 'a' 'hunter2'\n",
        "[redis]\nurl = hunter2\n",
        "redis = \"redis://:hunter2@h\"\n",
        "[redis]\nurl = [\"redis://:hunter2@h\"]\n",
        "[redis]\nurl = { password = \"hunter2\" }\n",
        "[amqp]\nurl = { password = \"hunter2\" }\n",
        "[redis]\npassword = \"hunter2\"\n",
        "[kafka]\npassword = \"hunter2\"\n",
    ] {
        assert_clean(&refused(text, &[], &[]).join(" "));
    }
}

#[test]
fn what_is_exposed_is_what_was_written() {
    for text in [
        "redis://h",
        "redis://:p@h:1/2?protocol=resp3#insecure",
        "amqp://u:p%40@h/%2f",
        "amqp://u@h",
        "redis://[::1]:6379/0",
        "redis://u:p@with@h",
        "unix:///run/a@b.sock?db=1",
    ] {
        assert_eq!(Url::parse(text).unwrap().expose(), text);
    }
    assert_eq!(Url::parse("redis://u:p@with@h").unwrap().to_string(), "redis://h");
}

#[test]
fn a_password_from_a_file_arrives_unchanged_at_the_broker() {
    let password = "p@s/s:w%ö rd&=+#?";
    let files = Files::new();
    let path = files.path("password", password);
    let sets = [("amqp.url", "amqp://u@h:1/%2f"), ("amqp.password_file", &path)];
    let url = load(LEAST, &[], &sets).unwrap().amqp.nodes.remove(0).expose();
    let parsed: amq_protocol::uri::AMQPUri = url.parse().unwrap();
    assert_eq!(parsed.authority.userinfo.password, password);
    assert_eq!((parsed.authority.host.as_str(), parsed.vhost.as_str()), ("h", "/"));
}
