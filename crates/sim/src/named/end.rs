//! A host that asks and answers by name: the consumers and producers of `plexus ndn`, behind one
//! face to the group of its Ethernet.

use plexus_ndn::face::FaceId;
use plexus_ndn::link::{Came, Kind, Limits, Link, Memory, Options, Received};
use plexus_ndn_apps::app::{Application, Output};
use plexus_ndn_apps::produce::{self, Producer, Signing};
use plexus_ndn_faces::{ETHERNET_GROUP, read_frame};
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::{Interest, NameBuf};
use plexus_wire::{MacAddr, Time};

use super::{next_expiry, number_of, write_frame};
use crate::core::Core;
use crate::nic::Nic;
use crate::time::SimTime;

/// How long Data is fresh: longer than a run.
const FRESH: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// Its one face.
const FACE: FaceId = FaceId::new(0, 0).expect("the first place of all");

/// The programs of a host that speak named data, and their face.
pub(crate) struct NamedEnd {
    mac: MacAddr,
    link: Link,
    memory: Memory,
    expire_at: SimTime,
    producers: Vec<Producer>,
    /// Flows whose consumers are here.
    pub(crate) consumers: Vec<u32>,
    /// Memory to be used again.
    bytes: Vec<u8>,
    frame: Vec<u8>,
}

impl NamedEnd {
    /// A host with this address, on a cable of this MTU.
    pub(crate) fn new(mac: MacAddr, mtu: u16, first_sequence: u64) -> NamedEnd {
        NamedEnd {
            mac,
            link: Link::new(FACE, Options::new(mtu.into()), first_sequence),
            memory: Memory::new(Limits::default()),
            expire_at: SimTime::FOREVER,
            producers: vec![],
            consumers: vec![],
            bytes: vec![],
            frame: vec![],
        }
    }

    /// Answers Interests below a prefix with this many bytes from now on, without signatures.
    pub(crate) fn produce(&mut self, prefix: &NameBuf, size: u16) {
        if self.producers.iter().any(|p| p.prefix() == prefix) {
            return;
        }
        self.producers.push(Producer::new(produce::Config {
            prefix: prefix.clone(),
            size: size.into(),
            freshness: FRESH,
            signing: Signing::None,
            last: None,
            seed: 1,
        }));
        // The longest prefix answers.
        self.producers.sort_by_key(|p| std::cmp::Reverse(p.prefix().as_name().len()));
    }

    /// Whether a frame to this address is for it.
    pub(crate) fn takes(&self, to: MacAddr) -> bool {
        to == ETHERNET_GROUP || to == self.mac
    }

    /// Where programs send.
    pub(crate) fn out<'a>(&'a mut self, core: &'a mut Core, nic: &'a mut Nic) -> Out<'a> {
        let now = core.now.floor();
        Out { now, core, nic, link: &mut self.link, frame: &mut self.frame, mac: self.mac }
    }

    /// A frame has come. Producers answer an Interest here; `hear` gets Data and Nacks, and a way
    /// to send.
    pub(crate) fn receive(
        &mut self,
        core: &mut Core,
        nic: &mut Nic,
        frame: &[u8],
        mut hear: impl FnMut(&[u32], &Received<'_>, &mut Out<'_>),
    ) {
        let now = core.now.floor();
        self.bytes.clear();
        self.bytes.extend_from_slice(frame);
        let NamedEnd { mac, link, memory, producers, consumers, bytes, frame, .. } = self;
        let Some((_, from, link_packet)) = read_frame(bytes) else { return };
        let received = link.receive_from(now, number_of(from), link_packet, memory);
        if let Ok(Some(received)) = received.map(|came| came.map(Came::packet)) {
            let mut out = Out { now, core, nic, link, frame, mac: *mac };
            match received.kind {
                Kind::Interest => {
                    let name = Interest::new_checked(received.packet).map(|i| i.name());
                    let covers = |p: &&mut Producer| {
                        name.as_ref().is_ok_and(|n| p.prefix().as_name().is_prefix_of(n))
                    };
                    if let Some(producer) = producers.iter_mut().find(covers) {
                        producer.packet(now, &received, &mut out);
                    }
                }
                Kind::Data | Kind::Nack(_) => hear(consumers, &received, &mut out),
            }
        }
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &Core) {
        if self.expire_at <= core.now {
            self.expire_at = SimTime::FOREVER;
            self.memory.expire(core.now.floor());
        }
    }

    /// When there is something to do.
    pub(crate) fn next_deadline(&mut self, now: SimTime) -> SimTime {
        self.expire_at = next_expiry(&self.memory, self.expire_at, now);
        self.expire_at
    }
}

/// Where a host's programs send: to the forwarders on its Ethernet.
pub(crate) struct Out<'a> {
    now: Time,
    core: &'a mut Core,
    nic: &'a mut Nic,
    link: &'a mut Link,
    frame: &'a mut Vec<u8>,
    mac: MacAddr,
}

impl Output for Out<'_> {
    fn send(&mut self, headers: &Headers<'_>, packet: &[u8]) {
        let ends = [ETHERNET_GROUP, self.mac];
        let mut out = |head: &[u8], piece: &[u8]| {
            // The simulation counts frames that find no memory.
            write_frame(self.frame, ends, [head, piece]);
            if let Some(packet) = self.core.frame(self.frame) {
                self.nic.send(self.core, packet);
            }
        };
        // Packets of producers and consumers are never too long.
        let _ = self.link.send(self.now, headers, packet, 0, &mut out);
    }
}
