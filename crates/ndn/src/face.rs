//! Faces: where packets come from and go to, and the counters of each. The forwarder of every
//! worker uses it.
//!
//! Conservation: every packet received on a face has exactly one [`Fate`]; some fates are drops.
//! Each copy sent is counted at the face that it was sent to.

/// Number of a face, as management and applications see it. The lower 20 bits are a slot that is
/// reused after the face is removed; a stale number then matches no face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(u32);

const PLACE_BITS: u32 = 20;
/// NFD reserves the numbers below ("Face management": 1 internal, 254 content store …).
const RESERVED: u32 = 256;

impl FaceId {
    /// Not a real face: the source of Data from the content store (NFD: FACEID_CONTENT_STORE).
    pub const CONTENT_STORE: FaceId = FaceId(254);

    /// The face in a slot that was used `uses` times before; `None` if the slot is out of range.
    /// The count wraps after 4096.
    pub const fn new(place: u32, uses: u32) -> Option<FaceId> {
        match place < (1 << PLACE_BITS) - RESERVED {
            true => Some(FaceId((place + RESERVED) | uses << PLACE_BITS)),
            false => None,
        }
    }

    /// The face of this number, if it is one.
    pub fn from_number(number: u64) -> Option<FaceId> {
        let id = FaceId(u32::try_from(number).ok()?);
        id.place().map(|_| id)
    }

    /// Its number in NextHopFaceId, IncomingFaceId and management.
    pub const fn number(self) -> u64 {
        self.0 as u64
    }

    /// Its slot.
    #[inline(always)]
    pub fn place(self) -> Option<usize> {
        (self.0 & ((1 << PLACE_BITS) - 1)).checked_sub(RESERVED).map(|place| place as usize)
    }
}

/// Allocates face numbers; one allocator for all workers.
#[derive(Clone, Debug, Default)]
pub struct FaceIds {
    uses: Vec<u32>,
    free: std::collections::VecDeque<u32>,
}

impl FaceIds {
    /// A number that no face has; `None` if all slots are taken.
    pub fn allocate(&mut self) -> Option<FaceId> {
        let place = match self.free.pop_front() {
            Some(place) => place,
            None => {
                let place = self.uses.len() as u32;
                FaceId::new(place, 0)?;
                self.uses.push(0);
                place
            }
        };
        FaceId::new(place, self.uses[place as usize])
    }

    /// Frees the number. All workers have removed the face, or will have before they learn of
    /// another face in the same slot.
    pub fn release(&mut self, id: FaceId) {
        if let Some(place) = id.place()
            && let Some(uses) = self.uses.get_mut(place)
        {
            *uses = (*uses + 1) & 0xFFF;
            self.free.push_back(place as u32);
        }
    }
}

/// Whether the face leads to this machine (NFD developer guide, "Face scope").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An application on this machine, which may use `/localhost`.
    Local,
    /// Anything else.
    NonLocal,
}

/// How many peers the face reaches (NFD developer guide, "Link type").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// One peer.
    PointToPoint,
    /// Several peers that all hear each other.
    MultiAccess,
    /// Several peers that do not all hear each other: a packet may have to leave on the face on
    /// which it arrived.
    AdHoc,
}

/// Properties of a face that the forwarder uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Face {
    /// Local or not.
    pub scope: Scope,
    /// Link type.
    pub link: LinkType,
    /// The forwarder obeys NextHopFaceId from it and sends IncomingFaceId to it. Only for local
    /// faces that requested it.
    pub local_fields: bool,
    /// Interests sent to it carry our PIT token. Peers that do not know PIT tokens reject such
    /// packets.
    pub pit_tokens: bool,
}

impl Face {
    /// A neighbour at the other end of a cable or tunnel.
    pub const NEIGHBOUR: Face = Face {
        scope: Scope::NonLocal,
        link: LinkType::PointToPoint,
        local_fields: false,
        pit_tokens: true,
    };
    /// An application on this machine.
    pub const APPLICATION: Face = Face { scope: Scope::Local, ..Face::NEIGHBOUR };
}

