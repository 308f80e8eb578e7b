//! What a link counts, and why it refuses packets.

use std::fmt;

/// Why a packet was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unsent {
    /// Longer than any Interest or Data may be here, or empty.
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
    /// Neither link packet, Interest nor Data, or broken.
    Malformed,
    /// A fragment where none is taken, without a number, or of too many.
    Fragment,
    /// A fragment that contradicts others of its packet, or makes it too long.
    Contradiction,
    /// There is no memory for fragments of this face.
    Memory,
    /// It has come before.
    Duplicate,
    /// What it carries is not one Interest or Data, or a Data is said to come back.
    NotAPacket,
    /// Longer than any Interest or Data may be here.
    TooLong,
    /// It has a header that this face's peer may not use, or that its kind does not have.
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

/// Counts since the link was made. Every packet that was to be sent is in `sent` or in one of the
/// `unsent_`; every link packet received is in `refused_`, or was idle, a fragment, or a packet.
/// What each of NFD's counters is, where it has one, stands in brackets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Network packets sent.
    pub sent: u64,
    /// Of these, those that were cut.
    pub fragmented: u64,
    /// Link packets handed out.
    pub link_packets_sent: u64,
    /// Network packets too long for any face (nOutOverMtu).
    pub unsent_too_long: u64,
    /// Network packets that could not be cut (nFragmentationErrors).
    pub unsent_fragmentation: u64,
    /// Packets marked for congestion here (nCongestionMarked).
    pub marked: u64,
    /// Link packets received.
    pub link_packets_received: u64,
    /// Network packets received.
    pub received: u64,
    /// Of these, those that were put together.
    pub reassembled: u64,
    /// Link packets that were malformed (nInLpInvalid).
    pub refused_malformed: u64,
    /// Fragments that were refused (nReassemblyErrors); for lack of memory, and contradictions,
    /// included.
    pub refused_fragments: u64,
    /// Link packets that came again (nDuplicateSequence).
    pub refused_duplicates: u64,
    /// Network packets that were refused (nInNetInvalid).
    pub refused_packets: u64,
    /// Link packets acknowledged after they were sent once (nAcknowledged).
    pub acknowledged: u64,
    /// Link packets sent again (nRetransmitted counts those that then arrived).
    pub retransmitted: u64,
    /// Network packets given up (nRetxExhausted).
    pub given_up: u64,
    /// Link packets sent without asking for an acknowledgement, because too many were open.
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
