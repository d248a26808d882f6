//! The web page, in a real Chromium without a screen. What it looked like is kept under
//! `target/screenshots`.

mod browser;
mod house;

use serde_json::json;

use self::browser::{Browser, Screen};
use self::house::House;
use super::support::rabbit::Rabbit;
use super::support::sidecar::Sidecar;
use super::support::{eventually, eventually_is, unique};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const ENTER: char = '\u{e007}';
const ARROW_RIGHT: char = '\u{e014}';

/// What many jobs heap up at one instant, some days from now, among a little of everything.
fn heap_up(house: &House) {
    let (_, stats) = house.send("GET", "/v1/stats", None);
    let now = stats["now"].as_u64().expect("a time");
    let midnight = (now / DAY_MS + 2) * DAY_MS;
    for n in 0..60 {
        let sketch = json!({"id": format!("report-{n}"), "key": "eu.de", "deliver_at": midnight});
        house.park_as(sketch);
    }
    for n in 0..20 {
        let due = midnight + (2 + n * 7) * HOUR_MS;
        house.park_as(json!({"id": format!("order-{n}"), "key": "eu.de", "deliver_at": due}));
    }
}

#[tokio::test]
async fn it_shows_what_waits_and_where_it_heaps_up() {
    let house = House::open().await;
    heap_up(&house);
    for n in 0..20 {
        house.park(&format!("quick-{n}"), n);
    }
    eventually_is(80, || async { house.count("parked") }).await;
    let browser = Browser::open(Screen::Desktop).await;
    browser.go(&house.page("")).await;
    browser.sees("#live-word", "live").await;
    browser.sees(".events tr", "quick-").await;
    browser.sees(".sites tbody", &house.orders).await;
    browser.sees("[data-label=Parked]", "80").await;
    browser.click("#span-week").await;
    browser.sees(".sum", "due within the next week").await;
    browser.keep("overview").await;
    browser.click(".as-table summary").await;
    browser.sees(".as-table tr.heap", "60").await;
    browser.holds("the banner is hidden", "document.getElementById('banner').hidden").await;
    browser.is_accessible().await;

    // The highest bar leads to what is in it, by a click as by keys.
    let on_the_heap = "const over = document.querySelector('.bars .u-over').getBoundingClientRect();
        const from = new URLSearchParams(document.querySelector('tr.heap a').hash.split('?')[1]).get('due_from');
        const hour = 3600000;
        const slot = (from - Math.floor(Date.now() / hour) * hour) / hour;
        const at = { clientX: over.left + over.width * (slot + 0.5) / 168, clientY: over.top + 50, bubbles: true };
        document.querySelector('.bars .u-over').dispatchEvent(new MouseEvent('click', at))";
    browser.run(on_the_heap, vec![]).await;
    browser.sees("td.name", "report-0").await;
    browser.turn_to("?span=week").await;
    browser.sees(".sum", "due within the next week").await;
    browser.run("document.querySelector('.bars').focus()", vec![]).await;
    let at_the_heap = || async {
        let read = "return document.querySelector('.bars').getAttribute('aria-valuetext')";
        let told = browser.run(read, vec![]).await;
        if told.as_str().is_some_and(|it| it.starts_with("60 messages")) {
            return Some(());
        }
        browser.strike(ARROW_RIGHT).await;
        None
    };
    eventually("the heap is reached by arrow keys", at_the_heap).await;
    browser.strike(ENTER).await;
    browser.sees("td.name", "report-0").await;
    browser.sees(".pager", "50 shown").await;
    browser.press("Next page").await;
    browser.sees(".pager", "10 shown").await;
    browser.holds("the address holds the range", "location.hash.includes('due_from=')").await;
    browser.has_no_complaint().await;
}

