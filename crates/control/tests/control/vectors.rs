//! The fabric's test vectors of messages (crates/wire/src/fabric/vectors.json): their format, their
//! refusals by name, and their plaintexts.

use plexus_control::exchange;
use plexus_control::session::Refused;
use plexus_control::session::frame::Message;
use plexus_control::session::keyed;
use plexus_wire::hex;
use serde_json::Value;

const VECTORS: &str = include_str!("../../../wire/src/fabric/vectors.json");

fn unhex(text: &str) -> Vec<u8> {
    plexus_wire::unhex(text).unwrap()
}

/// A counter as a nonce (SPEC.md, section 7).
fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

#[test]
fn messages_are_read_opened_and_refused_as_the_vectors_say() {
    let all: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    let mut opened = 0;
    for vector in all.iter().filter(|v| v["name"].as_str().unwrap().starts_with("message/")) {
        let bytes = unhex(vector["bytes"].as_str().unwrap());
        let key = vector["key"].as_str().map(|k| <[u8; 32]>::try_from(unhex(k)).unwrap());
        let open = |nonce: &[u8; 12], header: &[u8], text: &[u8]| {
            key.map(|key| keyed::open(&key, nonce, header, text)).transpose()
        };
        let result = Message::decode(&bytes).and_then(|message| {
            let text = match &message {
                Message::Hello(_) => None,
                Message::Sealed(s) => open(&nonce(s.counter), s.header, s.ciphertext)?,
                Message::Keyed(k) => open(&k.nonce, k.header, k.ciphertext)?,
                Message::Reply(r) => {
                    let way = vector["way"].as_str().map(unhex).unwrap_or_default();
                    let open = |key| keyed::open_reply(&key, r, &way);
                    key.map(open).transpose()?
                }
            };
            Ok((message, text))
        });
        let (message, text) = match result {
            Ok(both) => both,
            Err(refused) => {
                assert_eq!(vector["error"], refused.name(), "{vector}");
                continue;
            }
        };
        assert!(vector["error"].is_null(), "{vector}");
        if let Some(text) = text {
            assert_eq!(vector["plaintext"], hex(&text), "{vector}");
            opened += 1;
        }
        match message {
            Message::Hello(h) => {
                assert_eq!(
                    (&vector["kind"], &vector["noise"]),
                    (&"hello".into(), &hex(h.noise).into())
                );
                assert_eq!(vector["step"], h.step);
                assert_eq!(
                    (&vector["sender"], &vector["receiver"]),
                    (&h.sender.into(), &h.receiver.into())
                );
            }
            Message::Sealed(s) => {
                assert_eq!(vector["kind"], "sealed");
                assert_eq!(
                    (&vector["receiver"], &vector["counter"]),
                    (&s.receiver.into(), &s.counter.into())
                );
            }
            Message::Reply(r) => {
                assert_eq!(
                    (&vector["kind"], &vector["exchange"], &vector["version"]),
                    (&"reply".into(), &r.exchange.into(), &r.version.into())
                );
                let way = vector["way"].as_str().map(unhex);
                assert_eq!(way.is_some(), r.is_recorded);
                let text = unhex(vector["plaintext"].as_str().unwrap());
                let number = u64::from(r.exchange) << 32;
                let again =
                    keyed::seal_reply(&key.unwrap(), number, r.version, way.as_deref(), &text);
                assert_eq!(again, Some(bytes));
            }
            Message::Keyed(k) => {
                assert_eq!(
                    (&vector["kind"], &vector["exchange"]),
                    (&"keyed".into(), &k.exchange.into())
                );
                assert_eq!(vector["nonce"], hex(&k.nonce));
                let key = key.unwrap();
                let text = unhex(vector["plaintext"].as_str().unwrap());
                assert_eq!(keyed::seal_message(&key, k.exchange, &k.nonce, &text), Some(bytes));
            }
        }
    }
    assert_eq!(opened, 7);
    assert_eq!(Refused::Authentication.name(), "authentication");
}

#[test]
fn an_exchanges_number_and_keys_are_those_of_the_vectors() {
    let all: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    let of_it = |v: &&Value| v["name"].as_str().unwrap().starts_with("exchange/");
    let found: Vec<&Value> = all.iter().filter(of_it).collect();
    assert!(!found.is_empty());
    for vector in found {
        let text = |field: &str| vector[field].as_str().unwrap();
        let secret = <[u8; 16]>::try_from(unhex(text("secret"))).unwrap();
        let source = text("source_mac").parse().unwrap();
        assert_eq!(vector["exchange"], exchange::number(&secret, source));
        assert_eq!(vector["key"], hex(&exchange::key(&secret, source)));
        assert_eq!(vector["reply_key"], hex(&exchange::reply_key(&secret, source)));
    }
}
