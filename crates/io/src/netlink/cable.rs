//! The far ends of virtual cables (veth(4)), in whichever network namespace they are.

use super::interface::link_header;
use super::message::{Message, u32_at, value_of};
use super::socket::Socket;

/// Answers are short, and come one by one.
const RECEIVE_BYTES: i32 = 1 << 16;
/// `IFLA_TARGET_NETNSID`, and `IFLA_XDP` with `IFLA_XDP_ATTACHED` in it (linux/if_link.h).
const TARGET_NETNSID: u16 = 46;
const XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;

/// A socket of the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Cables {
    socket: Socket,
}

impl Cables {
    /// `None` if the kernel refuses.
    pub(crate) fn open() -> Option<Cables> {
        Some(Cables { socket: Socket::open(0, RECEIVE_BYTES).ok()? })
    }

    /// Whether a device is one end of a virtual cable whose far end hands its packets to sockets as
    /// they are: it is no port of a bridge, and has no XDP program. False also if that cannot be
    /// found out: it takes CAP_NET_ADMIN over the far end's namespace.
    pub(crate) fn reaches_socket(&mut self, index: u32) -> bool {
        let (mut is_veth, mut peer, mut namespace) = (false, None, None);
        self.ask(index, None, |attributes| {
            let info = value_of(attributes, libc::IFLA_LINKINFO).unwrap_or_default();
            is_veth = value_of(info, libc::IFLA_INFO_KIND).is_some_and(|k| k.starts_with(b"veth"));
            peer = value_of(attributes, libc::IFLA_LINK).and_then(|value| u32_at(value, 0));
            let id = value_of(attributes, libc::IFLA_LINK_NETNSID);
            namespace = id.and_then(|value| u32_at(value, 0));
        });
        let Some(peer) = peer.filter(|_| is_veth) else { return false };
        let mut is_free = false;
        self.ask(peer, namespace, |attributes| {
            let master = value_of(attributes, libc::IFLA_MASTER).and_then(|v| u32_at(v, 0));
            let xdp = value_of(attributes, XDP).and_then(|xdp| value_of(xdp, XDP_ATTACHED));
            is_free = master.unwrap_or(0) == 0 && xdp.is_none_or(|mode| mode == [0]);
        });
        is_free
    }

    /// Hands on the attributes of a device of another namespace, or of this one.
    fn ask(&mut self, index: u32, namespace: Option<u32>, mut answer: impl FnMut(&[u8])) {
        let _ = self.socket.request(
            libc::RTM_GETLINK,
            0,
            &link_header(index, 0, 0),
            |request| {
                if let Some(id) = namespace {
                    request.put(TARGET_NETNSID, &id.to_ne_bytes());
                }
            },
            |message: Message<'_>| answer(message.body.get(16..).unwrap_or_default()),
        );
    }
}