#[tokio::test]
async fn messages_are_found_changed_and_followed_as_they_go() {
    let house = House::open().await;
    let kept = house.park("order-1", HOUR_MS);
    let ended = house.park("order-2", HOUR_MS);
    let hostile = "<img src=x onerror=\"document.title='owned'\">";
    house.park_as(json!({"id": hostile, "key": hostile, "delay_ms": HOUR_MS, "body": hostile,
        "headers": {"x": hostile}}));
    let browser = Browser::open(Screen::Desktop).await;
    browser.go(&house.page("messages")).await;
    browser.sees("td.name", "order-1").await;
    browser.sees("td.name", "onerror").await;

    // What is filtered for stands in the address, and nothing else in the list.
    browser.fill("#filter-id", "order-2\n").await;
    browser
        .holds("only that one is listed", "document.querySelectorAll('td.name').length === 1")
        .await;
    browser.holds("the address says so", "location.hash === '#/messages?id=order-2'").await;

    browser.press("order-2").await;
    browser.sees("pre", "\"order\": 17").await;
    browser.is_accessible().await;
    browser.keep("message").await;
    browser.press("Cancel").await;
    browser.press("Cancel it").await;
    browser.sees(".notice", "order-2: cancelled: it will not be delivered").await;
    eventually_is("gone".to_owned(), || async { house.state_of(&ended) }).await;
    browser.sees(".ended", "It was cancelled").await;

    browser.turn_to("messages").await;
    browser.fill("#search", "order-1\n").await;
    browser.sees("h1", "order-1").await;
    browser.press("Reschedule").await;
    browser.fill("dialog input[type=number]", "3").await;
    browser.run("const unit = document.querySelector('dialog select'); unit.value = 86400000; unit.dispatchEvent(new Event('input', { bubbles: true }))", vec![]).await;
    browser.sees("dialog .told", "That is in 3 d").await;
    browser.keep("reschedule").await;
    browser.press("Reschedule it").await;
    browser.sees(".facts", "in 2 d 23 h").await;
    assert_eq!(house.state_of(&kept), "parked");

    // A list that is open says what has gone, without being asked.
    browser.turn_to("messages").await;
    browser.sees("td.name", "order-1").await;
    let (status, _) = house.send("POST", &format!("/v1/messages/{kept}/release"), None);
    assert_eq!(status, 200);
    browser.sees("tr.gone", "released").await;
    browser.turn_to("history").await;
    browser.sees(".events tr", "late").await;
    browser.sees(".events tr", "rescheduled").await;
    browser.keep("history").await;
    browser.holds("nothing became markup", "document.title === 'xdelay'").await;
    browser.has_no_complaint().await;
}

#[tokio::test]
async fn a_message_is_parked_by_hand_and_many_are_steered_at_once() {
    let house = House::open().await;
    for n in 0..30 {
        house.park(&format!("bulk-{n}"), HOUR_MS);
    }
    let browser = Browser::open(Screen::Desktop).await;
    browser.go(&house.page("")).await;
    browser.press("Park a message").await;
    browser.fill("dialog textarea", "by hand").await;
    browser.is_accessible().await;
    browser.keep("park").await;
    browser.press("Park it").await;
    browser.sees(".notice", "Parked, due at").await;
    browser.press("Show it").await;
    browser.sees("pre", "by hand").await;

    browser.turn_to("messages?id=bulk-").await;
    browser.press("Bury…").await;
    browser.sees("dialog .counted", "30 messages match").await;
    browser.fill("dialog input", "wrong prices").await;
    browser.keep("bulk").await;
    browser.press("Bury 30 messages").await;
    browser.sees("dialog .results", "30 buried").await;
    browser.press("Close").await;
    assert_eq!((house.count("dead"), house.count("parked")), (30, 1));

    browser.press("Dead 30").await;
    browser.sees("td.reason", "wrong prices").await;
    browser.is_accessible().await;
    browser.keep("dead").await;
    browser.click("button[aria-label='Revive bulk-3']").await;
    browser.press("Revive it").await;
    browser.sees(".notice", "bulk-3: revived").await;
    eventually_is((29, 2), || async { (house.count("dead"), house.count("parked")) }).await;
    browser.press("Cancel…").await;
    browser.press("Cancel 29 messages").await;
    browser.sees("dialog .results", "29 cancelled").await;
    assert_eq!(house.count("dead"), 0);
    browser.has_no_complaint().await;
}

#[tokio::test]
async fn a_token_is_asked_for_kept_in_the_tab_and_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let [write, read] = [("write", "may-change"), ("read", "may-look")].map(|(name, token)| {
        let path = directory.path().join(name);
        std::fs::write(&path, token).expect("written");
        path.to_string_lossy().into_owned()
    });
    let house = House::open_with(Some("may-change"), |sidecar| {
        sidecar.set("ADMIN__TOKEN_FILE", &write);
        sidecar.set("ADMIN__READ_TOKEN_FILE", &read);
    });
    let house = house.await;
    let uid = house.park("order-1", HOUR_MS);
    let browser = Browser::open(Screen::Desktop).await;
    browser.go(&house.page(&format!("message/{uid}"))).await;
    browser.sees("dialog h2", "asks for a token").await;
    browser.is_accessible().await;
    browser.keep("token").await;
    browser.has_no_complaint().await;
    browser.fill("dialog input", "guessed").await;
    browser.press("Enter").await;
    browser.sees("dialog .trouble", "does not know this token").await;

    browser.fill("dialog input", "may-look").await;
    browser.press("Enter").await;
    browser.sees("h1", "order-1").await;
    browser.sees("#read-only", "read only").await;
    browser.sees("#live-word", "live").await;
    let changes = "document.querySelectorAll('.steps button, #park:not([hidden])').length === 0";
    browser.holds("nothing can be changed", changes).await;

    browser.press("Forget token").await;
    browser.fill("dialog input", "may-change").await;
    browser.press("Enter").await;
    browser.press("Release now").await;
    browser.press("Release it now").await;
    browser.sees(".ended", "It was released").await;
    let kept =
        "localStorage.length === 0 && sessionStorage.getItem('xdelay.token') === 'may-change'";
    browser.holds("the token is in this tab only", kept).await;
    browser.holds("and not in the address", "!location.href.includes('may-')").await;
    browser.has_no_complaint_but(&["401", "410"]).await;
}

