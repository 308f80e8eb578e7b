//! Who may command a node whose file names anchors, by keys and certificates in files.

#[path = "../../../ndn-apps/src/key/tests/known.rs"]
mod known;

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use known::{ED25519_KEY, ED25519_PUBLIC, P256_PUBLIC, P256_SEC1, certificate};
use plexus_ndn_apps::digest::DigestSigner;
use plexus_wire::ndn::NameBuf;
use serde_json::json;

use super::Program;
use super::common::{Desk, ask, directory, until};
use super::workers::own_address;

impl Desk {
    /// Writes a key and its certificate.
    fn key(&self, name: &str, key: &str, public: &str) {
        let full: NameBuf = format!("/{name}/KEY/1/self/v=1").parse().unwrap();
        let packet = certificate(&full, public);
        std::fs::write(self.certificate(name), STANDARD.encode(packet)).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key).unwrap();
    }

    fn certificate(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.ndncert"))
    }

    /// The arguments of `plexus` that publish below `prefix` by a key.
    fn publishing(&self, kind: &str, prefix: &str, uri: &str, key: &str) -> Vec<String> {
        let file = self.certificate(key).display().to_string();
        let words = match kind {
            "produce" => vec!["ndn", kind, "--prefix", prefix],
            "web-publish" => vec!["ndn", kind, prefix, self.0.to_str().unwrap()],
            _ => vec!["ndn", kind, prefix, &file],
        };
        let mut words: Vec<String> = words.into_iter().map(Into::into).collect();
        let key = self.path(&format!("{key}.key")).display().to_string();
        words.extend(["--transport", uri, "--key", &key, "--certificate", &file].map(Into::into));
        words
    }

    fn publish(&self, kind: &str, prefix: &str, uri: &str, key: &str) -> Program {
        let words = self.publishing(kind, prefix, uri, key);
        self.program(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What somebody is told who may not publish.
    fn refused(&self, words: &[String]) -> String {
        let said = self.plexus(&words.iter().map(String::as_str).collect::<Vec<_>>());
        said.expect(2).err
    }
}

#[test]
fn who_has_the_key_of_an_anchor_publishes_here_and_from_another_box() {
    let desk = Desk(directory("named-keys"));
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
    let stays = desk.publish("serve", "/stays", &udp, "one");
    assert!(until(|| node.has_route("/stays")));
    // Without a key, or by another's.
    for uri in [&unix, &udp] {
        let mut words = desk.publishing("serve", "/refused", uri, "two");
        let told = desk.refused(&words);
        assert!(told.contains("403 authorization rejected"), "{told}");
        words.truncate(words.len() - 4);
        let told = desk.refused(&words);
        assert!(told.contains("403 authorization rejected (it may want a key"), "{told}");
    }
    // Other anchors, while it runs: what is there stays, who was trusted is no more.
    let reload = || ask(&node.control, &json!({"reload": true})).unwrap();
    desk.write("n", &file(&["two"]));
    assert_eq!(reload()["done"], true);
    let _publishing = desk.publish("serve", "/two", &udp, "two");
    assert!(until(|| node.has_route("/two")));
    assert!(node.has_route("/stays"));
    let told = desk.refused(&desk.publishing("serve", "/refused", &unix, "one"));
    assert!(told.contains("403 authorization rejected"), "{told}");
    // The same names of files with others in them.
    desk.key("two", ED25519_KEY, ED25519_PUBLIC);
    assert_eq!(reload()["done"], true);
    let _publishing = desk.publish("serve", "/three", &unix, "two");
    assert!(until(|| node.has_route("/three")));
    // What cannot be read changes nothing.
    desk.write("n", &file(&["none"]));
    let told = reload()["error"].to_string();
    assert!(told.contains("none.ndncert: No such file"), "{told}");
    let _publishing = desk.publish("serve", "/four", &unix, "two");
    assert!(until(|| node.has_route("/four")));
    assert!(!node.has_route("/refused"));
    drop(stays);
}

#[test]
fn neighbours_may_command_when_an_anchor_comes_and_no_more_when_it_goes() {
    let desk = Desk(directory("named-anchors"));
    desk.key("one", ED25519_KEY, ED25519_PUBLIC);
    let own = format!("{}:7002", own_address(3));
    let without = format!("udp = [\"{own}\"]\n");
    let with = format!("{without}anchors = [{:?}]\n", desk.certificate("one"));
    let node = desk.node("n", &without);
    let reload = || assert_eq!(ask(&node.control, &json!({"reload": true})).unwrap()["done"], true);
    let (udp, hop) = (format!("udp4://{own}"), "/localhop/nfd");
    assert!(!node.has_route(hop));
    desk.write("n", &with);
    reload();
    let _publishing = desk.publish("serve", "/one", &udp, "one");
    assert!(until(|| node.has_route("/one") && node.has_route(hop)));
    desk.write("n", &without);
    reload();
    assert!(until(|| !node.has_route(hop)));
    // Nobody answers there now: the command comes back.
    let told = desk.refused(&desk.publishing("serve", "/two", &udp, "one"));
    assert!(told.contains("it takes no commands by this face"), "{told}");
}
