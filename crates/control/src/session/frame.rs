//! The messages' format, after the fabric header of a control frame.
//!
//! Integers are big-endian; reserved bytes are 0. `length` counts from `version` to the end of the
//! message, so that Ethernet padding after it is recognised and ignored. A sender numbers its
//! sessions consecutively, starting at a random number.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | kind: 1 Hello, 2 Sealed, 3 Keyed |
//! | 2 | 2 | length |
//!
//! | offset | bytes | Hello |
//! |---|---|---|
//! | 4 | 1 | step, 1 to 3 |
//! | 5 | 1 | reserved |
//! | 6 | 4 | sender's session, not 0 |
//! | 10 | 4 | receiver's session, 0 in step 1 |
//! | 14 | … | Noise message |
//!
//! | offset | bytes | Sealed |
//! |---|---|---|
//! | 4 | 2 | reserved |
//! | 6 | 4 | receiver's session |
//! | 10 | 8 | counter |
//! | 18 | … | ciphertext, the last 16 bytes its tag; bytes 0 to 17 are associated data |
//!
//! | offset | bytes | Keyed |
//! |---|---|---|
//! | 4 | 2 | reserved |
//! | 6 | 8 | exchange |
//! | 14 | 12 | nonce |
//! | 26 | … | ciphertext, the last 16 bytes its tag; bytes 0 to 25 are associated data |
//!
//! Version 2 has short messages too, which begin otherwise:
//!
//! | offset | bytes | Sealed, short |
//! |---|---|---|
//! | 0 | 1 | 82 |
//! | 1 | 1 | length |
//! | 2 | 4 | receiver's session |
//! | 6 | 3 | the counter's lowest bits |
//! | 9 | … | ciphertext, the last 16 bytes its tag; bytes 0 to 8 are associated data |
//!
//! | offset | bytes | Reply |
//! |---|---|---|
//! | 0 | 1 | 83; 84: the way that it has come is associated data too |
//! | 1 | 1 | length |
//! | 2 | 4 | the exchange's highest bits |
//! | 6 | 8 | version, which is the nonce |
//! | 14 | … | ciphertext, the last 16 bytes its tag; bytes 0 to 13 are associated data |

use super::Refused;

/// Version of the messages.
pub const VERSION: u8 = 1;
/// Longest message: it fits behind the longest fabric header in 1500 bytes.
pub const MESSAGE_LEN_MAX: usize = 1500 - 6 - 64;
/// Bytes before a Hello's Noise message.
pub const HELLO_HEADER_LEN: usize = 14;
/// Bytes before a Sealed message's ciphertext.
pub const SEALED_HEADER_LEN: usize = 18;
/// Bytes before a Keyed message's ciphertext.
pub const KEYED_HEADER_LEN: usize = 26;
/// Bytes of an authentication tag.
pub const TAG_LEN: usize = plexus_seal::TAG_LEN;

/// Bytes before a short Sealed message's ciphertext.
pub const SHORT_HEADER_LEN: usize = 9;
/// Bytes before a Reply's ciphertext.
pub const REPLY_HEADER_LEN: usize = 14;
/// Longest plaintext of a short Sealed message.
pub const SHORT_PLAINTEXT_MAX: usize = 255 - SHORT_HEADER_LEN - TAG_LEN;
/// Longest plaintext of a Reply.
pub const REPLY_PLAINTEXT_MAX: usize = 255 - REPLY_HEADER_LEN - TAG_LEN;
/// Bits of a counter in a short message.
pub(super) const SHORT_COUNTER_BITS: u32 = 24;

const COMMON_LEN: usize = 4;
const HELLO: u8 = 1;
const SEALED: u8 = 2;
const KEYED: u8 = 3;
/// First bytes of short messages.
const SHORT_SEALED: u8 = 0x82;
const REPLY: u8 = 0x83;
const REPLY_RECORDED: u8 = 0x84;

