//! Counters of a link, and the reasons for which it refuses packets.

use std::fmt;

/// Why a packet was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unsent {
    /// Longer than an Interest or Data may be here, or empty.
    TooLong,
    /// Longer than the MTU, and this face does not fragment.
    LongerThanMtu,
    /// The MTU leaves no room beside its headers.
    HeadersTooLong,
    /// It would take more than [`FRAGMENTS_MAX`](super::FRAGMENTS_MAX).
    TooManyFragments,
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsent::TooLong => "longer than a packet may be",
            Unsent::LongerThanMtu => "longer than the MTU of a face that does not fragment",
            Unsent::HeadersTooLong => "its headers fill the MTU",
            Unsent::TooManyFragments => "needs too many fragments",
        })
    }
}

/// Why a received link packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// Not a link packet, Interest or Data, or malformed.
    Malformed,
    /// A fragment on a face without reassembly, without a number, or of too many.
    Fragment,
    /// A fragment that contradicts others of its packet or makes it too long.
    Contradiction,
    /// No memory left for fragments of this face.
    Memory,
    /// A duplicate.
    Duplicate,
    /// Its payload is not one Interest or Data, or is a Nacked Data.
    NotAPacket,
    /// Longer than an Interest or Data may be here.
    TooLong,
    /// It has a header that this face's peer may not use, or that does not belong to its kind.
    Header,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Malformed => "malformed link packet",
            Refused::Fragment => "fragment that is not taken",
            Refused::Contradiction => "fragment that contradicts others",
            Refused::Memory => "no memory for the fragment",
            Refused::Duplicate => "link packet that came before",
            Refused::NotAPacket => "neither Interest nor Data",
            Refused::TooLong => "packet that is too long",
            Refused::Header => "header that is not allowed here",
        })
    }
}

/// Counters since the link was created. Every packet to send is in `sent` or in one of `unsent_`;
/// every received link packet is in `refused_`, or was idle, a fragment, or a packet. The
/// corresponding NFD counter is given in brackets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Network packets sent.
    pub sent: u64,
    /// Of these, those that were fragmented.
    pub fragmented: u64,
    /// Link packets handed out.
    pub link_packets_sent: u64,
    /// Network packets too long for any face (nOutOverMtu).
    pub unsent_too_long: u64,
    /// Network packets that could not be fragmented (nFragmentationErrors).
    pub unsent_fragmentation: u64,
    /// Packets marked for congestion here (nCongestionMarked).
    pub marked: u64,
    /// Network packets received.
    pub received: u64,
    /// Of these, those that were reassembled.
    pub reassembled: u64,
    /// Link packets that were malformed (nInLpInvalid).
    pub refused_malformed: u64,
    /// Fragments that were refused (nReassemblyErrors), including those for lack of memory and
    /// contradictions.
    pub refused_fragments: u64,
    /// Duplicate link packets (nDuplicateSequence).
    pub refused_duplicates: u64,
    /// Network packets that were refused (nInNetInvalid).
    pub refused_packets: u64,
    /// Link packets acknowledged after their first transmission (nAcknowledged).
    pub acknowledged: u64,
    /// Link packets retransmitted (nRetransmitted counts those that then arrived).
    pub retransmitted: u64,
    /// Network packets given up after the last retransmission (nRetxExhausted).
    pub given_up: u64,
    /// Link packets sent without reliability because too many were unacknowledged.
    pub unprotected: u64,
}

impl LinkCounters {
    pub(super) fn unsent(&mut self, why: Unsent) {
        *match why {
            Unsent::TooLong | Unsent::LongerThanMtu => &mut self.unsent_too_long,
            Unsent::HeadersTooLong | Unsent::TooManyFragments => &mut self.unsent_fragmentation,
        } += 1;
    }

    pub(super) fn refused(&mut self, why: Refused) {
        *match why {
            Refused::Malformed => &mut self.refused_malformed,
            Refused::Fragment | Refused::Contradiction | Refused::Memory => {
                &mut self.refused_fragments
            }
            Refused::Duplicate => &mut self.refused_duplicates,
            Refused::NotAPacket | Refused::TooLong | Refused::Header => &mut self.refused_packets,
        } += 1;
    }
}
