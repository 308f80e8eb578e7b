//! Faces: where packets come from and go to, and what happened to them there.
//!
//! Conservation: every packet that a face received has exactly one [`Fate`]; some fates are drops.
//! Each copy that went out is counted where it went.

/// Number of a face, as management and applications see it. The lower 20 bits are a place that is
/// used again after the face has gone; what still names the old face then finds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(u32);

/// Bits of a place.
const PLACE_BITS: u32 = 20;
/// NFD keeps the numbers below to itself ("Face management": 1 internal, 254 content store …).
const RESERVED: u32 = 256;

impl FaceId {
    /// No face: of Data that the content store gives (NFD: FACEID_CONTENT_STORE).
    pub const CONTENT_STORE: FaceId = FaceId(254);

    /// The face at a place, which was used `uses` times before; `None` if there are not so many
    /// places. The count wraps after 4096.
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

    /// Its place.
    #[inline(always)]
    pub fn place(self) -> Option<usize> {
        (self.0 & ((1 << PLACE_BITS) - 1)).checked_sub(RESERVED).map(|place| place as usize)
    }
}

/// Gives out numbers of faces; one for all workers.
#[derive(Clone, Debug, Default)]
pub struct FaceIds {
    uses: Vec<u32>,
    free: std::collections::VecDeque<u32>,
}

impl FaceIds {
    /// A number that no face has; `None` if all places are taken.
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

    /// The face has gone from all workers.
    pub fn release(&mut self, id: FaceId) {
        if let Some(place) = id.place()
            && let Some(uses) = self.uses.get_mut(place)
        {
            *uses = (*uses + 1) & 0xFFF;
            self.free.push_back(place as u32);
        }
    }
}

/// Whether what is behind the face is on this machine (NFD developer guide, "Face scope").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An application here: may speak of `/localhost`.
    Local,
    /// Anything else.
    NonLocal,
}

/// How many may be behind the face (NFD developer guide, "Link type").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// One.
    PointToPoint,
    /// Several, who all hear each other.
    MultiAccess,
    /// Several, who do not all hear each other: what comes from there may have to go back there.
    AdHoc,
}
