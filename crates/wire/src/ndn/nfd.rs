//! The protocol elements of NFD's management (NFD wiki: "Management", "ControlCommand", "FaceMgmt",
//! "FibMgmt", "RibMgmt", "StrategyChoice", "CsMgmt", "ForwarderStatus"), which every client uses.
//!
//! A *record* is an element of elements. They are read in any order, and written in python-ndn's,
//! because it reads no other, and NFD any. Unknown elements of a record are ignored, critical or
//! not: forwarders add counters of their own, and NFD ignores those of others. A duplicate of an
//! element that may occur once is refused.
//!
//! A *dataset* is a sequence of records, spread over the contents of as many Data as needed.

use std::fmt;

use super::name::{Name, NameBuf};
use super::tlv::{Element, Reader, Writer};
use super::types;
use crate::error::{Error, Format};

const F: Format = Format::NdnManagement;

/// Fields, read from the value of an element and written into one.
pub trait Fields: Sized {
    /// Reads the fields.
    ///
    /// # Errors
    /// Truncated or invalid: a field that is broken, there twice, or missing.
    fn parse_fields(value: &[u8]) -> Result<Self, Error>;

    /// Writes the fields.
    fn write_fields(&self, w: &mut Writer<'_>);

    /// The fields as bytes.
    fn fields_to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; Writer::count(|w| self.write_fields(w))];
        self.write_fields(&mut Writer::new(&mut out));
        out
    }
}

/// Fields in an element of their own.
pub trait Record: Fields {
    /// The element's type.
    const KIND: u32;

    /// Reads the element that `bytes` begin with.
    ///
    /// # Errors
    /// As [`Fields::parse_fields`]. Invalid: it is an element of another type.
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let element = Reader::new(bytes, F).expect(Self::KIND, "record type")?;
        Self::parse_fields(element.value)
    }

    /// Writes the element.
    fn write(&self, w: &mut Writer<'_>) {
        w.nested(Self::KIND, |w| self.write_fields(w));
    }

    /// The element as bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; Writer::count(|w| self.write(w))];
        self.write(&mut Writer::new(&mut out));
        out
    }

    /// Reads a whole dataset.
    ///
    /// # Errors
    /// As [`Fields::parse_fields`].
    fn parse_dataset(bytes: &[u8]) -> Result<Vec<Self>, Error> {
        let (mut reader, mut records) = (Reader::new(bytes, F), Vec::new());
        while let Some(element) = reader.next()? {
            if element.kind == Self::KIND {
                records.push(Self::parse_fields(element.value)?);
            }
        }
        Ok(records)
    }
}

/// A value of an element of a record.
trait Value: Sized {
    fn take(element: &Element<'_>) -> Result<Self, Error>;
    fn put(&self, kind: u32, w: &mut Writer<'_>);
}

impl Value for u64 {
    fn take(element: &Element<'_>) -> Result<u64, Error> {
        element.number()
    }

    fn put(&self, kind: u32, w: &mut Writer<'_>) {
        w.number(kind, *self);
    }
}

impl Value for String {
    fn take(element: &Element<'_>) -> Result<String, Error> {
        let text = std::str::from_utf8(element.value);
        Ok(text.map_err(|_| Error::invalid(F, "text in element", element.kind))?.into())
    }

    fn put(&self, kind: u32, w: &mut Writer<'_>) {
        w.element(kind, self.as_bytes());
    }
}

impl Value for NameBuf {
    fn take(element: &Element<'_>) -> Result<NameBuf, Error> {
        Name::new_checked(element.value).map(|name| name.to_buf())
    }

    fn put(&self, kind: u32, w: &mut Writer<'_>) {
        w.element(kind, self.as_name().value());
    }
}

impl<R: Record> Value for R {
    fn take(element: &Element<'_>) -> Result<R, Error> {
        R::parse_fields(element.value)
    }

    fn put(&self, _: u32, w: &mut Writer<'_>) {
        self.write(w);
    }
}

/// How often a value may occur in a record: once if plain, at most once as an option, and any
/// number of times as a vector.
trait Slot: Sized {
    fn fill(slot: &mut Option<Self>, element: &Element<'_>) -> Result<(), Error>;
    fn missing(kind: u32) -> Result<Self, Error>;
    fn put_all(&self, kind: u32, w: &mut Writer<'_>);
}

fn once<S>(slot: &mut Option<S>, value: S, kind: u32) -> Result<(), Error> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::invalid(F, "repeated element", kind)),
    }
}

macro_rules! required {
    ($($type:ty),*) => { $(
        impl Slot for $type {
            fn fill(slot: &mut Option<Self>, element: &Element<'_>) -> Result<(), Error> {
                once(slot, Self::take(element)?, element.kind)
            }

            fn missing(kind: u32) -> Result<Self, Error> {
                Err(Error::invalid(F, "absence of element", kind))
            }

            fn put_all(&self, kind: u32, w: &mut Writer<'_>) {
                self.put(kind, w);
            }
        }
    )* };
}

required!(u64, String, NameBuf, Strategy);

impl<V: Value> Slot for Option<V> {
    fn fill(slot: &mut Option<Self>, element: &Element<'_>) -> Result<(), Error> {
        once(slot, Some(V::take(element)?), element.kind)
    }

