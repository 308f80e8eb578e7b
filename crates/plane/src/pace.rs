//! Two ways to keep to a rate: a [`Pacer`] makes packets wait, a [`Limiter`] refuses them.

use plexus_io::{Packet, Segmentation};
use plexus_wire::Time;

/// Bytes that an Ethernet cable carries beyond the frame: preamble and delimiter 8, FCS 4,
/// inter-frame gap 12 (IEEE 802.3, 3.1.1 and 4.4.2).
pub(crate) const CABLE_OVERHEAD: u64 = 24;
/// The shortest frame's share of the cable: 64 bytes with FCS, and 20 around it.
pub(crate) const CABLE_MINIMUM: u64 = 84;

/// Bytes that a packet takes on the cable: its frame, or each frame that a super-packet is cut
/// into, with preamble, checksum and gap.
#[inline]
pub(crate) fn wire_bytes(packet: &Packet) -> u64 {
    let o = &packet.offload;
    if o.segmentation == Segmentation::None || o.segment_size == 0 {
        return (packet.len() as u64 + CABLE_OVERHEAD).max(CABLE_MINIMUM);
    }
    let header = u64::from(o.header_len);
    let payload = (packet.len() as u64).saturating_sub(header);
    let segments = payload.div_ceil(u64::from(o.segment_size));
    payload + segments * (header + CABLE_OVERHEAD)
}

/// Frames that a packet is cut into, or one. Headers of a super-packet count as payload.
#[inline]
pub(crate) fn frames(packet: &Packet) -> u32 {
    let o = &packet.offload;
    if o.segmentation == Segmentation::None || o.segment_size == 0 {
        return 1;
    }
    (packet.len() / usize::from(o.segment_size)).max(1) as u32
}

/// When the next packet may leave on a cable of a given rate. Exact in the long run: the remainder
/// of each division is carried over, and packets that wait make up for a late wake-up.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    rate_bits_per_s: u64,
    /// When the cable is free again.
    free_at: Time,
    /// Fraction of a nanosecond still owed, in units of 1 / `rate_bits_per_s`.
    remainder: u64,
    /// The cable was free when it was last looked at, and no packet could leave.
    is_idle: bool,
}

impl Pacer {
    pub(crate) fn new(rate_bits_per_s: u64) -> Pacer {
        let rate_bits_per_s = rate_bits_per_s.max(1);
        Pacer { rate_bits_per_s, free_at: Time::ZERO, remainder: 0, is_idle: false }
    }

    pub(crate) fn rate_bits_per_s(&self) -> u64 {
        self.rate_bits_per_s
    }

    /// When the cable is free.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// The cable was idle until now: unused time is not saved up.
    #[inline]
    pub(crate) fn begin(&mut self, now: Time) {
        if self.free_at < now {
            self.free_at = now;
            self.remainder = 0;
        }
    }

    /// No packet can leave: the cable is idle until it is looked at again.
    pub(crate) fn rest(&mut self) {
        self.is_idle = true;
    }

    /// The cable is looked at.
    #[inline]
    pub(crate) fn resume(&mut self, now: Time) {
        if std::mem::take(&mut self.is_idle) {
            self.begin(now);
        }
    }

    /// Occupies the cable with a packet, or with the frames that a super-packet is cut into.
    #[inline]
    pub(crate) fn spend(&mut self, packet: &Packet) {
        self.spend_wire_bytes(wire_bytes(packet));
    }

    fn spend_wire_bytes(&mut self, bytes: u64) {
        let cost = bytes * 8 * 1_000_000_000 + self.remainder;
        self.remainder = cost % self.rate_bits_per_s;
        self.free_at = self.free_at + std::time::Duration::from_nanos(cost / self.rate_bits_per_s);
    }
}

/// Refuses packets beyond a number per second (the generic cell rate algorithm, ITU-T I.371). A
/// burst of 50 ms' worth is allowed, 8 packets at least.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    packets_per_s: u32,
    interval_ns: u64,
    tolerance_ns: u64,
    /// When a stream at exactly the rate would send its next packet.
    expected: Time,
}

impl Limiter {
    pub(crate) fn new(packets_per_s: u32) -> Limiter {
        Limiter::with_burst(packets_per_s, (packets_per_s / 20).max(8))
    }

    /// A limiter that admits this many packets at once.
    pub(crate) fn with_burst(packets_per_s: u32, burst: u32) -> Limiter {
        let interval_ns = 1_000_000_000 / u64::from(packets_per_s.max(1));
        let tolerance_ns = u64::from(burst) * interval_ns;
        Limiter { packets_per_s, interval_ns, tolerance_ns, expected: Time::ZERO }
    }

    /// The rate.
    pub(crate) fn packets_per_s(&self) -> u32 {
        self.packets_per_s
    }

    /// True if one more packet is within the rate.
    pub(crate) fn admits(&mut self, now: Time) -> bool {
        self.admits_frames(now, 1)
    }

    /// The same for a packet that is cut into so many frames.
    pub(crate) fn admits_frames(&mut self, now: Time, frames: u32) -> bool {
        let expected = self.expected.max(now);
        if expected.as_nanos() - now.as_nanos() > self.tolerance_ns {
            return false;
        }
        let taken = self.interval_ns * u64::from(frames);
        self.expected = expected + std::time::Duration::from_nanos(taken);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_cable_carries_exactly_its_rate() {
        // 7 bit/ns does not divide evenly: only the carried remainder keeps the long run exact.
        for (rate, len) in [(100_000_000, 1514), (7_000_000_000, 60), (999_999_937, 577)] {
            let mut pacer = Pacer::new(rate);
            pacer.begin(Time::from_secs(1));
            let frames = 1_000_000u64;
            let wire = (len + 24).max(84);
            (0..frames).for_each(|_| pacer.spend_wire_bytes(wire));
            let bits = frames * wire * 8;
            let exact = u128::from(bits) * 1_000_000_000 / u128::from(rate);
            let took = pacer.free_at().since(Time::from_secs(1)).as_nanos();
            assert!(took.abs_diff(exact) <= 1, "{took} ns instead of {exact}");
        }
    }

    #[test]
    fn idle_time_is_not_saved_up_but_lateness_is_made_good() {
        let mut pacer = Pacer::new(100_000_000);
        pacer.begin(Time::from_millis(5));
        pacer.spend_wire_bytes(1250); // 100 us
        assert_eq!(pacer.free_at(), Time::from_micros(5100));
        pacer.spend_wire_bytes(1250); // served late, the schedule stands
        assert_eq!(pacer.free_at(), Time::from_micros(5200));
        pacer.begin(Time::from_millis(9));
        assert_eq!(pacer.free_at(), Time::from_millis(9));
    }

    #[test]
    fn a_limiter_admits_its_rate_and_a_bounded_burst() {
        let mut limiter = Limiter::new(1000);
        let burst = (0..1000).filter(|_| limiter.admits(Time::from_secs(1))).count();
        assert_eq!(burst, 51);
        let second: usize = (0..100_000u64)
            .filter(|i| limiter.admits(Time::from_nanos(2_000_000_000 + i * 10_000)))
            .count();
        assert_eq!(second, 1050); // a new burst of 50 and 1,000 in the second that follows
    }
}
