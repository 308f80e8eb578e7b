//! Messages between switches and fabric manager. The paper gives fields, but no encoding; this is a
//! simple one, without acknowledgement or authentication. A frame is an Ethernet header with the
//! sender's identifier as source, of EtherType 0x88B5 (IEEE 802, 9.2.4: local experiments), a byte
//! for the kind of message, and its fields in this order, big-endian:
//!
//! | kind | message | fields |
//! |---|---|---|
//! | 1 | location (LDM) | flags 1, pod 2, position 1, hops to the manager 2 |
//! | 2 | proposal | position 1 |
//! | 3 | verdict | position 1, granted 1, count 1, positions taken |
//! | 4 | place wanted | alone 1 |
//! | 5 | place | pod 2, position 1 |
//! | 6 | registration | answered 1, IP 4, actual MAC 6, PMAC 6 |
//! | 7 | question | asker's IP 4, asker's PMAC 6, IP wanted 4 |
//! | 8 | answer | as a question, PMAC 6 |
//! | 9 | question to all | as a question |
//!
//! Flags of a location: bit 0 pod known, bit 1 position known, bits 2 and 3 level + 1 (0:
//! unknown), bit 4 the receiver is the way to the manager, bit 5 hosts are behind the sender.
//! All frames but long verdicts are padded to 60 bytes, as on any Ethernet.

use std::net::Ipv4Addr;

use plexus_wire::{MacAddr, ethernet};

/// The EtherType of all messages.
pub const ETHERTYPE: u16 = 0x88B5;
/// To the neighbour on the cable.
pub(super) const NEIGHBOUR: MacAddr = MacAddr([0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E]);
/// To the fabric manager, by the next switch on the path.
pub(super) const MANAGER: MacAddr = MacAddr([0x02, 0x0F, 0, 0, 0, 1]);
/// From the manager to all switches with hosts.
pub(super) const EVERYBODY: MacAddr = MacAddr([0x03, 0x0F, 0, 0, 0, 2]);
/// No path to the manager is known.
pub(super) const NO_WAY: u16 = u16::MAX;

/// Where a switch is among the levels of a fat tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It has hosts.
    Edge,
    /// It has edge switches below.
    Aggregation,
    /// It has aggregation switches only.
    Core,
}

/// A switch's announcement to its neighbours: a location discovery message, and, because the
/// manager is in band, the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) pod: Option<u16>,
    pub(super) position: Option<u8>,
    pub(super) level: Option<Level>,
    /// The receiver is the sender's next hop to the manager.
    pub(super) is_child: bool,
    /// Hosts are behind the sender, as seen from the manager.
    pub(super) has_hosts: bool,
    /// Hops to the manager: 0 is the manager itself.
    pub(super) distance: u16,
}

/// A host asks for another one's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) asker_ip: Ipv4Addr,
    pub(super) asker: MacAddr,
    pub(super) wanted: Ipv4Addr,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Location(Location),
    Proposal { position: u8 },
    Verdict { position: u8, granted: bool, taken: Vec<u8> },
    PlaceWanted { alone: bool },
    Place { pod: u16, position: u8 },
    Registration { answered: bool, ip: Ipv4Addr, actual: MacAddr, pmac: MacAddr },
    Question(Question),
    Answer { question: Question, pmac: MacAddr },
    QuestionToAll(Question),
}

impl Message {
    /// The frame that carries it.
    pub(super) fn to_frame(&self, src: MacAddr, dst: MacAddr) -> Vec<u8> {
        let mut f = Vec::with_capacity(ethernet::MIN_FRAME_LEN);
        f.extend(dst.0);
        f.extend(src.0);
        f.extend(ETHERTYPE.to_be_bytes());
        let question = |f: &mut Vec<u8>, kind: u8, q: &Question| {
            f.push(kind);
            f.extend(q.asker_ip.octets());
            f.extend(q.asker.0);
            f.extend(q.wanted.octets());
        };
        match self {
            Message::Location(l) => {
                let level = match l.level {
                    None => 0,
                    Some(Level::Edge) => 1,
                    Some(Level::Aggregation) => 2,
                    Some(Level::Core) => 3,
                };
                let bits = [(l.pod.is_some(), 0), (l.position.is_some(), 1), (l.is_child, 4)];
                let bits = bits.into_iter().chain([(l.has_hosts, 5)]);
                let flags = bits.map(|(set, bit)| u8::from(set) << bit).sum::<u8>() | level << 2;
                f.extend([1, flags]);
                f.extend(l.pod.unwrap_or_default().to_be_bytes());
                f.push(l.position.unwrap_or_default());
                f.extend(l.distance.to_be_bytes());
            }
            Message::Proposal { position } => f.extend([2, *position]),
            Message::Verdict { position, granted, taken } => {
                // 256 positions at most, one of which is the one asked for.
                let taken = &taken[..taken.len().min(255)];
                f.extend([3, *position, u8::from(*granted), taken.len() as u8]);
                f.extend(taken);
            }
            Message::PlaceWanted { alone } => f.extend([4, u8::from(*alone)]),
            Message::Place { pod, position } => {
                f.push(5);
                f.extend(pod.to_be_bytes());
                f.push(*position);
            }
            Message::Registration { answered, ip, actual, pmac } => {
                f.extend([6, u8::from(*answered)]);
                f.extend(ip.octets());
                f.extend(actual.0);
                f.extend(pmac.0);
            }
            Message::Question(q) => question(&mut f, 7, q),
            Message::Answer { question: q, pmac } => {
                question(&mut f, 8, q);
                f.extend(pmac.0);
            }
            Message::QuestionToAll(q) => question(&mut f, 9, q),
        }
        f.resize(f.len().max(ethernet::MIN_FRAME_LEN), 0);
        f
    }

