//! Files of keys and certificates, as `plexus ndn key` writes and reads them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::keys::{key, made};
use crate::common::{Desk, Said};

#[test]
fn private_keys_are_their_owners_alone_and_nothing_is_written_over() {
    let desk = Desk::new("named-private");
    made(&desk, "make /a --type ed25519 --out ./a");
    let mode = std::fs::metadata(desk.path("a.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let read = |file: &str| std::fs::read(desk.path(file)).ok();
    let before = (read("a.key"), read("a.ndncert"));
    made(&desk, "make /b --out ./b");
    let refused = |words: &str, told: &str| {
        let said = key(&desk, words).expect(2);
        assert!(said.err.contains(told), "{words}: {}", said.err);
    };
    let in_the_way = |words: &str, told: &str| {
        refused(words, told);
        refused(words, "move it away, or name another file");
    };
    in_the_way("make /a --out ./a", "a.ndncert: there is such a file");
    std::fs::remove_file(desk.path("a.ndncert")).unwrap();
    in_the_way("make /a --out ./a", "a.key: File exists");
    assert_eq!(read("a.ndncert"), None, "no certificate of a key that is not there");
    std::fs::write(desk.path("a.ndncert"), before.1.as_ref().unwrap()).unwrap();
    let sign = "sign a.ndncert --key b.key --certificate b.ndncert --out";
    in_the_way(&format!("{sign} a.ndncert"), "a.ndncert: File exists");
    refused("sign a.ndncert --key b.key --certificate a.ndncert --out ./c", "of another key");
    assert_eq!((read("a.key"), read("a.ndncert")), before);
    // A certificate that somebody has changed: its owner has not asked for that.
    let text = String::from_utf8(before.1.unwrap()).unwrap();
    let mut packet = STANDARD.decode(text.split_whitespace().collect::<String>()).unwrap();
    *packet.last_mut().unwrap() ^= 1;
    std::fs::write(desk.path("forged.ndncert"), STANDARD.encode(packet)).unwrap();
    let sign = "sign forged.ndncert --key b.key --certificate b.ndncert --out ./c";
    refused(sign, "signed neither by its own key nor by yours");
    assert!(read("c").is_none());
    refused("show a.key", "it is a private key: name its certificate");
    refused("make /a --out ./none/a", "none/a.key: No such file");
    refused("make /a --out ./c --from tomorrow", "write a time of UTC");
}

#[test]
fn what_cannot_be_written_whole_leaves_nothing_and_the_next_try_succeeds() {
    let desk = Desk::new("named-partly");
    let name = format!("/{}", "x".repeat(1000));
    let out = desk.path("a").display().to_string();
    let files = || fs::read_dir(&desk.dir).unwrap().count();
    let within = |limit: &str, out: &str| {
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
        let plexus = env!("CARGO_BIN_EXE_plexus");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh", plexus, "ndn", "key", "make", &name, "--out", out]);
        Said::of(shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    // Room for nothing, for the key but not for the certificate, and for both.
    for (limit, file) in [("0", "key"), ("1", "ndncert")] {
        let said = within(limit, &out).expect(2);
        assert!(said.err.contains(&format!("writing {out}.{file}: File too large")), "{said:?}");
        assert_eq!(files(), 0, "{limit}");
    }
    within("unlimited", &out).expect(0);
    assert_eq!(files(), 2);
    // A name that is too long with the one end and not with the other.
    let long = desk.path(&"y".repeat(250)).display().to_string();
    let said = within("unlimited", &long).expect(2);
    assert!(said.err.contains(".ndncert: File name too long"), "{said:?}");
    // A link that leads nowhere yet is somebody's.
    let (link, key) = (desk.path("b.ndncert"), desk.path("b.key"));
    std::os::unix::fs::symlink("/none", &link).unwrap();
    let said = within("unlimited", desk.path("b").to_str().unwrap()).expect(2);
    assert!(said.err.contains("b.ndncert: File exists"), "{said:?}");
    assert!(link.is_symlink() && !key.exists());
    assert_eq!(files(), 3);
}

#[test]
fn a_key_that_others_may_read_certifies_nobody_and_publishes_with_a_warning() {
    let desk = Desk::new("named-readable");
    made(&desk, "make /a --out ./a");
    made(&desk, "make /a/b --out ./b");
    let file = desk.path("a.key").display().to_string();
    let warning = format!("{file}: others may read or change it: chmod 600 {file}");
    for (mode, is_told) in [(0o640, true), (0o600, false)] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        // There is no forwarder there.
        let said = desk.refused(&desk.publishing("serve", "/a/x", "unix:///none", "a"));
        assert_eq!(said.contains(&warning), is_told, "{said}");
        let words = "sign b.ndncert --key a.key --certificate a.ndncert --out issued.ndncert";
        let said = key(&desk, words).expect(if is_told { 2 } else { 0 });
        assert_eq!(said.err.contains(&warning), is_told, "{}", said.err);
        assert_eq!(desk.path("issued.ndncert").exists(), !is_told);
    }
    // As the authority of a group of boxes.
    let (group, out) = (desk.path("group"), desk.path("n1"));
    let [group, out] = [&group, &out].map(|file| file.to_str().unwrap());
    desk.plexus(&["identity", "group", "--out", group]).expect(0);
    fs::set_permissions(group, Permissions::from_mode(0o640)).unwrap();
    let words = ["identity", "issue", "--group", group, "--role", "node", "--number", "1"];
    let said = desk.plexus(&[&words[..], &["--name", "n1", "--out", out]].concat()).expect(2);
    assert!(
        said.err.contains(&format!("{group}: others may read or change it: chmod 600")),
        "{}",
        said.err
    );
}

#[test]
fn what_strangers_put_into_names_says_nothing_to_the_terminal() {
    let desk = Desk::new("named-escapes");
    made(&desk, "make /%1B%5B2J%0D --out ./root");
    made(&desk, "make /%1B%5B2J%0D/%9B31m%00%7F --out ./own");
    let issuer = "\u{1b}[H\u{7}";
    let sign = "sign own.ndncert --key root.key --certificate root.ndncert --out issued.ndncert";
    let signed = key(&desk, &format!("{sign} --issuer {issuer}")).expect(0);
    // Not below the signer's name: what says so has both names.
    let sign = "sign root.ndncert --key own.key --certificate own.ndncert --out above.ndncert";
    let objected = key(&desk, sign).expect(0);
    assert!(objected.err.contains("/%1B%5B2J%0D/%9B31m%00%7F alone"), "{}", objected.err);
    let shown = key(&desk, "show issued.ndncert").expect(0);
    let line = |what: &str| {
        let line = shown.out.lines().find_map(|line| line.strip_prefix(what));
        line.unwrap_or_else(|| panic!("{shown:?}")).trim().to_string()
    };
    assert!(line("name ").starts_with("/%1B%5B2J%0D/%9B31m%00%7F/KEY/"), "{shown:?}");
    assert_eq!(line("key "), "P-256 of /%1B%5B2J%0D/%9B31m%00%7F");
    assert_eq!(line("issuer "), "%1B%5BH%07");
    assert!(line("signed by ").starts_with("/%1B%5B2J%0D/KEY/"), "{shown:?}");
    let json = key(&desk, "show issued.ndncert --json").expect(0);
    for said in [signed, objected, shown, json] {
        let is_for_a_terminal = |c: char| c.is_control() && c != '\n';
        assert!(!(said.out + &said.err).contains(is_for_a_terminal));
    }
}