    fn missing(_: u32) -> Result<Self, Error> {
        Ok(None)
    }

    fn put_all(&self, kind: u32, w: &mut Writer<'_>) {
        if let Some(value) = self {
            value.put(kind, w);
        }
    }
}

impl<V: Value> Slot for Vec<V> {
    fn fill(slot: &mut Option<Self>, element: &Element<'_>) -> Result<(), Error> {
        slot.get_or_insert_default().push(V::take(element)?);
        Ok(())
    }

    fn missing(_: u32) -> Result<Self, Error> {
        Ok(Vec::new())
    }

    fn put_all(&self, kind: u32, w: &mut Writer<'_>) {
        self.iter().for_each(|value| value.put(kind, w));
    }
}

/// Structures, and how they are read and written: `number field: type` in the order of writing.
macro_rules! fields {
    ($(
        $(#[$doc:meta])* $name:ident $(= $kind:literal)? {
            $( $(#[$field_doc:meta])* $number:literal $field:ident: $type:ty, )*
        }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $type, )*
        }

        impl Fields for $name {
            fn parse_fields(value: &[u8]) -> Result<Self, Error> {
                $( let mut $field = None; )*
                let mut reader = Reader::new(value, F);
                while let Some(element) = reader.next()? {
                    match element.kind {
                        $( $number => <$type as Slot>::fill(&mut $field, &element)?, )*
                        _ => {}
                    }
                }
                Ok($name {
                    $( $field: $field.map_or_else(|| <$type as Slot>::missing($number), Ok)?, )*
                })
            }

            fn write_fields(&self, w: &mut Writer<'_>) {
                $( self.$field.put_all($number, w); )*
            }
        }

        $( impl Record for $name { const KIND: u32 = $kind; } )?
    )* };
}

fields! {
    /// Arguments of a command in the command's name; the resulting values in the answer.
    ControlParameters = 104 {
        /// A prefix.
        7 name: Option<NameBuf>,
        /// A face's number; 0 or absent: the face that the command came by.
        105 face_id: Option<u64>,
        /// A face's remote address: `udp4://192.0.2.1:6363`.
        114 uri: Option<String>,
        /// A face's local address.
        129 local_uri: Option<String>,
        /// The route's origin: [`origin`].
        111 origin: Option<u64>,
        /// A route's cost.
        106 cost: Option<u64>,
        /// Packets that the content store may hold.
        131 capacity: Option<u64>,
        /// Packets to erase, or that were erased.
        132 count: Option<u64>,
        /// Time between marks of congestion, in nanoseconds.
        135 congestion_interval_ns: Option<u64>,
        /// Bytes in the queue from which on packets are marked.
        136 congestion_threshold: Option<u64>,
        /// Longest link packet in bytes.
        137 mtu: Option<u64>,
        /// [`route_flags`], [`face_flags`] or [`cs_flags`].
        108 flags: Option<u64>,
        /// Which of the flags are meant.
        112 mask: Option<u64>,
        /// A strategy.
        107 strategy: Option<Strategy>,
        /// When a route expires, in milliseconds from now.
        109 expiration_ms: Option<u64>,
        /// [`persistency`].
        133 persistency: Option<u64>,
    }

    /// A strategy's name, with its version.
    Strategy = 107 {
        /// The name.
        7 name: NameBuf,
    }

    /// The answer to a command.
    ControlResponse = 101 {
        /// [`status`].
        102 code: u64,
        /// A human-readable message.
        103 text: String,
        /// The resulting values.
        104 parameters: Option<ControlParameters>,
    }

    /// `/localhost/nfd/status/general`. It is in the Data without an enclosing element.
    GeneralStatus {
        /// The forwarder's version.
        128 version: String,
        /// When it started, in milliseconds since 1970.
        129 start_ms: u64,
        /// Now, likewise.
        130 now_ms: u64,
        /// Entries of the name tree.
        131 name_tree_entries: u64,
        /// Entries of the FIB.
        132 fib_entries: u64,
        /// Entries of the PIT.
        133 pit_entries: u64,
        /// Entries of measurements.
        134 measurements_entries: u64,
        /// Entries of the content store.
        135 cs_entries: u64,
        /// Interests received.
        144 in_interests: u64,
        /// Data received.
        145 in_data: u64,
        /// Nacks received.
        151 in_nacks: u64,
        /// Interests sent.
        146 out_interests: u64,
        /// Data sent.
        147 out_data: u64,
        /// Nacks sent.
        152 out_nacks: u64,
        /// Interests answered.
        153 satisfied_interests: u64,
        /// Interests that timed out.
        154 unsatisfied_interests: u64,
    }

    /// A face, in `/localhost/nfd/faces/list` and in the answer to a query.
    FaceStatus = 128 {
        /// Its number.
        105 face_id: u64,
        /// Its remote address.
        114 uri: String,
        /// Its local address.
        129 local_uri: String,
        /// When it is closed if nothing comes, in milliseconds from now.
        109 expiration_ms: Option<u64>,
        /// [`face_scope`].
        132 scope: u64,
        /// [`persistency`].
        133 persistency: u64,
        /// [`link_type`].
        134 link_type: u64,
        /// Time between marks of congestion, in nanoseconds.
        135 congestion_interval_ns: Option<u64>,
        /// Bytes in the queue from which on packets are marked.
        136 congestion_threshold: Option<u64>,
        /// Longest link packet in bytes.
        137 mtu: Option<u64>,
        /// Interests received.
        144 in_interests: u64,
        /// Data received.
        145 in_data: u64,
        /// Nacks received.
        151 in_nacks: u64,
        /// Interests sent.
        146 out_interests: u64,
        /// Data sent.
        147 out_data: u64,
        /// Nacks sent.
        152 out_nacks: u64,
        /// Bytes received.
        148 in_bytes: u64,
        /// Bytes sent.
        149 out_bytes: u64,
        /// [`face_flags`].
        108 flags: u64,
    }

    /// The filter of a query, `/localhost/nfd/faces/query`: faces that match all given values.
    FaceQueryFilter = 150 {
        /// The number.
        105 face_id: Option<u64>,
        /// The scheme of either address.
        131 uri_scheme: Option<String>,
        /// The remote address.
        114 uri: Option<String>,
        /// The local address.
        129 local_uri: Option<String>,
        /// [`face_scope`].
        132 scope: Option<u64>,
        /// [`persistency`].
        133 persistency: Option<u64>,
        /// [`link_type`].
        134 link_type: Option<u64>,
    }

    /// A face came, went, or changed: a notification of `/localhost/nfd/faces/events`.
    FaceEventNotification = 192 {
        /// [`face_event`].
        193 kind: u64,
        /// Its number.
        105 face_id: u64,
        /// Its remote address.
        114 uri: String,
        /// Its local address.
        129 local_uri: String,
        /// [`face_scope`].
        132 scope: u64,
        /// [`persistency`].
        133 persistency: u64,
        /// [`link_type`].
        134 link_type: u64,
        /// [`face_flags`].
        108 flags: u64,
    }

    /// Where faces can come from, in `/localhost/nfd/faces/channels`.
    ChannelStatus = 130 {
        /// The local address.
        129 local_uri: String,
    }

    /// A prefix of the FIB, in `/localhost/nfd/fib/list`.
    FibEntry = 128 {
        /// The prefix.
        7 name: NameBuf,
        /// Where Interests go.
        129 next_hops: Vec<NextHopRecord>,
    }

    /// A next hop.
    NextHopRecord = 129 {
        /// The face.
        105 face_id: u64,
        /// Its cost.
        106 cost: u64,
    }

    /// A prefix of the RIB, in `/localhost/nfd/rib/list`.
    RibEntry = 128 {
        /// The prefix.
        7 name: NameBuf,
        /// Its routes.
        129 routes: Vec<Route>,
    }

    /// A route.
    Route = 129 {
        /// The face.
        105 face_id: u64,
        /// Its origin: [`origin`].
        111 origin: u64,
        /// Its cost.
        106 cost: u64,
        /// [`route_flags`].
        108 flags: u64,
        /// When it expires, in milliseconds from now.
        109 expiration_ms: Option<u64>,
    }

    /// Which strategy a prefix has, in `/localhost/nfd/strategy-choice/list`.
    StrategyChoice = 128 {
        /// The prefix.
        7 name: NameBuf,
        /// The strategy.
        107 strategy: Strategy,
    }

    /// The content store, in `/localhost/nfd/cs/info`.
    CsInfo = 128 {
        /// Packets that it may hold.
        131 capacity: u64,
        /// [`cs_flags`].
        108 flags: u64,
        /// Packets that it holds.
        135 entries: u64,
        /// Interests that it answered.
        129 hits: u64,
        /// Interests that it did not.
        130 misses: u64,
    }
}

/// Numbers with names, a module for each kind.
macro_rules! codes {
    ($( $(#[$doc:meta])* $module:ident { $( $name:ident = $value:literal, )* } )*) => { $(
        $(#[$doc])*
        #[allow(missing_docs)] // the names say it all
        pub mod $module {
            $( pub const $name: u64 = $value; )*
        }
    )* };
}

codes! {
    /// Result of a command.
    status {
        OK = 200,
        BAD_PARAMETERS = 400,
        UNAUTHORIZED = 403,
        NOT_FOUND = 404,
        UNSUPPORTED_PROTOCOL = 406,
        FACE_CONFLICT = 409,
        FACE_NOT_FOUND = 410,
        NAME_TOO_LONG = 414,
        UNSUPPORTED_COMMAND = 501,
        UNAVAILABLE = 503,
        CANNOT_CREATE = 504,
    }
    /// How long a face stays.
    persistency {
        PERSISTENT = 0,
        ON_DEMAND = 1,
        PERMANENT = 2,
    }
    /// Where a face leads.
    face_scope {
        NON_LOCAL = 0,
        LOCAL = 1,
    }
    /// How many are at the other end of a face.
    link_type {
        POINT_TO_POINT = 0,
        MULTI_ACCESS = 1,
        AD_HOC = 2,
    }
    /// What happened to a face.
    face_event {
        CREATED = 1,
        DESTROYED = 2,
        UP = 3,
        DOWN = 4,
    }
    /// Flags of a face.
    face_flags {
        LOCAL_FIELDS = 1,
        LP_RELIABILITY = 2,
        CONGESTION_MARKING = 4,
    }
    /// How a route counts for longer prefixes, bit by bit.
    route_flags {
        CHILD_INHERIT = 1,
        CAPTURE = 2,
    }
    /// Flags of the content store.
    cs_flags {
        ADMIT = 1,
        SERVE = 2,
    }
    /// Origins of routes.
    origin {
        APP = 0,
        AUTOREG = 64,
        CLIENT = 65,
        AUTOCONF = 66,
        NLSR = 128,
        PREFIX_ANNOUNCEMENT = 129,
        STATIC = 255,
    }
}

impl ControlParameters {
    /// The arguments in a command's name: its component at `index`, by convention the one after
    /// `/localhost/nfd/MODULE/COMMAND`.
    ///
    /// # Errors
    /// As [`Record::parse`]. Invalid: there is no such component, or it is of another type.
    pub fn of_command(name: &Name<'_>, index: usize) -> Result<ControlParameters, Error> {
        match name.get(index) {
            Some(c) if u32::from(c.kind) == types::GENERIC_COMPONENT => Self::parse(c.value),
            _ => Err(Error::invalid(F, "command component", index as u32)),
        }
    }
}

impl fmt::Display for ControlResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

#[cfg(test)]
mod tests;
