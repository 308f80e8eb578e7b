//! The kernel's `netdev` family of generic netlink (Linux 6.3): what drivers can do with XDP.

use std::collections::BTreeMap;

use super::message::{attributes, messages, u16_at, u32_at, value_of};
use super::socket::{Received, Socket};

/// Answers are short, and come one by one.
const RECEIVE_BYTES: i32 = 1 << 16;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_CMD_DEV_DEL_NTF: u8 = 3;
const NETDEV_CMD_DEV_CHANGE_NTF: u8 = 4;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// A driver's support of XDP (`enum netdev_xdp_act` of linux/netdev.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// It runs programs and lets them hand frames to a socket: AF_XDP in native mode.
    pub native: bool,
    /// It reads and writes the sockets' frames itself.
    pub zero_copy: bool,
    /// It sends frames that programs redirect to it. A virtual cable does while its far end polls.
    pub sends_redirected: bool,
}

impl XdpFeatures {
    /// Of the attributes of a device, behind the number of the message.
    fn read(body: &[u8]) -> Option<XdpFeatures> {
        const BASIC: u64 = 1;
        const REDIRECT: u64 = 1 << 1;
        const NDO_XMIT: u64 = 1 << 2;
        const ZERO_COPY: u64 = 1 << 3;
        let value = value_of(body.get(4..)?, NETDEV_A_DEV_XDP_FEATURES)?;
        let all = u64::from_ne_bytes(value.try_into().ok()?);
        let has = |bits: u64| all & bits == bits;
        Some(XdpFeatures {
            native: has(BASIC | REDIRECT),
            zero_copy: has(ZERO_COPY),
            sends_redirected: has(NDO_XMIT),
        })
    }
}

/// Sockets of the network namespace of the thread that opened them.
#[derive(Debug)]
pub(crate) struct Netdev {
    socket: Socket,
    family: Family,
    /// Hears of changes, once [`follow`](Netdev::follow) has been called.
    news: Option<Socket>,
    /// Devices that are followed.
    known: BTreeMap<u32, XdpFeatures>,
}

#[derive(Clone, Copy, Debug)]
struct Family {
    number: u16,
    /// The multicast group of changes.
    changes: Option<u32>,
}

impl Netdev {
    /// `None` if the kernel has no such family.
    pub(crate) fn open() -> Option<Netdev> {
        let mut socket = Socket::generic(RECEIVE_BYTES).ok()?;
        let family = family(&mut socket)?;
        Some(Netdev { socket, family, news: None, known: BTreeMap::new() })
    }

    /// Of the device with this number; `None` if there is none. The kernel may have to wait for
    /// others that change devices.
    pub(crate) fn xdp_features(&mut self, index: u32) -> Option<XdpFeatures> {
        let mut features = None;
        let asked = self.socket.request(
            self.family.number,
            0,
            &[NETDEV_CMD_DEV_GET, 1, 0, 0],
            |request| request.put(NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes()),
            |answer| features = XdpFeatures::read(answer.body),
        );
        asked.ok()?;
        features
    }

    /// The same, from what the kernel has said unasked. It is asked only once for each device, and
    /// after it had more to say than the socket holds.
    pub(crate) fn follow(&mut self, index: u32) -> Option<XdpFeatures> {
        self.hear();
        if let Some(known) = self.known.get(&index) {
            return Some(*known);
        }
        let features = self.xdp_features(index)?;
        if self.news.is_some() {
            self.known.insert(index, features);
        }
        Some(features)
    }

    fn hear(&mut self) {
        if self.news.is_none() {
            let joined = self.family.changes.map(Socket::generic_of);
            self.news = joined.and_then(Result::ok);
        }
        let Some(news) = &mut self.news else { return };
        loop {
            match news.receive() {
                Ok(Received::Datagram(bytes)) => {
                    for message in messages(bytes).filter(|m| m.kind == self.family.number) {
                        let rest = message.body.get(4..).unwrap_or_default();
                        let index = value_of(rest, NETDEV_A_DEV_IFINDEX);
                        let Some(index) = index.and_then(|v| u32_at(v, 0)) else { continue };
                        match (message.body.first(), XdpFeatures::read(message.body)) {
                            (Some(&NETDEV_CMD_DEV_DEL_NTF), _) => drop(self.known.remove(&index)),
                            (Some(&NETDEV_CMD_DEV_CHANGE_NTF), Some(features)) => {
                                self.known.entry(index).and_modify(|known| *known = features);
                            }
                            _ => {}
                        }
                    }
                }
                Ok(Received::Empty) => return,
                Ok(Received::Overflow) | Err(_) => return self.known.clear(),
            }
        }
    }
}

/// The family's number and group.
fn family(socket: &mut Socket) -> Option<Family> {
    const GENL_ID_CTRL: u16 = 0x10;
    const CTRL_CMD_GETFAMILY: u8 = 3;
    const CTRL_ATTR_FAMILY_ID: u16 = 1;
    const CTRL_ATTR_FAMILY_NAME: u16 = 2;
    const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
    const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
    const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;
    let (mut number, mut changes) = (None, None);
    let asked = socket.request(
        GENL_ID_CTRL,
        0,
        &[CTRL_CMD_GETFAMILY, 1, 0, 0],
        |request| request.put(CTRL_ATTR_FAMILY_NAME, b"netdev\0"),
        |answer| {
            let rest = answer.body.get(4..).unwrap_or_default();
            number = value_of(rest, CTRL_ATTR_FAMILY_ID).and_then(|value| u16_at(value, 0));
            let groups = value_of(rest, CTRL_ATTR_MCAST_GROUPS).unwrap_or_default();
            let is_for_changes = |group: &&[u8]| {
                value_of(group, CTRL_ATTR_MCAST_GRP_NAME).is_some_and(|name| name == b"mgmt\0")
            };
            let group = attributes(groups).map(|(_, group)| group).find(is_for_changes);
            changes = group
                .and_then(|group| value_of(group, CTRL_ATTR_MCAST_GRP_ID))
                .and_then(|value| u32_at(value, 0));
        },
    );
    asked.ok()?;
    Some(Family { number: number?, changes })
}
