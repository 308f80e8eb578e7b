//! Congestion control: how the window grows and shrinks, one algorithm per file.
//!
//! The sender decides *when* something was lost or marked and what may be sent ([RFC 5681], 3.2;
//! [RFC 6675]); an algorithm decides only what that does to the window. What they share is here:
//! slow start, and the linear growth of NewReno.
//!
//! [RFC 5681]: https://www.rfc-editor.org/rfc/rfc5681
//! [RFC 6675]: https://www.rfc-editor.org/rfc/rfc6675

mod cubic;
mod dctcp;
mod hystart;

use plexus_wire::Time;

use cubic::Cubic;
use dctcp::Dctcp;
use hystart::{Advice, HyStart};

use super::config::{Congestion, TcpConfig};

/// What an algorithm works on; bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
    /// Payload bytes in a full segment (SMSS).
    pub(super) mss: u64,
    /// Acknowledged since the last linear growth (RFC 3465, 2.1).
    counted: u64,
    /// Most segments that one acknowledgement counts for in slow start; 0: growth is by
    /// acknowledgement and not by byte.
    byte_counting: u64,
    /// As `byte_counting` in the slow start that follows a timeout (RFC 3465, 2.3).
    after_timeout: bool,
    /// Watches the first slow start, if wanted.
    hystart: Option<HyStart>,
}

impl Window {
    pub(super) fn new(config: &TcpConfig, mss: u64) -> Window {
        Window {
            cwnd: mss * u64::from(config.initial_window.max(1)),
            ssthresh: config.initial_ssthresh,
            mss,
            counted: 0,
            byte_counting: config.byte_counting.map_or(0, |limit| u64::from(limit.max(1))),
            after_timeout: false,
            hystart: config.hystart.then(HyStart::new),
        }
    }

    #[inline]
    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start (RFC 5681, 3.1, equation 2; RFC 3465, 2.2). Returns the acknowledged bytes that
    /// are left for congestion avoidance. `divisor`: it is so much slower than usual.
    fn slow_start(&mut self, acked: u64, divisor: u64) -> u64 {
        let limit = if self.after_timeout { 1 } else { self.byte_counting.max(1) };
        let growth = acked.min(limit * self.mss) / divisor;
        let grown = (self.cwnd + growth).min(self.ssthresh.max(self.cwnd));
        let left = acked.saturating_sub(grown - self.cwnd);
        self.cwnd = grown;
        if self.in_slow_start() { 0 } else { left }
    }

    /// Linear growth: one segment per window (RFC 5681, 3.1, equation 3; by bytes: RFC 3465, 2.1).
    fn linear(&mut self, acked: u64) {
        self.after_timeout = false;
        if self.byte_counting == 0 {
            self.cwnd += (self.mss * self.mss / self.cwnd).max(1);
            return;
        }
        self.counted += acked;
        if self.counted >= self.cwnd {
            self.counted -= self.cwnd;
            self.cwnd += self.mss;
        }
    }

    fn shrink(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh.max(2 * self.mss);
        self.cwnd = self.ssthresh;
        self.counted = 0;
        // Later slow starts know where to end (RFC 9406, 4.3).
        self.hystart = None;
    }
}

/// An acknowledgement of new data, as an algorithm sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub(super) now: Time,
    /// Bytes that it acknowledges.
    pub(super) bytes: u64,
    /// Smoothed round-trip time, ns.
    pub(super) srtt: u64,
    /// The round trip that its time stamp tells, ns.
    pub(super) rtt: Option<u64>,
    /// It echoes congestion (ECE).
    pub(super) echo: bool,
    /// Everything below is acknowledged now.
    pub(super) una: u64,
    /// Everything sent so far is below.
    pub(super) nxt: u64,
    /// The window is what limits the sender, and no recovery is under way.
    pub(super) grow: bool,
}

/// An algorithm and its state.
#[derive(Clone, Debug)]
pub(super) enum Control {
    NewReno,
    Cubic(Cubic),
    Dctcp(Dctcp),
}

impl Control {
    pub(super) fn new(congestion: Congestion) -> Control {
        match congestion {
            Congestion::NewReno => Control::NewReno,
            Congestion::Cubic => Control::Cubic(Cubic::default()),
            Congestion::Dctcp => Control::Dctcp(Dctcp::default()),
        }
    }

    /// New data were acknowledged.
    #[inline]
    pub(super) fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        if let Control::Dctcp(dctcp) = self {
            dctcp.count(acked);
        }
        let mut divisor = 1;
        if window.in_slow_start()
            && let Some(hystart) = &mut window.hystart
        {
            match hystart.on_ack(acked) {
                Advice::Grow(slower) => divisor = slower,
                Advice::End => (window.ssthresh, window.hystart) = (window.cwnd, None),
            }
        }
        if !acked.grow {
            return;
        }
        let mut bytes = acked.bytes;
        if window.in_slow_start() {
            bytes = window.slow_start(bytes, divisor);
            if bytes == 0 {
                return;
            }
        }
        match self {
            Control::Cubic(cubic) => cubic.grow(window, acked, bytes),
            Control::NewReno | Control::Dctcp(_) => window.linear(bytes),
        }
    }

    /// A segment was lost; `flight` bytes were unacknowledged. Called once per window of data.
    pub(super) fn on_loss(&mut self, window: &mut Window, flight: u64) {
        // What limited transmit has added does not count (RFC 5681, 3.2, step 2).
        let flight = flight.min(window.cwnd);
        match self {
            Control::Cubic(cubic) => cubic.shrink(window, flight),
            // RFC 5681, 3.1, equation 4; RFC 8257, 3.5: loss halves as it always did.
            Control::NewReno | Control::Dctcp(_) => window.shrink(flight / 2),
        }
    }

    /// Congestion was echoed (RFC 3168, 6.1.2). Called once per window of data.
    pub(super) fn on_echo(&mut self, window: &mut Window, flight: u64) {
        match self {
            Control::Dctcp(dctcp) => dctcp.shrink(window),
            _ => self.on_loss(window, flight),
        }
    }

    /// The retransmission timer expired for data that it had not expired for before (RFC 5681, 3.1,
    /// equation 4; RFC 9438, 4.8). The window becomes the loss window in any case:
    /// [`to_loss_window`].
    pub(super) fn on_timeout(&mut self, window: &mut Window, flight: u64) {
        self.on_loss(window, flight);
        if let Control::Cubic(cubic) = self {
            cubic.forget();
        }
    }

    /// Nothing was sent for a while: what an algorithm measures against time begins anew.
    pub(super) fn on_idle(&mut self) {
        if let Control::Cubic(cubic) = self {
            cubic.restart();
        }
    }

    /// DCTCP's estimate of the fraction of marked bytes.
    pub(super) fn alpha(&self) -> Option<f64> {
        match self {
            Control::Dctcp(dctcp) => Some(dctcp.alpha()),
            _ => None,
        }
    }
}

/// One segment after a timeout (RFC 5681, 3.1).
pub(super) fn to_loss_window(window: &mut Window) {
    window.cwnd = window.mss;
    window.counted = 0;
    window.after_timeout = true;
}
