//! The versions of a site after successive responses.

use super::*;

const SIZE: usize = 1000;
/// The cost of such a response.
const COST: u64 = SIZE as u64 + ENTRY_COST;

fn rig(bytes_max: u64) -> (Site, NameBuf) {
    let config = Config {
        origin: Origin::new(false, "127.0.0.1:1").unwrap(),
        tls: Tls::system(),
        host: "h".into(),
        segment_size: 8000,
        freshness: Duration::from_secs(1),
        bytes_max,
        body_max: 1 << 20,
        patience: Duration::from_secs(1),
    };
    let (site, _) = site(config, "/web".parse().unwrap());
    (site, "/a".parse().unwrap())
}

/// A response arrives; returns its version.
fn come(site: &mut Site, now: Time, path: &NameBuf, byte: u8) -> u64 {
    let about = About { segment_size: 8000, ..About::default() };
    bring(site, now, path, Body::Memory(vec![byte; SIZE]), about)
}

fn bring(site: &mut Site, now: Time, path: &NameBuf, body: Body, about: About) -> u64 {
    site.entries.entry(path.clone()).or_insert_with(|| Entry {
        object: None,
        validators: Validators::default(),
        fresh_until: Time::ZERO,
        is_fetching: true,
        used: 0,
    });
    let outcome = Outcome::New { body, about, validators: Validators::default() };
    site.take(now, Done { path: path.clone(), outcome });
    site.last_version
}

fn has(site: &mut Site, now: Time, path: &NameBuf, version: u64) -> bool {
    let prefix: NameBuf = "/web".parse().unwrap();
    let found = site.find(now, prefix.as_name(), path.as_name(), Some(version));
    matches!(found, Found::Object(object) if object.version == version)
}

#[test]
fn a_reader_can_finish_an_old_version() {
    let (mut site, path) = rig(1 << 20);
    let at = Time::from_secs;
    let first = come(&mut site, at(1), &path, 1);
    let second = come(&mut site, at(2), &path, 2);
    let third = come(&mut site, at(3), &path, 3);
    site.has_news(at(50));
    for version in [first, second, third] {
        assert!(has(&mut site, at(50), &path, version), "{version}");
    }
    assert!(!has(&mut site, at(50), &"/b".parse().unwrap(), first));
    // One is requested again and again, the other one no longer.
    assert!(has(&mut site, at(100), &path, first));
    site.has_news(at(111));
    assert!(has(&mut site, at(111), &path, first));
    assert!(!has(&mut site, at(111), &path, second));
    assert_eq!(site.bytes, 2 * COST);
    site.has_news(at(200));
    assert!(!has(&mut site, at(200), &path, first) && has(&mut site, at(200), &path, third));
    assert_eq!(site.bytes, COST);
}

#[test]
fn versions_before_are_bounded_and_go_before_what_is_newest() {
    let (mut site, path) = rig(3 * COST);
    let other: NameBuf = "/other".parse().unwrap();
    let now = Time::from_secs(1);
    let kept = come(&mut site, now, &other, 0);
    let versions: Vec<u64> = (1..6).map(|byte| come(&mut site, now, &path, byte)).collect();
    let there: Vec<bool> = versions.iter().map(|v| has(&mut site, now, &path, *v)).collect();
    assert_eq!(there, [false, false, false, true, true]);
    assert!(has(&mut site, now, &other, kept));
    assert_eq!(site.bytes, 3 * COST);
    let (mut site, path) = rig(u64::MAX);
    for i in 0..OLD_MAX + 10 {
        come(&mut site, now, &path, i as u8);
    }
    assert_eq!(site.old.len(), OLD_MAX);
}

#[test]
fn responses_of_nothing_but_a_head_are_bounded_too() {
    let (mut site, _) = rig(1 << 20);
    for i in 0..200 {
        let path: NameBuf = format!("/{i}").parse().unwrap();
        let about = About { segment_size: 8000, ..About::default() };
        bring(&mut site, Time::ZERO, &path, Body::Memory(Vec::new()), about);
    }
    assert_eq!(site.entries.len() as u64, (1 << 20) / ENTRY_COST);
}
