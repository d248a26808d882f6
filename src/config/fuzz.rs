//! The reading of the config, open to `fuzz/`.

use super::{Config, Sources, assignment};

/// A password that must never be seen again.
const PLANTED: &str = "Pl4nted-Passw0rd";

/// Reads a config from any text: a line `NAME=value` that begins with `XDELAY_` is a variable, one
/// that begins with `--set` a flag, and all others are the file.
///
/// # Panics
/// When a refusal says nothing, or too much: that is what is looked for.
pub fn load(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    if text.contains("/dev/") || text.contains("/proc/") {
        return;
    }
    let mut sources = Sources::default();
    let mut toml = String::new();
    for line in text.lines() {
        if let Some(flag) = line.strip_prefix("--set") {
            sources.overrides.extend(assignment(flag));
        } else if let Some((name, value)) =
            line.split_once('=').filter(|it| it.0.starts_with("XDELAY_"))
        {
            sources.env.insert(name.to_owned(), value.to_owned());
        } else {
            toml.push_str(line);
            toml.push('\n');
        }
    }
    let url = format!("amqp://user:{PLANTED}@localhost");
    sources.env.insert("XDELAY_AMQP__URL".to_owned(), url);
    let file = std::env::temp_dir().join(format!("xdelay-fuzz-{}.toml", std::process::id()));
    if std::fs::write(&file, toml).is_err() {
        return;
    }
    sources.file = Some(file.clone());
    let loaded = Config::load(sources);
    let _ = std::fs::remove_file(file);
    match loaded {
        Ok(config) => assert!(!format!("{config:?}").contains(PLANTED), "a password is printed"),
        Err(refusal) => {
            assert!(!refusal.problems().is_empty(), "a refusal says why");
            for problem in refusal.problems().iter().map(ToString::to_string) {
                assert!(!problem.contains('\n'), "a problem is one line: {problem}");
                assert!(!problem.contains(PLANTED), "a password is printed: {problem}");
            }
        }
    }
}
