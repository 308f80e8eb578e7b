//! The page in a browser: screenshots, accessibility, keyboard, and frames per second.

use std::fs;
use std::path::PathBuf;

use plexus_web::Page;
use serde_json::Value;

use crate::browser::Browser;
use crate::build::packages;
use crate::guard::Folder;
use crate::rig::{HOSTILE, Made, serve, settings};

/// Screenshots are kept, for people.
fn picture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("screenshots").join(format!("{name}.png"))
}

/// Has all that is to be seen: charts need two samples.
const LOADED: &str = "window.plexus?.store.samples.length > 2 && plexus.store.hosts.length > 0";
/// The boxes rest.
const RESTS: &str = "new Promise(done => setTimeout(() => { \
                     const n = plexus.graph.frameTimes.length; \
                     setTimeout(() => done(plexus.graph.frameTimes.length - n < 3), 400); }, 100))";

fn open(browser: &mut Browser, page: &Page) {
    browser.open(&page.url);
    browser.wait_for(LOADED);
}

#[test]
fn the_page_is_accessible_at_a_desk_on_a_phone_and_in_the_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let page = serve(&settings(), Made::new(16, 4, 60).simulated());
    let axe = packages().map(|folder| folder.join("node_modules/axe-core/axe.min.js"));
    let axe = axe.map(|file| fs::read_to_string(file).unwrap());
    for (name, width, height, dark) in [
        ("desk", 1280, 800, false),
        ("desk-dark", 1280, 800, true),
        ("phone", 390, 844, false),
        ("phone-dark", 390, 844, true),
    ] {
        browser.window(width, height, dark);
        open(&mut browser, &page);
        browser.wait_for(RESTS);
        browser.picture(&picture(name));
        let wide = browser.value("document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= width.into(), "{name}: {wide} pixels wide");
        for tab in ["overview", "boxes", "hosts", "names", "events"] {
            browser.value(&format!("document.getElementById('tab-{tab}').click()"));
            if tab == "hosts" {
                let host = "document.querySelector('#panel .pick').click()";
                browser.value(host);
                browser.wait_for("document.querySelectorAll('.way').length > 0");
                browser.wait_for(RESTS);
                browser.picture(&picture(&format!("{name}-host")));
            }
            let Some(axe) = &axe else { continue };
            browser.value(&format!("{axe}; true"));
            let found = browser.value(
                "axe.run().then(all => all.violations.map(v => v.id + ': ' + v.help + '\\n  ' + \
                 v.nodes.map(n => n.html + ' ' + n.any.map(a => a.message)).join('\\n  ')))",
            );
            let found: Vec<&str> =
                found.as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(found.is_empty(), "{name}, {tab}:\n{}", found.join("\n"));
        }
    }
}

#[test]
fn a_browser_gives_the_token_in_the_form() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = Folder::new();
    let mut settings = settings();
    settings.token = Some(folder.write("token", "0123456789abcdef"));
    let page = serve(&settings, Made::new(4, 2, 8));
    browser.window(1280, 800, false);
    browser.open(&page.url);
    browser.wait_for("document.activeElement?.id === 'token'");
    browser.write("0123456789abcdef");
    browser.press("Enter");
    browser.wait_for(LOADED);
}

#[test]
fn names_that_are_html_are_texts() {
    let Some(mut browser) = Browser::start() else { return };
    let page = serve(&settings(), Made::new(4, 2, 8));
    browser.window(1280, 800, false);
    open(&mut browser, &page);
    for step in [
        "document.getElementById('tab-hosts').click()",
        "plexus.store.hosts.find(h => h.name) && [...document.querySelectorAll('#panel .pick')]\
         .find(b => b.textContent.startsWith('<img')).click()",
        "document.getElementById('tab-names').click()",
    ] {
        browser.value(step);
        let text = browser.value("document.body.textContent");
        let is_there = text.as_str().unwrap().contains(HOSTILE);
        assert!(is_there || step.contains("tab-names"), "{step}");
    }
    browser.value("document.getElementById('search').focus()");
    browser.write("<img");
    browser.wait_for("document.querySelectorAll('#found li').length === 1");
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    let title = browser.value("document.title");
    assert_eq!(title, "made – Plexus");
}

#[test]
fn rates_that_nobody_knows_are_gaps_and_no_zeros() {
    let Some(mut browser) = Browser::start() else { return };
    let page = serve(&settings(), Made::new(4, 2, 8));
    browser.window(1280, 800, false);
    open(&mut browser, &page);
    browser.value("document.getElementById('tab-overview').click()");
    browser.wait_for("document.querySelectorAll('#busiest .pick').length > 0");
    browser.value("document.querySelector('#busiest .pick').click()");
    browser.wait_for("document.querySelectorAll('#selected .u-legend').length > 0");
    // The newest rates as the legends write them: of all hosts, by reason, and of a cable.
    let shown = "[...document.querySelectorAll('.u-legend .u-series:not(:first-child) .u-value')]\
                 .map(value => value.textContent)";
    let take = |rates: &str| {
        format!(
            "(() => {{ const rates = structuredClone(plexus.store.rates); {rates}; \
             plexus.take('rates', rates); return {shown}; }})()"
        )
    };
    let known = browser.value(&take(""));
    let known = known.as_array().unwrap();
    assert!(known.len() >= 5 && known.iter().all(|rate| rate != "–"), "{known:?}");
    let unknown = browser.value(&take(
        "rates.boxes = rates.boxes.map(() => null); rates.drops = {}; \
         rates.cables = rates.cables.map(() => [null, null])",
    ));
    let unknown = unknown.as_array().unwrap();
    assert!(unknown.len() >= 5 && unknown.iter().all(|rate| rate == "–"), "{unknown:?}");
}

