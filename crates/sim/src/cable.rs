//! Cables: what happens to a frame between the port that sends it and the one that receives it.
//!
//! Each port is one end of at most one cable and has that cable's properties for the direction
//! away from it. Serialisation is that of Ethernet (IEEE 802.3, 3.1.1): preamble and start
//! delimiter, the frame padded to 64 bytes, its checksum. The sender keeps the gap between frames:
//! the data plane's transmit queues do so to a nanosecond. Without queues, frames overlap on the
//! cable, and arrive in the order in which they left.

use plexus_topo::{Link, MTU_USUAL, Trouble};
use rand::RngExt;
use rand_pcg::Pcg64;

use crate::forward::Uptake;
use crate::noise::Struck;
use crate::time::SimTime;

/// Bytes on a cable besides those of a frame in memory: preamble and delimiter 8, checksum 4.
const AROUND: u64 = 12;
/// Bytes between frames.
const GAP: u64 = 12;
/// A frame without its checksum has at least so many bytes on a cable.
const FRAME_MIN: u64 = 60;

/// How many ports there can be.
pub(crate) type PortIndex = u32;

/// One end of a cable.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    /// The other end.
    pub(crate) peer: Option<PortIndex>,
    /// Bits/s; `None`: frames take no time to send.
    pub(crate) rate_bits_per_s: Option<u64>,
    /// Picoseconds per byte, where that is a whole number.
    ps_per_byte: Option<u64>,
    /// Whether a frame waits here until the one before it has left. The port's owner paces itself
    /// accordingly.
    pub(crate) has_queue: bool,
    delay: SimTime,
    /// When the device at the other end takes up frames.
    pub(crate) uptake: Uptake,
    /// When that device has taken up the last frame. Frames keep their order: a short frame that
    /// left while a long one was under way is taken up with the long one, not before.
    taken_up: SimTime,
    /// Largest Ethernet payload in bytes.
    pub(crate) mtu: u16,
    loss: f64,
    /// Counts cuts: a frame that is under way at a cut does not arrive.
    pub(crate) cable: u32,
    /// How many faults make frames vanish while both ends keep their carrier.
    pub(crate) silent: u32,
    /// How many faults take the carrier away.
    pub(crate) dark: u32,
    pub(crate) sent: Traffic,
    /// What is wrong with the cable, by the number of the event.
    pub(crate) troubles: Vec<(u32, Trouble)>,
    pub(crate) struck: Struck,
}

/// What left by a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames.
    pub frames: u64,
    /// Bytes of these, from the destination address to the last one before the checksum.
    pub bytes: u64,
}

impl Traffic {
    /// What has left since.
    pub(crate) fn since(self, before: Traffic) -> Traffic {
        Traffic { frames: self.frames - before.frames, bytes: self.bytes - before.bytes }
    }

    /// The bits that these frames took on the cable, gaps included. It is a lower bound if some
    /// frames were padded.
    pub(crate) fn bits_on_cable(self) -> u64 {
        8 * (self.bytes.max(self.frames * FRAME_MIN) + self.frames * (AROUND + GAP))
    }
}

impl Port {
    /// An end without a cable.
    pub(crate) fn new() -> Port {
        Port {
            peer: None,
            rate_bits_per_s: None,
            ps_per_byte: None,
            has_queue: true,
            delay: SimTime::ZERO,
            uptake: Uptake::AT_ONCE,
            taken_up: SimTime::ZERO,
            mtu: MTU_USUAL,
            loss: 0.0,
            cable: 0,
            silent: 0,
            dark: 0,
            sent: Traffic::default(),
            troubles: vec![],
            struck: Struck::default(),
        }
    }

    /// Plugs in a cable of a link.
    pub(crate) fn plug(&mut self, peer: PortIndex, link: &Link, rate_bits_per_s: Option<u64>) {
        self.peer = Some(peer);
        self.rate_bits_per_s = rate_bits_per_s;
        let ps = |rate: u64| (8_000_000_000_000 % rate == 0).then(|| 8_000_000_000_000 / rate);
        self.ps_per_byte = rate_bits_per_s.and_then(ps);
        self.delay = link.delay.into();
        (self.mtu, self.loss) = (link.mtu, link.loss);
    }

    /// How long a frame of this many bytes takes from its first bit to its last one.
    #[inline]
    pub(crate) fn serialisation(&self, len: usize) -> SimTime {
        self.time_of((len as u64).max(FRAME_MIN) + AROUND)
    }

    /// How long the frame occupies the cable, with the gap behind it. Zero where frames do not
    /// wait.
    #[inline]
    pub(crate) fn occupation(&self, len: usize) -> SimTime {
        if !self.has_queue {
            return SimTime::ZERO;
        }
        self.time_of((len as u64).max(FRAME_MIN) + AROUND + GAP)
    }

    #[inline]
    pub(crate) fn time_of(&self, bytes: u64) -> SimTime {
        match (self.ps_per_byte, self.rate_bits_per_s) {
            (Some(ps), _) => SimTime::from_picos(bytes * ps),
            (None, Some(rate)) => SimTime::of_bytes(bytes, rate),
            (None, None) => SimTime::ZERO,
        }
    }

    /// Sends a frame at `now`: where it arrives, and when it is taken up there; `None` if it is
    /// lost.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: SimTime,
        len: usize,
        random: &mut Pcg64,
    ) -> Option<(PortIndex, SimTime)> {
        self.sent.frames += 1;
        self.sent.bytes += len as u64;
        let peer = self.peer.filter(|_| self.dark == 0 && self.silent == 0);
        let is_lost = self.loss > 0.0 && random.random_bool(self.loss);
        let Some(peer) = peer.filter(|_| !is_lost) else {
            self.struck.lost += 1;
            return None;
        };
        let first = now + self.delay;
        let last = first + self.serialisation(len);
        self.taken_up = self.uptake.at(first, last, len).max(self.taken_up);
        Some((peer, self.taken_up))
    }

    /// Whether the device here sees the other end.
    pub(crate) fn has_carrier(&self) -> bool {
        self.peer.is_some() && self.dark == 0
    }

    /// Counts a frame that was sent and did not arrive.
    pub(crate) fn count_lost(&mut self, len: usize) {
        self.sent.frames += 1;
        self.sent.bytes += len as u64;
        self.struck.lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use plexus_topo::End;
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn without_a_queue_frames_do_not_wait_but_stay_in_order() {
        let end = End::Host { host: 0, interface: 0 };
        let mut port = Port { has_queue: false, ..Port::new() };
        port.plug(7, &Link::new(end, end), Some(1_000_000));
        let mut random = Pcg64::seed_from_u64(1);
        let mut taken_up = |at_us: u64, len| {
            let now = SimTime::from_picos(at_us * 1_000_000);
            let (peer, at) = port.send(now, len, &mut random).unwrap();
            assert_eq!((peer, port.occupation(len)), (7, SimTime::ZERO));
            at.as_picos() / 1_000_000
        };
        // 8 us a byte: 72 of the short one, 1,526 of the long one.
        assert_eq!(taken_up(0, 60), 576);
        // The same instant, and no later for the one that was there.
        assert_eq!([taken_up(0, 1514), taken_up(0, 1514)], [12_208, 12_208]);
        // Behind a long one a short one is there no sooner than that.
        assert_eq!([taken_up(0, 60), taken_up(1_000, 60)], [12_208, 12_208]);
        assert_eq!(taken_up(11_700, 60), 12_276);
    }
}