#[tokio::test]
async fn what_is_not_well_is_said_with_what_mends_it() {
    let rabbit = Rabbit::connect().await;
    let missing = unique("missing");
    let mut sidecar = Sidecar::new(&[&missing]);
    sidecar.spawn();
    sidecar.unready_saying(&missing).await;
    let browser = Browser::open(Screen::Desktop).await;
    browser.go(&format!("http://{}/", sidecar.address())).await;
    browser.sees("#banner", "Degraded").await;
    browser.sees("#banner [data-state=FAILED]", &missing).await;
    browser.is_accessible().await;
    browser.keep("degraded").await;
    rabbit.declare_exchange(&missing).await;
    browser
        .holds("the banner goes when it is mended", "document.getElementById('banner').hidden")
        .await;

    sidecar.kill();
    browser.sees("#banner", "No connection to xdelay").await;
    browser.sees("#live-word", "reconnecting").await;
    sidecar.start().await;
    browser.sees("#live-word", "live").await;
    browser.has_no_complaint_but(&["503", "ERR_", "net::"]).await;
}

#[tokio::test]
async fn it_fits_a_phone_and_the_dark() {
    let house = House::open().await;
    heap_up(&house);
    let uid = house.park("order-of-a-long-name-that-does-not-fit-a-small-screen", 2 * HOUR_MS);
    let (status, _) = house.send("POST", &format!("/v1/messages/{uid}/bury"), Some(&json!({})));
    assert_eq!(status, 200);
    for (screen, name) in [(Screen::Phone, "phone"), (Screen::PhoneInTheDark, "phone-dark")] {
        let browser = Browser::open(screen).await;
        let views = ["", "messages", "messages?state=dead", "history", &format!("message/{uid}")];
        for (view, called) in
            views.iter().zip(["overview", "messages", "dead", "history", "message"])
        {
            browser.go(&house.page(view)).await;
            browser.sees("#live-word", "live").await;
            browser
                .holds("the view is there", "document.querySelector('main .card') !== null")
                .await;
            browser
                .holds("nothing sticks out", "document.documentElement.scrollWidth <= 390")
                .await;
            // Colours are looked at once more in the dark, all else is the same there.
            if screen == Screen::Phone || called == "dead" || called == "message" {
                browser.is_accessible().await;
            }
            browser.keep(&format!("{name}-{called}")).await;
        }
        browser.has_no_complaint().await;
    }
    let browser = Browser::open(Screen::DesktopInTheDark).await;
    browser.go(&house.page("?span=week")).await;
    let is_dark = "getComputedStyle(document.body).backgroundColor === 'rgb(16, 18, 20)'";
    browser.holds("it is dark", is_dark).await;
    browser.sees(".sum", "due within").await;
    browser.is_accessible().await;
    browser.keep("overview-dark").await;
    browser.click("#theme").await;
    browser.holds("it is light now", &format!("!({is_dark})")).await;
    browser.go("about:blank").await;
    browser.go(&house.page("")).await;
    browser.holds("and stays so", &format!("!({is_dark})")).await;
    browser.has_no_complaint().await;
}

#[tokio::test]
async fn a_keyboard_is_enough() {
    let house = House::open().await;
    let uid = house.park("order-1", HOUR_MS);
    let browser = Browser::open(Screen::Desktop).await;
    browser.go(&house.page("")).await;
    browser.sees(".sites tbody", &house.orders).await;
    browser.tab_to("Skip to the content").await;
    browser.tab_to("Messages").await;
    browser.strike(ENTER).await;
    browser.sees("td.name", "order-1").await;
    browser.tab_to("order-1").await;
    browser.strike(ENTER).await;
    browser.sees("h1", "order-1").await;
    browser.tab_to("Cancel").await;
    browser.strike(ENTER).await;
    // What destroys is never one careless Enter away.
    assert_eq!(browser.focused().await, "BUTTON Leave it");
    browser.strike('\u{e00c}').await;
    browser.holds("Escape closes it", "document.querySelector('dialog') === null").await;
    assert_eq!(browser.focused().await, "BUTTON Cancel");
    browser.strike(ENTER).await;
    browser.tab_to("Cancel it").await;
    browser.strike(ENTER).await;
    browser.sees(".notice", "order-1: cancelled").await;
    assert_eq!(house.state_of(&uid), "gone");

    browser.tab_to("Overview").await;
    browser.strike(ENTER).await;
    browser.sees(".sites tbody", &house.orders).await;
    browser.tab_to(&format!("Pause {}", house.orders)).await;
    browser.strike(ENTER).await;
    browser.tab_to(&format!("Pause {}", house.orders)).await;
    browser.strike(ENTER).await;
    browser.sees(".sites .chip", "paused").await;
    browser.tab_to(&format!("Resume {}", house.orders)).await;
    browser.strike(ENTER).await;
    browser.sees(".notice", "is released again").await;
    browser.has_no_complaint().await;
}
