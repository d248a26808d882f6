//! Chromium without a screen, as one person uses it: looks, clicks, types.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::http::Method;
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use crate::support::{eventually, eventually_or, free_port};

/// What the browser is told of its screen.
#[derive(Clone, Copy, PartialEq)]
pub enum Screen {
    Desktop,
    DesktopInTheDark,
    Phone,
    PhoneInTheDark,
}

/// A browser of one test; ended when dropped.
pub struct Browser {
    client: Client,
    session: String,
    port: u16,
    driver: Child,
    _profile: TempDir,
}

impl Browser {
    pub async fn open(screen: Screen) -> Self {
        let port = free_port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts; dev/install has it");
        let profile = tempfile::tempdir().expect("a directory");
        let connect = || async {
            let mut builder = ClientBuilder::new(connector());
            builder.capabilities(capabilities(screen, &profile));
            builder.connect(&format!("http://127.0.0.1:{port}")).await.ok()
        };
        let client = eventually("Chromium starts", connect).await;
        let session = client.session_id().await.expect("an answer").expect("a session");
        Self { client, session, port, driver, _profile: profile }
    }

    pub async fn go(&self, url: &str) {
        self.client.goto(url).await.expect("it goes there");
    }

    /// Goes to another view of the page that is open.
    pub async fn turn_to(&self, view: &str) {
        self.run("location.hash = `/${arguments[0]}`", vec![json!(view)]).await;
    }

    /// Runs a script in the page, with these as `arguments`.
    pub async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute(script, arguments).await.expect("the script runs")
    }

    /// Waits until something of this selector can be seen that says `text`.
    pub async fn sees(&self, selector: &str, text: &str) {
        const LOOK: &str = "return [...document.querySelectorAll(arguments[0])].some((it) =>
            it.checkVisibility() && it.textContent.includes(arguments[1]))";
        let what = format!("`{selector}` says `{text}`");
        let look = || async {
            let seen = self.run(LOOK, vec![json!(selector), json!(text)]).await;
            (seen == true).then_some(())
        };
        eventually(&what, look).await;
    }

    /// Waits until a script answers true.
    pub async fn holds(&self, what: &str, script: &str) {
        let script = format!("return {script}");
        eventually(what, || async { (self.run(&script, vec![]).await == true).then_some(()) })
            .await;
    }

    /// Clicks on what has this selector, once it can be clicked.
    pub async fn click(&self, selector: &str) {
        let click =
            || async { self.client.find(Locator::Css(selector)).await.ok()?.click().await.ok() };
        eventually(&format!("`{selector}` can be clicked"), click).await;
    }

    /// Clicks on the button or link that says exactly this.
    pub async fn press(&self, text: &str) {
        let path = format!(
            "//*[self::button or self::a or self::summary][normalize-space()='{text}'][not(@hidden)]"
        );
        let click = || async {
            let found = self.client.find_all(Locator::XPath(&path)).await.ok()?;
            found.last()?.clone().click().await.ok()
        };
        let why = || format!("there is none that says `{text}`");
        eventually_or(&format!("`{text}` can be pressed"), click, why).await;
    }

    /// Types into the field of this selector, in place of what it held.
    pub async fn fill(&self, selector: &str, text: &str) {
        let type_it = || async {
            let field = self.client.find(Locator::Css(selector)).await.ok()?;
            field.clear().await.ok()?;
            field.send_keys(text).await.ok()
        };
        eventually(&format!("`{selector}` can be typed into"), type_it).await;
    }

    /// Strikes a key, wherever the focus is.
    pub async fn strike(&self, key: char) {
        let keys = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value: key })
            .then(KeyAction::Up { value: key });
        self.client.perform_actions(keys).await.expect("a key");
    }

    /// What has the focus, in words.
    pub async fn focused(&self) -> String {
        const WHAT: &str = "const it = document.activeElement;
            if (it.matches('body, main')) return it.tagName;
            return `${it.tagName} ${it.getAttribute('aria-label') ?? it.textContent}`.trim()";
        self.run(WHAT, vec![]).await.as_str().unwrap_or_default().to_owned()
    }

    /// Tabs until the focus is on what says this.
    pub async fn tab_to(&self, text: &str) {
        const TAB: char = '\u{e004}';
        const STEPS: usize = 80;
        let mut passed = Vec::new();
        for _ in 0..STEPS {
            self.strike(TAB).await;
            let focused = self.focused().await;
            if focused.contains(text) {
                return;
            }
            passed.push(focused);
        }
        panic!("no Tab reaches `{text}`, only {passed:#?}");
    }

    /// Keeps what is seen, for people to look at.
    pub async fn keep(&self, name: &str) {
        let directory = target().join("screenshots");
        std::fs::create_dir_all(&directory).expect("a directory");
        let png = self.client.screenshot().await.expect("a screenshot");
        std::fs::write(directory.join(format!("{name}.png")), png).expect("kept");
    }

    /// Lets axe-core look for what people with disabilities would stumble over.
    pub async fn is_accessible(&self) {
        const LOOK: &str = "const done = arguments[arguments.length - 1];
            axe.run(document, { resultTypes: ['violations'] }).then((seen) => done(seen.violations.map(
                (it) => `${it.id}: ${it.help}: ${it.nodes.map((node) => node.html + ' ' + node.failureSummary).join(' | ')}`)))";
        let axe = target().join("axe/axe.min.js");
        let axe = std::fs::read_to_string(axe).expect("axe-core; dev/install has it");
        self.run(&format!("{axe}; return null"), vec![]).await;
        let found = self.client.execute_async(LOOK, vec![]).await.expect("axe runs");
        assert_eq!(found, json!([]), "axe found something");
    }

    /// Asserts that the console was told of no error but those that say one of `expected`.
    pub async fn has_no_complaint_but(&self, expected: &[&str]) {
        let log = ToDriver { path: "se/log", body: json!({"type": "browser"}) };
        let log = self.client.issue_cmd(log).await.expect("a log");
        for entry in log.as_array().expect("a list") {
            let text = entry["message"].as_str().unwrap_or_default();
            let fine = entry["level"] != "SEVERE" || expected.iter().any(|it| text.contains(it));
            assert!(fine, "the console says: {text}");
        }
    }

    pub async fn has_no_complaint(&self) {
        self.has_no_complaint_but(&[]).await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends Chromium too; without it the driver would leave it behind.
        if let Ok(mut driver) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = driver.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = write!(
                driver,
                "DELETE /session/{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                self.session
            );
            let _ = driver.read_to_end(&mut Vec::new());
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn connector() -> hyper_util::client::legacy::connect::HttpConnector {
    hyper_util::client::legacy::connect::HttpConnector::new()
}

fn target() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target")
}

fn capabilities(screen: Screen, profile: &TempDir) -> serde_json::Map<String, Value> {
    let dark = matches!(screen, Screen::DesktopInTheDark | Screen::PhoneInTheDark);
    let mut options = json!({"args": [
        "--headless=new",
        // CI and containers run as root, where Chromium's sandbox cannot.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--window-size=1440,1080",
        format!("--user-data-dir={}", profile.path().display()),
        format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }),
    ]});
    if matches!(screen, Screen::Phone | Screen::PhoneInTheDark) {
        let phone = json!({"width": 390, "height": 844, "pixelRatio": 2, "mobile": true});
        options["mobileEmulation"] = json!({"deviceMetrics": phone});
    }
    let wanted = json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
    wanted.as_object().expect("an object").clone()
}

/// What the driver can do beyond the standard.
#[derive(Debug)]
struct ToDriver {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for ToDriver {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