/// A message, checked for its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A step of a handshake.
    Hello(Hello<'a>),
    /// A message in a session.
    Sealed(Sealed<'a>),
    /// A message under the key of an exchange.
    Keyed(Keyed<'a>),
    /// The answer to another node's question.
    Reply(Reply<'a>),
}

/// A step of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// 1 to 3.
    pub step: u8,
    /// The sender's number of the session.
    pub sender: u32,
    /// The receiver's number of it.
    pub receiver: u32,
    /// The Noise message.
    pub noise: &'a [u8],
}

/// A message in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed<'a> {
    /// The receiver's number of the session.
    pub receiver: u32,
    /// Number of the message in its direction, which is the nonce.
    pub counter: u64,
    /// The counter has only its lowest 24 bits.
    pub is_short: bool,
    /// Header, authenticated in the clear.
    pub header: &'a [u8],
    /// Ciphertext and tag.
    pub ciphertext: &'a [u8],
}

/// A message under the key of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyed<'a> {
    /// Number of the exchange.
    pub exchange: u64,
    /// Nonce, never used twice with a key.
    pub nonce: [u8; 12],
    /// Header, authenticated in the clear.
    pub header: &'a [u8; KEYED_HEADER_LEN],
    /// Ciphertext and tag.
    pub ciphertext: &'a [u8],
}

/// The answer to another node's question, under the reply key of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The highest 32 bits of the number of the exchange.
    pub exchange: u32,
    /// The version of the routes: never used twice with a key.
    pub version: u64,
    /// The way that it has come is authenticated too.
    pub is_recorded: bool,
    /// Header, authenticated in the clear.
    pub header: &'a [u8],
    /// Ciphertext and tag.
    pub ciphertext: &'a [u8],
}

/// Checks version, kind and length, which all messages have. Returns the kind, and the message
/// without padding, at least [`COMMON_LEN`] bytes.
fn common(bytes: &[u8]) -> Result<(u8, &[u8]), Refused> {
    let Some(&[version, kind, high, low]) = bytes.first_chunk() else {
        return Err(Refused::Truncated);
    };
    if version != VERSION {
        return Err(Refused::Version);
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MESSAGE_LEN_MAX {
        return Err(Refused::Oversized);
    }
    if length < COMMON_LEN {
        return Err(Refused::Malformed);
    }
    Ok((kind, bytes.get(..length).ok_or(Refused::Truncated)?))
}

impl<'a> Message<'a> {
    /// Parses a message, which padding may follow.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn decode(bytes: &'a [u8]) -> Result<Message<'a>, Refused> {
        if let Some(&[kind @ (SHORT_SEALED | REPLY | REPLY_RECORDED), length]) = bytes.first_chunk()
        {
            let bytes = bytes.get(..length.into()).ok_or(Refused::Truncated)?;
            return match kind {
                SHORT_SEALED => short(bytes).map(Message::Sealed),
                kind => reply(bytes, kind == REPLY_RECORDED).map(Message::Reply),
            };
        }
        let (kind, bytes) = common(bytes)?;
        match kind {
            HELLO => hello(bytes).map(Message::Hello),
            SEALED => sealed(bytes).map(Message::Sealed),
            KEYED => keyed(bytes).map(Message::Keyed),
            _ => Err(Refused::Kind),
        }
    }
}

fn hello(bytes: &[u8]) -> Result<Hello<'_>, Refused> {
    let Some((header, noise)) = bytes.split_first_chunk::<HELLO_HEADER_LEN>() else {
        return Err(Refused::Truncated);
    };
    let (step, sender) = (header[4], u32_at(header, 6));
    let receiver = u32_at(header, 10);
    let known = matches!(step, 1..=3) && header[5] == 0;
    if !known || sender == 0 || (step == 1) != (receiver == 0) {
        return Err(Refused::Malformed);
    }
    Ok(Hello { step, sender, receiver, noise })
}

fn sealed(bytes: &[u8]) -> Result<Sealed<'_>, Refused> {
    let Some((header, ciphertext)) = bytes.split_first_chunk::<SEALED_HEADER_LEN>() else {
        return Err(Refused::Truncated);
    };
    check_sealed(header, ciphertext)?;
    let (receiver, counter) = (u32_at(header, 6), u64_at(header, 10));
    Ok(Sealed { receiver, counter, is_short: false, header, ciphertext })
}

fn short(bytes: &[u8]) -> Result<Sealed<'_>, Refused> {
    let (header, ciphertext) = split_short(bytes, SHORT_HEADER_LEN)?;
    let counter = header[6..].iter().fold(0, |n, b| n << 8 | u64::from(*b));
    Ok(Sealed { receiver: u32_at(header, 2), counter, is_short: true, header, ciphertext })
}

