//! The vectors of messages and link messages against sections 4 and 5 of the document. The contents
//! of a message are sealed: tests with the keys cover them.

use plexus_wire::fabric::{self, Kind};
use plexus_wire::{ethernet, fabric::encapsulation, hex};
use serde_json::{Value, json};

use super::tables::mac;
use super::vectors::{bytes, vectors};

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n * 256 + u64::from(*b))
}

/// The fields in the clear, or why it is no message.
fn read(message: &[u8]) -> Result<Value, &'static str> {
    if let Some([first @ 0x82..=0x84, length]) = message.get(..2) {
        return read_short(*first, message.get(..usize::from(*length)).ok_or("truncated")?);
    }
    let head = message.get(..4).ok_or("truncated")?;
    let length = number(&head[2..]) as usize;
    match (head[0], length) {
        (0 | 2.., _) => return Err("version"),
        (_, 1431..) => return Err("oversized"),
        (_, ..4) => return Err("malformed"),
        _ => {}
    }
    let message = message.get(..length).ok_or("truncated")?;
    let fixed_and_tag = match head[1] {
        1 => 14,
        2 => 18 + 16,
        3 => 26 + 16,
        _ => return Err("kind"),
    };
    let is_hello = head[1] == 1;
    let fixed = if is_hello { 14 } else { fixed_and_tag - 16 };
    let header = message.get(..fixed).ok_or("truncated")?;
    let is_sound = if is_hello {
        let (step, sender, receiver) = (header[4], number(&header[6..10]), number(&header[10..]));
        (1..=3).contains(&step) && header[5] == 0 && sender != 0 && (step == 1) == (receiver == 0)
    } else {
        header[4..6] == [0, 0]
    };
    if !is_sound {
        return Err("malformed");
    }
    if message.len() < fixed_and_tag {
        return Err("truncated");
    }
    Ok(match head[1] {
        1 => json!({
            "kind": "hello",
            "step": header[4],
            "sender": number(&header[6..10]),
            "receiver": number(&header[10..]),
            "noise": hex(&message[14..]),
        }),
        2 => json!({
            "kind": "sealed",
            "receiver": number(&header[6..10]),
            "counter": number(&header[10..]),
        }),
        _ => json!({
            "kind": "keyed",
            "exchange": number(&header[6..14]),
            "nonce": hex(&header[14..]),
        }),
    })
}

/// The same of a short message.
fn read_short(first: u8, message: &[u8]) -> Result<Value, &'static str> {
    let header = if first == 0x82 { 9 } else { 14 };
    if message.len() < header + 16 {
        return Err("truncated");
    }
    Ok(match first {
        0x82 => json!({
            "kind": "sealed",
            "receiver": number(&message[2..6]),
            "counter": number(&message[6..9]),
        }),
        _ => json!({
            "kind": "reply",
            "exchange": number(&message[2..6]),
            "version": number(&message[6..14]),
        }),
    })
}

#[test]
fn messages_have_the_form_that_the_document_gives() {
    for vector in vectors("message/") {
        let read = read(&bytes(&vector, "bytes"));
        match vector["error"].as_str() {
            Some("authentication") => assert!(read.is_ok(), "{vector}"),
            Some(error) => assert_eq!(read, Err(error), "{vector}"),
            None => {
                for (field, value) in read.unwrap().as_object().unwrap() {
                    assert_eq!(&vector[field], value, "{field} of {vector}");
                }
            }
        }
    }
}

#[test]
fn link_messages_are_framed_as_the_document_says() {
    for vector in vectors("link/") {
        let (frame, message) = (bytes(&vector, "frame"), bytes(&vector, "message"));
        let mut by_hand = vec![0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E];
        by_hand.extend(mac(&vector["src"]));
        by_hand.extend([0x88, 0xB5, 0x10, 0x00, 0x70, 0x01, 0x00, 0x00, 0xFF]);
        by_hand.extend(&message);
        by_hand.resize(by_hand.len().max(60), 0);
        assert_eq!(frame, by_hand, "{vector}");
        let outer = ethernet::Frame::new_checked(&frame[..]).unwrap();
        assert_eq!(outer.dst(), encapsulation::NEAREST_BRIDGE);
        assert_eq!(outer.ethertype(), encapsulation::ETHERTYPE);
        let inner = fabric::Frame::new_checked(outer.payload()).unwrap();
        assert_eq!(inner.kind(), Kind::Control);
        assert_eq!((inner.forward(), inner.reverse()), (&[fabric::CONTROL_HOP][..], &[][..]));
        assert!(inner.payload().starts_with(&message), "{vector}");
        assert!(read(inner.payload()).is_ok(), "{vector}");
    }
}