#[test]
fn a_button_breaks_the_cable_of_its_card_after_others_have_gone() {
    let Some(mut browser) = Browser::start() else { return };
    let page = serve(&settings(), Made::new(4, 2, 8).simulated());
    browser.window(1280, 800, false);
    open(&mut browser, &page);
    browser.value("document.getElementById('tab-boxes').click()");
    browser.value("document.querySelectorAll('#panel .pick')[1].click()");
    browser.wait_for("plexus.store.selected?.kind === 'box'");
    browser.value("document.querySelector('#selected table .pick').click()");
    // A card with the focus is not drawn anew when the map changes.
    browser.value("document.querySelector('#selected .danger').focus()");
    let key = browser.value("plexus.store.selected.id");
    browser.value(
        "fetch('/api/command', { method: 'POST', body: \
         JSON.stringify({ break: plexus.store.map.cables[0].ends.map(([place, port]) => \
         [plexus.store.map.boxes[place].name, port]) }) }).then(answer => answer.status)",
    );
    browser.wait_for("plexus.store.lost.size === 1");
    browser.press("Enter");
    browser.wait_for("plexus.store.lost.size === 2");
    assert_eq!(browser.value(&format!("plexus.store.lost.has({key})")), true, "{key}");
}

#[test]
fn everything_works_from_the_keyboard() {
    let Some(mut browser) = Browser::start() else { return };
    let page = serve(&settings(), Made::new(16, 4, 60).simulated());
    browser.window(1280, 800, false);
    open(&mut browser, &page);
    // Search, and its hit.
    browser.press("/");
    browser.write("020000000011");
    browser.wait_for("document.querySelectorAll('#found li').length === 1");
    browser.press("Enter");
    browser.wait_for("plexus.store.selected?.id === '02:00:00:00:00:11'");
    browser.wait_for("plexus.store.ways.length > 0");
    // The map.
    browser.value("document.getElementById('graph').focus()");
    let before = browser.value("plexus.graph.viewAt().k");
    browser.press("+");
    browser.wait_for(&format!("plexus.graph.viewAt().k > {before}"));
    // Tabs by arrows.
    browser.value("document.getElementById('tab-overview').focus()");
    browser.press("ArrowRight");
    assert_eq!(browser.value("document.activeElement.id"), "tab-boxes");
    // A cable is broken from its card, and is drawn as lost.
    browser.value("document.querySelector('#panel .pick').focus()");
    browser.press("Enter");
    browser.wait_for("plexus.store.selected?.kind === 'box'");
    browser.value("document.querySelector('#selected table .pick').click()");
    browser.value("document.querySelector('#selected .danger').focus()");
    browser.press("Enter");
    browser.wait_for("plexus.store.lost.size === 1");
    // The clock of a simulation.
    browser.value("document.getElementById('pause').focus()");
    browser.press("Enter");
    browser.wait_for("plexus.store.clock.paused");
}

#[test]
fn a_thousand_boxes_and_ten_thousand_hosts_can_be_moved_about() {
    let Some(mut browser) = Browser::start() else { return };
    let page = serve(&settings(), Made::new(960, 40, 10_000));
    browser.window(1280, 800, false);
    open(&mut browser, &page);
    // In parts, for a call has a limit, and a busy machine draws slowly.
    let settled = "(async () => { const frame = () => new Promise(requestAnimationFrame); \
        for (let i = 0; i < 20 && plexus.graph.isMoving(); i++) { await frame(); } \
        return !plexus.graph.isMoving(); })()";
    assert!((0..100).any(|_| browser.value(settled) == true), "it moves for 2,000 frames");
    let drawn = "(async () => { const frame = () => new Promise(requestAnimationFrame); \
        const all = plexus.graph.frameTimes; plexus.graph.fit(); all.length = 0; \
        for (let i = 0; i < 60; i++) { plexus.graph.turn(i < 30 ? 1.04 : 0.98, 3); \
        await frame(); await frame(); } \
        const sorted = [...all].sort((a, b) => a - b); \
        return { frames: sorted.length, p50: sorted[sorted.length >> 1], \
        worst: sorted[sorted.length - 1] }; })()";
    let times = browser.value(drawn);
    println!("1,000 boxes and 10,000 hosts, milliseconds to draw a frame: {times}");
    assert!(times["frames"].as_u64().unwrap() >= 50, "{times}");
    browser.value("plexus.graph.fit()");
    browser.wait_for(RESTS);
    browser.picture(&picture("large"));
    browser.value("document.getElementById('tab-hosts').click()");
    let rows = browser.value("document.querySelectorAll('#panel tbody tr').length");
    assert_eq!(rows, 100, "lists stay short");
    browser.press("/");
    browser.write("10.0.39.16");
    browser.press("Enter");
    browser.wait_for("plexus.store.selected?.kind === 'host'");
    browser.wait_for(RESTS);
    browser.picture(&picture("large-host"));
}