fn reply(bytes: &[u8], is_recorded: bool) -> Result<Reply<'_>, Refused> {
    let (header, ciphertext) = split_short(bytes, REPLY_HEADER_LEN)?;
    let (exchange, version) = (u32_at(header, 2), u64_at(header, 6));
    Ok(Reply { exchange, version, is_recorded, header, ciphertext })
}

/// Header and ciphertext of a short message, the latter with a whole tag.
fn split_short(bytes: &[u8], header: usize) -> Result<(&[u8], &[u8]), Refused> {
    let parts = bytes.split_at_checked(header).ok_or(Refused::Truncated)?;
    if parts.1.len() < TAG_LEN { Err(Refused::Truncated) } else { Ok(parts) }
}

fn keyed(bytes: &[u8]) -> Result<Keyed<'_>, Refused> {
    let Some((header, ciphertext)) = bytes.split_first_chunk::<KEYED_HEADER_LEN>() else {
        return Err(Refused::Truncated);
    };
    check_sealed(header, ciphertext)?;
    let mut nonce = [0; 12];
    nonce.copy_from_slice(&header[14..]);
    Ok(Keyed { exchange: u64_at(header, 6), nonce, header, ciphertext })
}

fn check_sealed(header: &[u8], ciphertext: &[u8]) -> Result<(), Refused> {
    if header[4..6] != [0, 0] {
        return Err(Refused::Malformed);
    }
    if ciphertext.len() < TAG_LEN { Err(Refused::Truncated) } else { Ok(()) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |n, b| n << 8 | u32::from(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Begins a message of this kind with a total length of `length`, at most [`MESSAGE_LEN_MAX`].
fn begin(kind: u8, length: usize) -> Vec<u8> {
    debug_assert!(length <= MESSAGE_LEN_MAX, "callers bound their messages");
    let mut out = Vec::with_capacity(length);
    out.extend([VERSION, kind]);
    out.extend((length as u16).to_be_bytes());
    out
}

/// A Hello; its Noise message is at most [`MESSAGE_LEN_MAX`] less [`HELLO_HEADER_LEN`] long.
pub(super) fn encode_hello(hello: &Hello<'_>) -> Vec<u8> {
    let mut out = begin(HELLO, HELLO_HEADER_LEN + hello.noise.len());
    out.extend([hello.step, 0]);
    out.extend(hello.sender.to_be_bytes());
    out.extend(hello.receiver.to_be_bytes());
    out.extend(hello.noise);
    out
}

/// The header of a Sealed message whose plaintext will be `plaintext_len` long.
pub(super) fn begin_sealed(receiver: u32, counter: u64, plaintext_len: usize) -> Vec<u8> {
    let mut out = begin(SEALED, SEALED_HEADER_LEN + plaintext_len + TAG_LEN);
    out.extend([0, 0]);
    out.extend(receiver.to_be_bytes());
    out.extend(counter.to_be_bytes());
    out
}

/// The header of a short Sealed message whose plaintext will be `plaintext_len` long, at most
/// [`SHORT_PLAINTEXT_MAX`].
pub(super) fn begin_short(receiver: u32, counter: u64, plaintext_len: usize) -> Vec<u8> {
    let length = SHORT_HEADER_LEN + plaintext_len + TAG_LEN;
    let mut out = Vec::with_capacity(length);
    out.extend([SHORT_SEALED, length as u8]);
    out.extend(receiver.to_be_bytes());
    out.extend(&counter.to_be_bytes()[5..]);
    out
}

/// The header of a Reply whose plaintext will be `plaintext_len` long, at most
/// [`REPLY_PLAINTEXT_MAX`].
pub(super) fn begin_reply(
    exchange: u64,
    version: u64,
    is_recorded: bool,
    plaintext_len: usize,
) -> Vec<u8> {
    let length = REPLY_HEADER_LEN + plaintext_len + TAG_LEN;
    let mut out = Vec::with_capacity(length);
    out.extend([if is_recorded { REPLY_RECORDED } else { REPLY }, length as u8]);
    out.extend(&exchange.to_be_bytes()[..4]);
    out.extend(version.to_be_bytes());
    out
}

/// The header of a Keyed message whose plaintext will be `plaintext_len` long.
pub(super) fn begin_keyed(exchange: u64, nonce: &[u8; 12], plaintext_len: usize) -> Vec<u8> {
    let mut out = begin(KEYED, KEYED_HEADER_LEN + plaintext_len + TAG_LEN);
    out.extend([0, 0]);
    out.extend(exchange.to_be_bytes());
    out.extend(nonce);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_laid_out_as_the_tables_say() {
        let hello = Hello { step: 2, sender: 0x01020304, receiver: 0x05060708, noise: &[9; 3] };
        let bytes = encode_hello(&hello);
        assert_eq!(bytes, [1, 1, 0, 17, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9]);
        let padded = [&bytes[..], &[0; 40]].concat();
        assert_eq!(Message::decode(&padded), Ok(Message::Hello(hello)));
        let mut bytes = begin_sealed(0x0A0B0C0D, 0x0102030405060708, 0);
        assert_eq!(bytes, [1, 2, 0, 34, 0, 0, 10, 11, 12, 13, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend([7; 16]);
        let Ok(Message::Sealed(sealed)) = Message::decode(&bytes) else { panic!("it is sealed") };
        assert_eq!((sealed.receiver, sealed.counter), (0x0A0B0C0D, 0x0102030405060708));
        assert_eq!((sealed.header, sealed.ciphertext), (&bytes[..18], &[7; 16][..]));
        let mut bytes = begin_keyed(0x0102030405060708, &[5; 12], 0);
        assert_eq!(bytes.len(), KEYED_HEADER_LEN);
        bytes.extend([7; 16]);
        let Ok(Message::Keyed(keyed)) = Message::decode(&bytes) else { panic!("it is keyed") };
        assert_eq!((keyed.exchange, keyed.nonce), (0x0102030405060708, [5; 12]));
    }

    #[test]
    fn headers_of_short_messages_are_laid_out_as_the_tables_say() {
        let mut bytes = begin_short(0x0A0B0C0D, 0x0102030405060708, 1);
        assert_eq!(bytes, [0x82, 26, 10, 11, 12, 13, 6, 7, 8]);
        bytes.extend([7; 17]);
        let padded = [&bytes[..], &[0; 40]].concat();
        let Ok(Message::Sealed(sealed)) = Message::decode(&padded) else { panic!("it is sealed") };
        assert_eq!(
            (sealed.receiver, sealed.counter, sealed.is_short),
            (0x0A0B0C0D, 0x060708, true)
        );
        assert_eq!((sealed.header, sealed.ciphertext), (&bytes[..9], &[7; 17][..]));
        for (is_recorded, first) in [(false, 0x83), (true, 0x84)] {
            let mut bytes = begin_reply(0x0102030405060708, 9, is_recorded, 0);
            assert_eq!(bytes, [first, 30, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 9]);
            bytes.extend([7; 16]);
            let Ok(Message::Reply(reply)) = Message::decode(&bytes) else { panic!("a reply") };
            assert_eq!((reply.exchange, reply.version), (0x01020304, 9));
            assert_eq!((reply.is_recorded, reply.ciphertext), (is_recorded, &[7; 16][..]));
        }
        for len in 0..26 {
            assert_eq!(Message::decode(&bytes[..len]), Err(Refused::Truncated), "{len}");
        }
        bytes[1] = 24;
        assert_eq!(Message::decode(&bytes), Err(Refused::Truncated), "half a tag");
        bytes[0] = 0x85;
        assert_eq!(Message::decode(&bytes), Err(Refused::Version));
    }

    #[test]
    fn each_fault_has_its_name() {
        let good = encode_hello(&Hello { step: 1, sender: 1, receiver: 0, noise: &[9; 32] });
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            Message::decode(&bytes).map(|_| ())
        };
        assert_eq!(Message::decode(&[]), Err(Refused::Truncated));
        assert_eq!(Message::decode(&good[..45]), Err(Refused::Truncated));
        assert_eq!(with(0, 2), Err(Refused::Version));
        assert_eq!(with(1, 0), Err(Refused::Kind));
        assert_eq!(with(1, 4), Err(Refused::Kind));
        assert_eq!(with(2, 0xFF), Err(Refused::Oversized));
        assert_eq!(with(3, 3), Err(Refused::Malformed));
        assert_eq!(with(3, 13), Err(Refused::Truncated));
        assert_eq!(with(4, 0), Err(Refused::Malformed));
        assert_eq!(with(4, 2), Err(Refused::Malformed));
        assert_eq!(with(4, 4), Err(Refused::Malformed));
        assert_eq!(with(5, 1), Err(Refused::Malformed));
        assert_eq!(with(9, 0), Err(Refused::Malformed));
        assert_eq!(with(13, 1), Err(Refused::Malformed));
    }
}