    /// Parses the bytes after the Ethernet header; `None` for other messages.
    pub(super) fn parse(body: &[u8]) -> Option<Message> {
        let mut r = Reader(body);
        let question = |r: &mut Reader<'_>| {
            let asker_ip = Ipv4Addr::from(r.take::<4>()?);
            let (asker, wanted) = (MacAddr(r.take()?), Ipv4Addr::from(r.take::<4>()?));
            Some(Question { asker_ip, asker, wanted })
        };
        Some(match r.byte()? {
            1 => {
                let flags = r.byte()?;
                let pod = u16::from_be_bytes(r.take()?);
                let position = r.byte()?;
                let distance = u16::from_be_bytes(r.take()?);
                Message::Location(Location {
                    pod: (flags & 1 != 0).then_some(pod),
                    position: (flags & 2 != 0).then_some(position),
                    level: match flags >> 2 & 3 {
                        0 => None,
                        1 => Some(Level::Edge),
                        2 => Some(Level::Aggregation),
                        _ => Some(Level::Core),
                    },
                    is_child: flags & 1 << 4 != 0,
                    has_hosts: flags & 1 << 5 != 0,
                    distance,
                })
            }
            2 => Message::Proposal { position: r.byte()? },
            3 => {
                let (position, granted) = (r.byte()?, r.flag()?);
                let count = usize::from(r.byte()?);
                Message::Verdict { position, granted, taken: r.0.get(..count)?.to_vec() }
            }
            4 => Message::PlaceWanted { alone: r.flag()? },
            5 => Message::Place { pod: u16::from_be_bytes(r.take()?), position: r.byte()? },
            6 => Message::Registration {
                answered: r.flag()?,
                ip: Ipv4Addr::from(r.take::<4>()?),
                actual: MacAddr(r.take()?),
                pmac: MacAddr(r.take()?),
            },
            7 => Message::Question(question(&mut r)?),
            8 => Message::Answer { question: question(&mut r)?, pmac: MacAddr(r.take()?) },
            9 => Message::QuestionToAll(question(&mut r)?),
            _ => return None,
        })
    }
}

/// Bytes yet to be read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> impl Strategy<Value = Message> {
        let level = prop_oneof![
            Just(None),
            Just(Some(Level::Edge)),
            Just(Some(Level::Aggregation)),
            Just(Some(Level::Core))
        ];
        let location = (any::<(Option<u16>, Option<u8>, bool, bool, u16)>(), level);
        let location =
            location.prop_map(|((pod, position, is_child, has_hosts, distance), level)| Location {
                pod,
                position,
                level,
                is_child,
                has_hosts,
                distance,
            });
        let question = any::<(u32, [u8; 6], u32)>().prop_map(|(from, asker, to)| Question {
            asker_ip: from.into(),
            asker: MacAddr(asker),
            wanted: to.into(),
        });
        let macs = any::<[[u8; 6]; 2]>().prop_map(|macs| macs.map(MacAddr));
        prop_oneof![
            location.prop_map(Message::Location),
            any::<u8>().prop_map(|position| Message::Proposal { position }),
            (any::<(u8, bool)>(), proptest::collection::vec(any::<u8>(), 0..255)).prop_map(
                |((position, granted), taken)| Message::Verdict { position, granted, taken }
            ),
            any::<bool>().prop_map(|alone| Message::PlaceWanted { alone }),
            any::<(u16, u8)>().prop_map(|(pod, position)| Message::Place { pod, position }),
            (any::<(bool, u32)>(), macs).prop_map(|((answered, ip), [actual, pmac])| {
                Message::Registration { answered, ip: ip.into(), actual, pmac }
            }),
            question.clone().prop_map(Message::Question),
            (question.clone(), any::<[u8; 6]>())
                .prop_map(|(question, pmac)| Message::Answer { question, pmac: MacAddr(pmac) }),
            question.prop_map(Message::QuestionToAll),
        ]
    }

    proptest! {
        #[test]
        fn written_values_parse_back(message in messages()) {
            let frame = message.to_frame(MacAddr([2; 6]), MANAGER);
            prop_assert!(frame.len() >= 60);
            prop_assert_eq!(Message::parse(&frame[14..]), Some(message));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Message::parse(&bytes);
        }
    }
}
