//! Targets that read what neighbours and secrets say: credentials, control messages, a whole
//! channel, identity files.

use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plexus_control::identity::{Authority, Credential, Identity, KeyPair, Role};
use plexus_control::session::frame::{MESSAGE_LEN_MAX, Message};
use plexus_control::session::{Channel, Facts, Limits, Random, RoleWanted, keyed};
use plexus_wire::Time;

/// [`Credential`]: what is read has one encoding, and only the authority's own is verified.
pub fn credential(data: &[u8]) {
    let Ok(read) = Credential::decode(data) else { return };
    assert_eq!(read.encode()[..], *data, "a credential has one encoding");
    black_box(read.to_string());
    if read.verify(&authority().public()).is_ok() {
        assert!(credentials().iter().any(|own| own == data), "a forged signature was accepted");
    }
}

/// [`Message`]: Hello, Sealed, Keyed and Reply.
pub fn message(data: &[u8]) {
    let Ok(read) = Message::decode(data) else { return };
    let rest = match read {
        Message::Hello(hello) => hello.noise,
        Message::Sealed(sealed) => sealed.ciphertext,
        Message::Keyed(keyed) => {
            black_box(keyed::open_message(&[0x11; 32], &keyed).is_ok());
            keyed.ciphertext
        }
        Message::Reply(reply) => {
            black_box(keyed::open_reply(&[0x11; 32], &reply, &[1, 2]).is_ok());
            reply.ciphertext
        }
    };
    assert!(rest.len() < data.len() && data.len() >= 4 && rest.len() <= MESSAGE_LEN_MAX);
    // What follows the stated length is padding.
    let padded = [data, &[0xEE; 9]].concat();
    assert_eq!(Message::decode(&padded), Ok(read));
}

/// A [`Channel`] that has a session, and another that is opening one, given messages of any
/// origin: each stands behind its length in two bytes. No forged one establishes anything or says
/// anything, and the session lives on.
pub fn channel(data: &[u8]) {
    let (mut a, mut b) = connected();
    let mut opening = end(3, 3);
    let _ = opening.start(NOW);
    let (mut rest, mut now) = (data, NOW);
    let before = b.fingerprint();
    for _ in 0..MESSAGES_MAX {
        let Some((&[high, low], behind)) = rest.split_first_chunk() else { break };
        let len = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (message, behind) = behind.split_at(len);
        rest = behind;
        for victim in [&mut b, &mut opening] {
            if let Ok(handled) = victim.handle(now, message) {
                assert!(handled.established.is_none() && handled.body.is_none(), "forged");
            }
            black_box(victim.poll(now));
        }
        now = now + Duration::from_millis(100);
    }
    assert_eq!(b.fingerprint(), before);
    let sealed = a.seal(now, b"still here").expect("the session lives on");
    let handled = b.handle(now, &sealed).expect("it is genuine");
    assert_eq!(handled.body.as_deref(), Some(&b"still here"[..]));
}

/// [`Identity`] and [`Authority`] from text: what is accepted is written back as it was meant.
pub fn identity_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Identity::from_toml("fuzzed", &text) {
        Ok(identity) => {
            let written = identity.to_toml();
            let again = Identity::from_toml("written", &written).expect("it was written by us");
            assert_eq!(again.to_toml(), written);
        }
        Err(error) => assert!(error.to_string().starts_with("fuzzed: "), "{error}"),
    }
    if let Ok(authority) = Authority::from_toml("fuzzed", &text) {
        let written = authority.to_toml();
        let again = Authority::from_toml("written", &written).expect("it was written by us");
        assert_eq!(again.to_toml(), written);
    }
}

const NOW: Time = Time::from_secs(100);
/// A forged Hello may cost a millisecond.
const MESSAGES_MAX: usize = 16;

pub(crate) fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new([7; 16], &[1; 32]))
}

/// Number 2 is a controller, the others are nodes.
pub(crate) fn identity(node: u8) -> Arc<Identity> {
    static IDENTITIES: OnceLock<Vec<Arc<Identity>>> = OnceLock::new();
    let make = |node: u8| {
        let keys = KeyPair::generate(&[node; 32]);
        let role = if node == 2 { Role::Controller } else { Role::Node };
        let name = format!("s{node}");
        let credential = authority().issue(node.into(), &name, role, &keys.public);
        let credential = credential.expect("the samples are valid");
        let identity = Identity::new(credential, keys, authority().public());
        Arc::new(identity.expect("the samples are valid"))
    };
    IDENTITIES.get_or_init(|| (1..=3).map(make).collect())[usize::from(node) - 1].clone()
}

fn end(node: u8, seed: u8) -> Channel {
    let facts = Facts::new(b"some facts").expect("they are few");
    let random = Random::from_seed([seed; 32]);
    Channel::new(identity(node), RoleWanted::Any, facts, Limits::default(), random)
}

fn connected() -> (Channel, Channel) {
    let (mut a, mut b) = (end(1, 1), end(2, 2));
    exchange(&mut a, &mut b);
    (a, b)
}

/// Lets `a` begin; gives all that was sent.
fn exchange(a: &mut Channel, b: &mut Channel) -> Vec<Vec<u8>> {
    let mut sent = vec![a.start(NOW)];
    loop {
        let receiver = if sent.len() % 2 == 1 { &mut *b } else { &mut *a };
        let last = sent.last().expect("it began with one");
        let handled = receiver.handle(NOW, last).expect("all are genuine");
        match handled.reply {
            Some(reply) => sent.push(reply),
            None => return sent,
        }
    }
}

/// One for each role.
pub(crate) fn credentials() -> Vec<Vec<u8>> {
    (1..=3).map(|node| identity(node).credential().encode().to_vec()).collect()
}

/// All that a handshake between others sends, a short message, a Keyed message and Replies.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let (mut a, mut b) = (end(1, 8), end(2, 9));
    let mut all = exchange(&mut a, &mut b);
    all.extend(a.seal_as(NOW, b"a body", true));
    for way in [None, Some(&[1, 2][..])] {
        all.extend(keyed::seal_reply(&[0x11; 32], 7 << 32, 9, way, b"a body"));
    }
    all.extend(keyed::seal_message(&[0x11; 32], 7, &[2; 12], b"a body"));
    all
}

/// Messages of an older conversation, one by one and all together.
pub(crate) fn conversations() -> Vec<Vec<u8>> {
    let framed = |message: &Vec<u8>| {
        let len = u16::try_from(message.len()).expect("messages are short");
        [&len.to_be_bytes()[..], message].concat()
    };
    let single: Vec<_> = messages().iter().map(framed).collect();
    let together = single.concat();
    single.into_iter().chain([together]).collect()
}

/// An identity's file and an authority's.
pub(crate) fn identity_files() -> Vec<Vec<u8>> {
    vec![identity(1).to_toml().into_bytes(), authority().to_toml().into_bytes()]
}