macro_rules! reasons {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident: $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* #[doc = $text] $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// In words, as `show` prints it.
            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

reasons! {
    /// The outcome of a received packet. Each packet has exactly one.
    Fate {
        Forwarded: "Interest sent on",
        Answered: "Interest answered from the content store",
        Reading: "Interest waits for the content store's disk",
        Waiting: "Interest waits for an answer that is already on its way",
        Nacked: "Interest sent back",
        Delivered: "Data sent to who asked for it",
        Late: "Data for an Interest that nobody waits for any more",
        NackTaken: "Nack taken into account",
        Malformed: "broken packet",
        NameTooLong: "name longer than 65,535 bytes",
        OutOfScope: "/localhost from another machine",
        NoHopsLeft: "no hops left",
        Loop: "nonce seen before, on a link of several",
        PitFull: "there is no room for the pending Interest",
        NoRoute: "no next hop, on a link of several",
        NoNextHop: "the next hop that the application named does not exist",
        Unsolicited: "Data that nobody asked this face for",
        NackFromLink: "Nack from a link of several",
        NackStray: "Nack for no Interest that was sent there",
    }
}

impl Fate {
    /// How many there are.
    pub const COUNT: usize = Fate::ALL.len();

    /// True if the packet was dropped.
    pub fn is_drop(self) -> bool {
        self >= Fate::Malformed
    }
}

reasons! {
    /// Why a copy was not sent to a face that the strategy chose.
    Unsent {
        HopLimit: "no hops left for another machine",
        Scope: "/localhost is not for other machines",
        Room: "no room for another record of the Interest",
        Link: "Nacks do not go to links of several",
    }
}

impl Unsent {
    /// How many there are.
    pub const COUNT: usize = Unsent::ALL.len();
}

/// Packets by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Interests.
    pub interests: u64,
    /// Data packets.
    pub data: u64,
    /// Nacks.
    pub nacks: u64,
    /// Malformed packets of any kind.
    pub other: u64,
}

impl Packets {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.interests + self.data + self.nacks + self.other
    }

    /// Subtracts packets that are also counted elsewhere.
    #[must_use]
    pub fn without(&self, other: &Packets) -> Packets {
        Packets {
            interests: self.interests.saturating_sub(other.interests),
            data: self.data.saturating_sub(other.data),
            nacks: self.nacks.saturating_sub(other.nacks),
            other: self.other.saturating_sub(other.other),
        }
    }

    /// Adds the counts of another instance.
    pub fn add(&mut self, other: &Packets) {
        plexus_wire::add_fields!(self, other; interests, data, nacks, other);
    }
}

/// Counters of a face at one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceCounters {
    /// Packets that came in.
    pub received: Packets,
    /// Packets that went out.
    pub sent: Packets,
    fates: [u64; Fate::COUNT],
    unsent: [u64; Unsent::COUNT],
}

impl Default for FaceCounters {
    fn default() -> FaceCounters {
        FaceCounters {
            received: Packets::default(),
            sent: Packets::default(),
            fates: [0; Fate::COUNT],
            unsent: [0; Unsent::COUNT],
        }
    }
}

impl FaceCounters {
    /// Received packets with this outcome.
    pub fn fate(&self, fate: Fate) -> u64 {
        self.fates[fate as usize]
    }

    /// Copies that did not go to this face.
    pub fn unsent(&self, reason: Unsent) -> u64 {
        self.unsent[reason as usize]
    }

    /// Received packets that were dropped.
    pub fn dropped(&self) -> u64 {
        Fate::ALL.iter().filter(|fate| fate.is_drop()).map(|&fate| self.fate(fate)).sum()
    }

    /// True if the face has ever answered an Interest that was sent to it and not answered yet.
    pub fn has_answered(&self) -> bool {
        [Fate::Delivered, Fate::Late, Fate::NackTaken].iter().any(|fate| self.fate(*fate) > 0)
    }

