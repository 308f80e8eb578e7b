//! The kernel's `netdev` family of generic netlink (Linux 6.3): what drivers can do with XDP.

use super::message::{attributes, u16_at};
use super::socket::Socket;

/// Answers are short, and come one by one.
const RECEIVE_BYTES: i32 = 1 << 16;

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

/// A socket of the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netdev {
    socket: Socket,
    family: u16,
}

impl Netdev {
    /// `None` if the kernel has no such family.
    pub(crate) fn open() -> Option<Netdev> {
        let mut socket = Socket::generic(RECEIVE_BYTES).ok()?;
        let family = family(&mut socket)?;
        Some(Netdev { socket, family })
    }

    /// Of the device with this number; `None` if there is none.
    pub(crate) fn xdp_features(&mut self, index: u32) -> Option<XdpFeatures> {
        const NETDEV_CMD_DEV_GET: u8 = 1;
        const NETDEV_A_DEV_IFINDEX: u16 = 1;
        const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
        const BASIC: u64 = 1;
        const REDIRECT: u64 = 1 << 1;
        const NDO_XMIT: u64 = 1 << 2;
        const ZERO_COPY: u64 = 1 << 3;
        let mut features = None;
        let asked = self.socket.request(
            self.family,
            0,
            &[NETDEV_CMD_DEV_GET, 1, 0, 0],
            |request| request.put(NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes()),
            |answer| {
                let rest = answer.body.get(4..).unwrap_or_default();
                let bits = attributes(rest).find(|(name, _)| *name == NETDEV_A_DEV_XDP_FEATURES);
                features =
                    bits.and_then(|(_, value)| value.try_into().ok()).map(u64::from_ne_bytes);
            },
        );
        asked.ok()?;
        let has = |bits: u64| features.map(|all| all & bits == bits);
        Some(XdpFeatures {
            native: has(BASIC | REDIRECT)?,
            zero_copy: has(ZERO_COPY)?,
            sends_redirected: has(NDO_XMIT)?,
        })
    }
}

/// The number of the family.
fn family(socket: &mut Socket) -> Option<u16> {
    const GENL_ID_CTRL: u16 = 0x10;
    const CTRL_CMD_GETFAMILY: u8 = 3;
    const CTRL_ATTR_FAMILY_ID: u16 = 1;
    const CTRL_ATTR_FAMILY_NAME: u16 = 2;
    let mut family = None;
    let asked = socket.request(
        GENL_ID_CTRL,
        0,
        &[CTRL_CMD_GETFAMILY, 1, 0, 0],
        |request| request.put(CTRL_ATTR_FAMILY_NAME, b"netdev\0"),
        |answer| {
            let rest = answer.body.get(4..).unwrap_or_default();
            let id = attributes(rest).find(|(name, _)| *name == CTRL_ATTR_FAMILY_ID);
            family = id.and_then(|(_, value)| u16_at(value, 0));
        },
    );
    asked.ok()?;
    family
}
