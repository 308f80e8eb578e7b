//! Who may command a node whose file names anchors, by keys and certificates in files.

#[path = "../../../../ndn-apps/src/key/tests/known.rs"]
mod known;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use known::{ED25519_KEY, ED25519_PUBLIC, P256_PUBLIC, P256_SEC1, certificate};
use plexus_ndn_apps::digest::DigestSigner;
use plexus_wire::ndn::NameBuf;
use serde_json::Value;

use super::workers::own_address;
use crate::common::{Desk, Running, Said, until};

impl Desk {
    /// Writes a key and its certificate.
    fn key(&self, name: &str, key: &str, public: &str) {
        let full: NameBuf = format!("/{name}/KEY/1/self/v=1").parse().unwrap();
        let packet = certificate(&full, public);
        std::fs::write(self.certificate(name), STANDARD.encode(packet)).unwrap();
        let file = self.path(&format!("{name}.key"));
        std::fs::write(&file, key).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    }

    fn certificate(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.ndncert"))
    }

    /// The arguments of `plexus` that publish below `prefix` by a key.
    pub(super) fn publishing(&self, kind: &str, prefix: &str, uri: &str, key: &str) -> Vec<String> {
        let file = self.certificate(key).display().to_string();
        let words = match kind {
            "produce" => vec!["ndn", kind, "--prefix", prefix],
            "web-publish" => vec!["ndn", kind, prefix, self.dir.to_str().unwrap()],
            _ => vec!["ndn", kind, prefix, &file],
        };
        let mut words: Vec<String> = words.into_iter().map(Into::into).collect();
        let key = self.path(&format!("{key}.key")).display().to_string();
        words.extend(["--transport", uri, "--key", &key, "--certificate", &file].map(Into::into));
        words
    }