    /// Adds another worker's counters of the same face.
    pub fn add(&mut self, other: &FaceCounters) {
        self.received.add(&other.received);
        self.sent.add(&other.sent);
        self.fates.iter_mut().zip(&other.fates).for_each(|(sum, n)| *sum += n);
        self.unsent.iter_mut().zip(&other.unsent).for_each(|(sum, n)| *sum += n);
    }

    /// True if every received packet has an outcome.
    pub fn adds_up(&self) -> bool {
        self.received.total() == self.fates.iter().sum::<u64>()
    }
}

struct Place {
    id: FaceId,
    face: Face,
    counters: FaceCounters,
}

/// The faces that a worker knows.
#[derive(Default)]
pub(crate) struct Faces {
    places: Vec<Option<Place>>,
}

impl Faces {
    pub(crate) fn add(&mut self, id: FaceId, face: Face) {
        let Some(at) = id.place() else { return };
        if at >= self.places.len() {
            self.places.resize_with(at + 1, || None);
        }
        let counters = self.counters(id).copied().unwrap_or_default();
        self.places[at] = Some(Place { id, face, counters });
    }

    pub(crate) fn remove(&mut self, id: FaceId) -> Option<FaceCounters> {
        let at = id.place()?;
        self.place(id)?;
        self.places[at].take().map(|place| place.counters)
    }

    #[inline(always)]
    fn place(&self, id: FaceId) -> Option<&Place> {
        self.places.get(id.place()?)?.as_ref().filter(|place| place.id == id)
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: FaceId) -> Option<Face> {
        self.place(id).map(|place| place.face)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FaceId, &FaceCounters)> {
        self.places.iter().flatten().map(|place| (place.id, &place.counters))
    }

    pub(crate) fn counters(&self, id: FaceId) -> Option<&FaceCounters> {
        self.place(id).map(|place| &place.counters)
    }

    #[inline(always)]
    fn count(&mut self, id: FaceId, count: impl FnOnce(&mut FaceCounters)) {
        if let Some(at) = id.place()
            && let Some(Some(place)) = self.places.get_mut(at)
            && place.id == id
        {
            count(&mut place.counters);
        }
    }

    #[inline(always)]
    pub(crate) fn received(&mut self, id: FaceId, count: impl FnOnce(&mut Packets)) {
        self.count(id, |c| count(&mut c.received));
    }

    #[inline(always)]
    pub(crate) fn sent(&mut self, id: FaceId, count: impl FnOnce(&mut Packets)) {
        self.count(id, |c| count(&mut c.sent));
    }

    #[inline(always)]
    pub(crate) fn fate(&mut self, id: FaceId, fate: Fate) {
        self.count(id, |c| c.fates[fate as usize] += 1);
    }

    pub(crate) fn unsent(&mut self, id: FaceId, reason: Unsent) {
        self.count(id, |c| c.unsent[reason as usize] += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_face_is_not_the_one_that_reuses_its_slot() {
        let mut ids = FaceIds::default();
        let mut faces = Faces::default();
        let first = ids.allocate().unwrap();
        assert_eq!((first.number(), FaceId::from_number(256)), (256, Some(first)));
        faces.add(first, Face::NEIGHBOUR);
        faces.fate(first, Fate::Loop);
        assert_eq!(faces.remove(first).unwrap().fate(Fate::Loop), 1);
        ids.release(first);
        let second = ids.allocate().unwrap();
        assert_eq!(second.place(), first.place());
        assert_ne!(second, first);
        faces.add(second, Face::APPLICATION);
        assert_eq!((faces.get(first), faces.get(second)), (None, Some(Face::APPLICATION)));
        assert!(faces.remove(first).is_none());
        faces.fate(first, Fate::Loop);
        assert_eq!(faces.counters(second), Some(&FaceCounters::default()));
    }

    #[test]
    fn reserved_numbers_are_not_faces() {
        assert_eq!(FaceId::from_number(255), None);
        assert_eq!(FaceId::from_number(1 << 32), None);
        assert_eq!(FaceId::CONTENT_STORE.place(), None);
        assert_eq!(FaceId::new((1 << PLACE_BITS) - RESERVED, 0), None);
    }
}
