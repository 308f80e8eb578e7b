//! Nodes in a row between two hosts, and packets whose work their hosts have left to devices.

use plexus_io::fast::{Action, FabricLink, FastTable, Flow, Key, RuleId};
use plexus_io::{Checksum, Offload, Segmentation};

use super::fabric::set_link;
use super::tables::{Hook, Socket};
use super::{Ip, net, settled, super_packet, wait};

/// A node of a row: its table has a rule from its port 0 to its port 1. It stays for a whole test:
/// a child process that another test starts may keep a table that is gone.
pub(crate) struct InChain {
    table: Box<dyn FastTable>,
    pub(crate) ports: [Socket; 2],
}

impl InChain {
    pub(crate) fn new(
        devices: [&str; 2],
        links: [Option<FabricLink>; 2],
        key: Key,
        action: Action,
    ) -> InChain {
        let mut table = Hook::Tcx.table();
        let ports = devices.map(Socket::on);
        for (id, (socket, link)) in (0..).zip(ports.iter().zip(links)) {
            table.open(id, socket.port.kernel_end().unwrap()).unwrap();
            link.into_iter().for_each(|link| set_link(&mut *table, id, &link));
        }
        settled(&mut *table, &key, &action);
        InChain { table, ports }
    }

    /// Another rule takes the place of the only one.
    pub(crate) fn set(&mut self, (old, key): (&Key, &Key), action: &Action) {
        self.table.remove(old, RuleId(0));
        self.table.forget(RuleId(0));
        settled(&mut *self.table, key, action);
    }

    pub(crate) fn forwarded(&self) -> u64 {
        self.table.read(RuleId(0)).packets
    }
}

/// A packet and the work that its host has left to its device.
pub(crate) struct Owing {
    pub(crate) packet: Ip,
    pub(crate) owed: Offload,
}

impl Owing {
    pub(crate) fn new(is_v4: bool, segmentation: Segmentation) -> Owing {
        let is_super = segmentation != Segmentation::None;
        let is_udp = segmentation == Segmentation::Udp;
        let mut packet = super_packet(is_v4, segmentation);
        if !is_super {
            packet.packet.truncate(280);
            let (at, len) = if is_v4 { (2, 280u16) } else { (4, 280 - 40) };
            let [a, b] = len.to_be_bytes();
            packet = packet.with(at, a).with(at + 1, b);
        }
        let transport = if is_v4 { 34 } else { 54 };
        let owed = Offload {
            checksum: Checksum::Partial,
            checksum_start: transport,
            checksum_offset: if is_udp { 6 } else { 16 },
            segmentation,
            segment_size: if is_super { 1448 } else { 0 },
            header_len: match is_super {
                true => transport + if is_udp { 8 } else { 32 },
                false => 0,
            },
        };
        Owing { packet, owed }
    }

    /// Super-packets of TCP, and packets whose checksum is unfinished.
    pub(crate) fn all() -> [Owing; 4] {
        [
            Owing::new(true, Segmentation::TcpV4),
            Owing::new(false, Segmentation::TcpV6),
            Owing::new(true, Segmentation::None),
            Owing::new(false, Segmentation::None),
        ]
    }

    pub(crate) fn flow(&self) -> Key {
        Key::Flow(Flow::of(0, &self.packet.frame()).unwrap())
    }
}

/// The next packet that comes in by a socket.
pub(crate) fn next(socket: &mut Socket) -> (Vec<u8>, Offload) {
    let mut got = None;
    wait(|| {
        got = socket.take();
        got.is_some()
    });
    got.unwrap()
}

/// Cables to hosts, and links that carry no more than a link of the fabric must.
pub(crate) fn cables(hosts: &[(&str, &str)], links: &[(&str, &str)]) {
    hosts.iter().chain(links).for_each(|(near, far)| net::veth(near, far));
    for (near, far) in links {
        for device in [near, far] {
            net::command("ip", &format!("link set {device} mtu 1624"));
        }
    }
}

/// The link as the node at its other end has it.
pub(crate) fn turned(link: FabricLink) -> FabricLink {
    FabricLink { out: link.back, back: link.out, ..link }
}