    fn publish(&self, kind: &str, prefix: &str, uri: &str, key: &str) -> Running {
        let words = self.publishing(kind, prefix, uri, key);
        self.program(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What somebody is told who may not publish.
    pub(super) fn refused(&self, words: &[String]) -> String {
        let said = self.plexus(&words.iter().map(String::as_str).collect::<Vec<_>>());
        said.expect(2).err
    }
}

#[test]
fn who_has_the_key_of_an_anchor_publishes_here_and_from_another_box() {
    let desk = Desk::new("named-keys");
    desk.key("one", ED25519_KEY, ED25519_PUBLIC);
    desk.key("two", P256_SEC1, P256_PUBLIC);
    let own = format!("{}:7001", own_address(3));
    let file = |anchors: &[&str]| {
        let anchors: Vec<PathBuf> = anchors.iter().map(|name| desk.certificate(name)).collect();
        format!("udp = [\"{own}\"]\nsigned = true\nanchors = {anchors:?}\n")
    };
    let node = desk.node("n", &file(&["one"]));
    let (unix, udp) = (desk.uri("n"), format!("udp4://{own}"));
    for (kind, uri, prefix) in [
        ("serve", &unix, "/serve/unix"),
        ("serve", &udp, "/serve/udp"),
        ("produce", &unix, "/produce"),
        ("web-publish", &udp, "/web"),
    ] {
        let _publishing = desk.publish(kind, prefix, uri, "one");
        let whole = if kind == "web-publish" { "/web/localhost" } else { prefix };
        assert!(until(|| node.has_route(whole)), "{prefix}");
    }
    let _publishing_until_then = desk.publish("serve", "/goes", &udp, "one");
    assert!(until(|| node.has_route("/goes")));
    // Without a key, or by another's.
    for uri in [&unix, &udp] {
        let mut words = desk.publishing("serve", "/refused", uri, "two");
        let told = desk.refused(&words);
        assert!(told.contains("403 authorization rejected"), "{told}");
        words.truncate(words.len() - 4);
        let told = desk.refused(&words);
        assert!(told.contains("403 authorization rejected (it may want a key"), "{told}");
    }
    // Other anchors, while it runs: who was trusted is no more, and what they published is gone.
    desk.write("n", &file(&["two"]));
    assert_eq!(node.reload()["done"], true);
    let _publishing = desk.publish("serve", "/two", &udp, "two");
    assert!(until(|| node.has_route("/two")));
    assert!(!node.has_route("/goes"));
    let told = desk.refused(&desk.publishing("serve", "/refused", &unix, "one"));
    assert!(told.contains("403 authorization rejected"), "{told}");
    // The same names of files with others in them.
    desk.key("two", ED25519_KEY, ED25519_PUBLIC);
    assert_eq!(node.reload()["done"], true);
    let _publishing = desk.publish("serve", "/three", &unix, "two");
    assert!(until(|| node.has_route("/three")));
    // What cannot be read changes nothing.
    desk.write("n", &file(&["none"]));
    let told = node.reload()["error"].to_string();
    assert!(told.contains("none.ndncert: No such file"), "{told}");
    let _publishing = desk.publish("serve", "/four", &unix, "two");
    assert!(until(|| node.has_route("/four")));
    assert!(!node.has_route("/refused"));
}

/// What `plexus ndn key` prints.
pub(super) fn made(desk: &Desk, words: &str) -> String {
    let said = key(desk, words);
    assert_eq!(said.code, Some(0), "{words}: {said:?}");
    said.out.trim().to_string()
}

/// `plexus ndn key`, in words of which those with a dot are files.
pub(super) fn key(desk: &Desk, words: &str) -> Said {
    let place = |word: &str| match word.contains('.') {
        true => desk.path(word).display().to_string(),
        false => word.to_string(),
    };
    let words: Vec<String> =
        ["ndn", "key"].into_iter().chain(words.split(' ')).map(place).collect();
    desk.plexus(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn keys_that_plexus_makes_command_as_far_as_their_certificates_go() {
    let desk = Desk::new("named-made");
    let make = |name: &str, file: &str| made(&desk, &format!("make {name} --out {file}"));
    let root = made(&desk, "make /site --from 2019-01-01 --out ./root");
    assert!(root.starts_with("/site/KEY/") && root.contains("/self/v="), "{root}");
    make("/other", "./other");
    for operator in ["good", "late", "foreign"] {
        make(&format!("/site/{operator}"), &format!("./{operator}-own"));
        let [own, issued] = ["-own.key", ".key"].map(|end| desk.path(&format!("{operator}{end}")));
        std::fs::rename(own, issued).unwrap();
    }
    let sign = |operator: &str, by: &str, more: &str| {
        let words = format!(
            "sign {operator}-own.ndncert --key {by}.key --certificate {by}.ndncert \
             --out {operator}.ndncert{more}"
        );
        key(&desk, &words).expect(0)
    };
    let said = sign("good", "root", " --issuer site");
    let name = said.out.trim();
    assert!(name.starts_with("/site/good/KEY/") && name.contains("/site/v="), "{name}");
    sign("late", "root", " --from 2020-01-01 --days 1");
    let said = sign("foreign", "other", "");
    assert!(said.err.contains("may certify names below /other alone"), "{}", said.err);
    // Who the certificates are of, and for how long.
    let show = |file: &str| key(&desk, &format!("show {file}.ndncert --json")).json();
    let (shown, late) = (show("good"), show("late"));
    assert_eq!((&shown["name"], &shown["identity"]), (&name.into(), &"/site/good".into()));
    assert_eq!((&shown["type"], &shown["issuer"]), (&"P-256".into(), &"site".into()));
    assert_eq!((&shown["signed_by"], &shown["self_signed"]), (&root.into(), &false.into()));
    assert_eq!((&shown["valid"], &late["valid"]), (&true.into(), &false.into()));
    let ends = (&late["not_before"], &late["not_after"]);
    assert_eq!(ends, (&"2020-01-01T00:00:00Z".into(), &"2020-01-02T00:00:00Z".into()));
    let year = |time: &Value| time.as_str().unwrap()[..4].parse::<u32>().unwrap();
    let (own, issued) = (show("root"), &shown);
    assert_eq!(own["self_signed"], true);
    assert_eq!(own["not_after"], "2038-12-27T00:00:00Z");
    assert!(year(&issued["not_after"]) - year(&issued["not_before"]) <= 1);
    assert_eq!(own["sha256"].as_str().unwrap().len(), 64);

    let folder = desk.path("certificates");
    std::fs::create_dir(&folder).unwrap();
    for operator in ["good", "late", "foreign"] {
        let file = format!("{operator}.ndncert");
        std::fs::copy(desk.path(&file), folder.join(&file)).unwrap();
    }
    let file = format!(
        "signed = true\nanchors = [{:?}]\ncertificates = [{folder:?}]\n",
        desk.certificate("root")
    );
    let node = desk.node("n", &file);
    let uri = desk.uri("n");
    let _publishing = desk.publish("serve", "/good", &uri, "good");
    assert!(until(|| node.has_route("/good")));
    // It has run out; another anchor has signed it; nobody has.
    make("/site/alone", "./nobody");
    for refused in ["late", "foreign", "nobody"] {
        let told = desk.refused(&desk.publishing("serve", "/refused", &uri, refused));
        assert!(told.contains("403 authorization rejected"), "{refused}: {told}");
    }
    assert!(!node.has_route("/refused"));
}

#[test]
fn neighbours_may_command_when_an_anchor_comes_and_no_more_when_it_goes() {
    let desk = Desk::new("named-anchors");
    desk.key("one", ED25519_KEY, ED25519_PUBLIC);
    let own = format!("{}:7002", own_address(3));
    let without = format!("udp = [\"{own}\"]\n");
    let with = format!("{without}anchors = [{:?}]\n", desk.certificate("one"));
    let node = desk.node("n", &without);
    let reload = || assert_eq!(node.reload()["done"], true);
    let (udp, hop) = (format!("udp4://{own}"), "/localhop/nfd");
    assert!(!node.has_route(hop));
    desk.write("n", &with);
    reload();
    let _publishing = desk.publish("serve", "/one", &udp, "one");
    assert!(until(|| node.has_route("/one") && node.has_route(hop)));
    desk.write("n", &without);
    reload();
    assert!(until(|| !node.has_route(hop) && !node.has_route("/one")));
    // Nobody answers there now: the command comes back.
    let told = desk.refused(&desk.publishing("serve", "/two", &udp, "one"));
    assert!(told.contains("it takes no commands by this face"), "{told}");
}
