//! What an endpoint is told before it begins.

use std::time::Duration;

/// How the congestion window grows and shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681 and RFC 6582: one segment per round trip, halved on loss.
    NewReno,
    /// RFC 9438, what Linux does.
    #[default]
    Cubic,
    /// RFC 8257. Needs ECN, and a queue that marks; without either it is NewReno.
    Dctcp,
}

/// Use of explicit congestion notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnUse {
    /// Neither asked for nor granted.
    #[default]
    Off,
    /// RFC 3168: data sent for the first time are ECN-capable; handshake, pure acknowledgements and
    /// retransmissions are not.
    Data,
    /// Every packet is ECN-capable: what RFC 8257, 3.6 allows within a data centre.
    All,
}

/// An endpoint's settings. The default is much like Linux' own, but for time stamps, which are off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpConfig {
    /// Bytes behind IP and TCP headers without options that we can receive (RFC 9293, 3.7.1): the
    /// MTU less 40 with IPv4.
    pub mss: u16,
    /// Initial window in segments (RFC 6928). After a lost SYN it is 1.
    pub initial_window: u32,
    /// Initial slow-start threshold in bytes (RFC 5681, 3.1: arbitrarily high).
    pub initial_ssthresh: u64,
    /// Bytes of the receive buffer: the window that is offered when all has been read.
    pub receive_buffer: u64,
    /// The application reads at once; otherwise [`Tcp::read`](super::Tcp::read) does.
    pub auto_read: bool,
    /// Offer window scaling (RFC 7323, 2).
    pub window_scaling: bool,
    /// Offer selective acknowledgements (RFC 2018); recovery is RFC 6675's instead of RFC 6582's.
    pub sack: bool,
    /// Offer time stamps (RFC 7323, 3), in microseconds; they take 12 bytes of every segment.
    pub timestamps: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: EcnUse,
    /// Congestion control.
    pub congestion: Congestion,
    /// Timeout before the first round trip is known, thus of the SYN (RFC 6298, 2.1: 1 s; before
    /// 2011 it was 3 s).
    pub rto_initial: Duration,
    /// Least timeout (RFC 6298, 2.4 says 1 s; Linux has 200 ms).
    pub rto_min: Duration,
    /// Largest timeout (RFC 6298, 2.5).
    pub rto_max: Duration,
    /// How long an acknowledgement may wait for a second full segment (RFC 9293, 3.8.6.3); none:
    /// every segment is acknowledged.
    pub delayed_ack: Option<Duration>,
    /// So many segments at the beginning are acknowledged at once (Linux: up to 16).
    pub quick_acks: u32,
    /// Send new data on the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// The window grows by bytes acknowledged (RFC 3465), in slow start by at most so many segments
    /// per acknowledgement; none: per acknowledgement, by at most one (RFC 5681, 3.1).
    pub byte_counting: Option<u32>,
    /// End the first slow start when round trips become longer: HyStart++ (RFC 9406). It takes
    /// round trips from time stamps.
    pub hystart: bool,
    /// Begin with the initial window again after an idle timeout (RFC 5681, 4.1).
    pub idle_restart: bool,
    /// Spread segments: 2 windows per round trip in slow start, 1.2 later.
    pub pacing: bool,
    /// Retransmissions of a SYN before giving up.
    pub syn_retries: u32,
    /// Timeouts in a row before giving up (RFC 9293, 3.8.3).
    pub retries: u32,
    /// Twice the maximum segment lifetime: how long TIME-WAIT lasts.
    pub time_wait: Duration,
    /// The sequence number of our SYN.
    pub initial_seq: u32,
}

impl Default for TcpConfig {
    fn default() -> TcpConfig {
        TcpConfig {
            mss: 1460,
            initial_window: 10,
            initial_ssthresh: u64::MAX,
            receive_buffer: 4 << 20,
            auto_read: true,
            window_scaling: true,
            sack: true,
            timestamps: false,
            ecn: EcnUse::Off,
            congestion: Congestion::Cubic,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            delayed_ack: Some(Duration::from_millis(40)),
            quick_acks: 0,
            limited_transmit: true,
            byte_counting: Some(2),
            hystart: false,
            idle_restart: true,
            pacing: false,
            syn_retries: 6,
            retries: 15,
            time_wait: Duration::from_secs(60),
            initial_seq: 0,
        }
    }
}
