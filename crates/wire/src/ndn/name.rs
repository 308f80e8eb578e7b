//! Names (packet format, "Name"; component types: "NDN naming conventions" revision 3, NDN-0022).
//!
//! The value of a Name element is a sequence of components, each an element of type 1 to 65535.
//! That makes names simple to compare: one is a prefix of another if its bytes are, and the
//! canonical order is that of the bytes. A table of names needs [`Name::ends`]: the offset at which
//! each prefix ends, in one pass.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::tlv::{self, Head, Reader, Writer};
use super::types;
use crate::error::{Error, Format};

mod uri;

pub use uri::UriError;

/// Bytes of a SHA-256 digest, as in digest components.
pub const DIGEST_LEN: usize = 32;

/// One component of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Component<'a> {
    /// Its type, 1 to 65535.
    pub kind: u16,
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> Component<'a> {
    /// A component of the ordinary type.
    pub const fn generic(value: &'a [u8]) -> Component<'a> {
        Component { kind: types::GENERIC_COMPONENT as u16, value }
    }

    /// Reads the one component that `bytes` hold.
    ///
    /// # Errors
    /// As [`Name::new_checked`]. Invalid: it is not exactly one.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Component<'a>, Error> {
        let name = Name::new_checked(bytes)?;
        match (name.len(), name.components().next()) {
            (1, Some(component)) => Ok(component),
            (count, _) => Err(Error::invalid(Format::NdnName, "count of components", count as u32)),
        }
    }

    /// Its encoded length in bytes.
    pub const fn encoded_len(&self) -> usize {
        tlv::element_len(self.kind as u32, self.value.len())
    }

    /// The number in a component of this type (segment, version and so on: `types::SEGMENT` …);
    /// `None` for another type, or if it holds no number.
    pub fn number(&self, kind: u32) -> Option<u64> {
        match u32::from(self.kind) == kind {
            true => tlv::parse_number(self.value),
            false => None,
        }
    }

    /// The digest that a component of the type holds.
    pub fn digest(&self, kind: u32) -> Option<&'a [u8; DIGEST_LEN]> {
        match u32::from(self.kind) == kind {
            true => self.value.try_into().ok(),
            false => None,
        }
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.element(self.kind.into(), self.value);
    }
}

impl Ord for Component<'_> {
    /// The canonical order: by type, then by length, then by bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |c: &Self| (c.kind, c.value.len());
        key(self).cmp(&key(other)).then_with(|| self.value.cmp(other.value))
    }
}

impl PartialOrd for Component<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How many components of a name are digests.
#[derive(Clone, Copy, Default)]
pub(super) struct Digests {
    pub implicit: u32,
    pub parameters: u32,
}

fn is_digest(kind: u32) -> bool {
    matches!(kind, types::IMPLICIT_SHA256_DIGEST | types::PARAMETERS_SHA256_DIGEST)
}

impl Digests {
    /// Checks the component that `bytes` begin with; returns its length.
    fn check(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut reader = Reader::new(bytes, Format::NdnName);
        let Some(component) = reader.next()? else { return Ok(0) };
        if component.kind > u16::MAX.into() {
            return Err(Error::invalid(Format::NdnName, "component type", component.kind));
        }
        if is_digest(component.kind) {
            component.array::<DIGEST_LEN>("digest length")?;
            self.implicit += u32::from(component.kind == types::IMPLICIT_SHA256_DIGEST);
            self.parameters += u32::from(component.kind == types::PARAMETERS_SHA256_DIGEST);
        }
        Ok(component.end())
    }
}

/// A name: the value of a Name element, checked. Its order, that of the bytes, is the canonical one
/// (packet format, "Canonical Order").
#[derive(Clone, Copy, PartialOrd, Ord)]
pub struct Name<'a> {
    value: &'a [u8],
    len: u32,
}

impl<'a> Name<'a> {
    /// The name of no components.
    pub const ROOT: Name<'static> = Name { value: &[], len: 0 };

    /// Checks every component: its type, that it ends within `value`, the length of digests.
    ///
    /// # Errors
    /// Truncated: a component exceeds `value`. Invalid: a type of 0 or above 65535, a digest that
    /// does not have 32 bytes, a number that is not in its shortest form.
    #[inline]
    pub fn new_checked(value: &'a [u8]) -> Result<Name<'a>, Error> {
        Name::check(value).map(|(name, _)| name)
    }

    /// As [`Name::new_checked`], and counts the digests on the way.
    #[inline]
    pub(super) fn check(value: &'a [u8]) -> Result<(Name<'a>, Digests), Error> {
        let (mut at, mut len, mut digests) = (0, 0, Digests::default());
        while at < value.len() {
            at = match tlv::short_element(value, at) {
                // The two kinds of digests come first.
                Some((kind, end)) if u32::from(kind) > types::PARAMETERS_SHA256_DIGEST => end,
                _ => at + digests.check(&value[at..])?,
            };
            len += 1;
        }
        Ok((Name { value, len }, digests))
    }

    /// A previously checked name with this many components.
    #[inline(always)]
    pub(super) const fn known(value: &'a [u8], len: u32) -> Name<'a> {
        Name { value, len }
    }

    /// The components' bytes.
    #[inline(always)]
    pub const fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The number of components.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True for the name of no components.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the Name element.
    pub const fn encoded_len(&self) -> usize {
        tlv::element_len(types::NAME, self.value.len())
    }

    /// The components, from the first on.
    pub const fn components(&self) -> Components<'a> {
        Components { value: self.value, at: 0 }
    }

    /// The component at an index from 0; takes as many steps.
    pub fn get(&self, index: usize) -> Option<Component<'a>> {
        self.components().nth(index)
    }

    /// The last component; takes as many steps as there are.
    pub fn last(&self) -> Option<Component<'a>> {
        self.components().last()
    }

    /// Where the prefixes of 1, 2, … components end, as offsets in [`Name::value`]. The last one is
    /// the whole name's.
    pub const fn ends(&self) -> Ends<'a> {
        Ends(self.components())
    }

    /// The first `len` components, or all if there are fewer.
    pub fn prefix(&self, len: usize) -> Name<'a> {
        if len >= self.len() {
            return *self;
        }
        let end = match len.checked_sub(1) {
            Some(before) => self.ends().nth(before).unwrap_or(0),
            None => 0,
        };
        Name { value: &self.value[..end], len: len as u32 }
    }

    /// True if the first components of `other` are those of this name.
    #[inline(always)]
    pub fn is_prefix_of(&self, other: &Name<'_>) -> bool {
        other.value.starts_with(self.value)
    }

    /// The digest in the first component of type ParametersSha256Digest, and the offset in
    /// [`Name::value`] at which that component begins.
    pub fn parameters_digest(&self) -> Option<(&'a [u8; DIGEST_LEN], usize)> {
        let mut components = self.components();
        loop {
            let at = components.at;
            if let Some(digest) = components.next()?.digest(types::PARAMETERS_SHA256_DIGEST) {
                return Some((digest, at));
            }
        }
    }

    /// A copy of its own.
    pub fn to_buf(&self) -> NameBuf {
        NameBuf { value: self.value.to_vec(), len: self.len }
    }

    /// Writes the Name element.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.element(types::NAME, self.value);
    }
}

// The count follows from the bytes, and is left out of comparisons.
impl PartialEq for Name<'_> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Name<'_> {}

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'a> IntoIterator for Name<'a> {
    type Item = Component<'a>;
    type IntoIter = Components<'a>;

    fn into_iter(self) -> Components<'a> {
        self.components()
    }
}

/// Iterates over the components of a name.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    value: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Component<'a>> {
        if self.at >= self.value.len() {
            return None;
        }
        // The name has been checked: neither of the two fails.
        let head = Head::read(self.value, self.at, Format::NdnName).ok()?;
        let start = self.at + head.head_len;
        let value = self.value.get(start..start + head.value_len as usize)?;
        self.at = start + value.len();
        Some(Component { kind: head.kind as u16, value })
    }
}

/// Iterates over the offsets at which prefixes end.
#[derive(Clone, Debug)]
pub struct Ends<'a>(Components<'a>);

impl Iterator for Ends<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        match tlv::short_element(self.0.value, self.0.at) {
            Some((_, end)) => self.0.at = end,
            None => self.0.next().map(|_| ())?,
        }
        Some(self.0.at)
    }
}

/// A sequence of Name elements, checked: a forwarding hint, or the content of a link object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names<'a>(&'a [u8]);

impl<'a> Names<'a> {
    /// No names.
    pub const EMPTY: Names<'static> = Names(&[]);

    /// Checks every name. Non-critical elements may be between them.
    ///
    /// # Errors
    /// As [`Name::new_checked`]. Invalid: a critical element that is not a name, or no name at all.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Names<'a>, Error> {
        let mut reader = Reader::new(bytes, Format::NdnName);
        let mut found = false;
        while let Some(element) = reader.next()? {
            match element.kind {
                types::NAME => {
                    Name::new_checked(element.value)?;
                    found = true;
                }
                _ => element.ignore()?,
            }
        }
        match found {
            true => Ok(Names(bytes)),
            false => Err(Error::invalid(Format::NdnName, "count of names", 0)),
        }
    }

    /// The elements' bytes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// True if there is no name, as in [`Names::EMPTY`].
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, from the first on.
    pub fn iter(&self) -> impl Iterator<Item = Name<'a>> + use<'a> {
        let mut reader = Reader::new(self.0, Format::NdnName);
        std::iter::from_fn(move || {
            loop {
                let element = reader.next().ok()??;
                if element.kind == types::NAME {
                    return Name::new_checked(element.value).ok();
                }
            }
        })
    }
}

/// A name of its own. Ordered as [`Name`].
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameBuf {
    value: Vec<u8>,
    len: u32,
}

impl NameBuf {
    /// The name of no components.
    pub const fn new() -> NameBuf {
        NameBuf { value: Vec::new(), len: 0 }
    }

    /// The name, borrowed.
    #[inline(always)]
    pub fn as_name(&self) -> Name<'_> {
        Name { value: &self.value, len: self.len }
    }

    /// Adds a component.
    ///
    /// # Errors
    /// Invalid: type 0, or a digest that does not have 32 bytes.
    pub fn push(&mut self, component: Component<'_>) -> Result<(), Error> {
        let invalid = |field, value| Err(Error::invalid(Format::NdnName, field, value));
        match (component.kind.into(), component.value.len()) {
            (0, _) => return invalid("component type", 0),
            (types::IMPLICIT_SHA256_DIGEST | types::PARAMETERS_SHA256_DIGEST, DIGEST_LEN) => {}
            (types::IMPLICIT_SHA256_DIGEST | types::PARAMETERS_SHA256_DIGEST, len) => {
                return invalid("digest length", len as u32);
            }
            _ => {}
        }
        let old = self.value.len();
        self.value.resize(old + component.encoded_len(), 0);
        component.write(&mut Writer::new(&mut self.value[old..]));
        self.len += 1;
        Ok(())
    }

    /// The name with one more component of the ordinary type.
    pub fn with(mut self, value: impl AsRef<[u8]>) -> NameBuf {
        let component = Component::generic(value.as_ref());
        self.push(component).expect("an ordinary component may hold anything");
        self
    }

    /// The name with one more component that holds a number (`types::SEGMENT`, `types::VERSION` …),
    /// in as few bytes as possible.
    ///
    /// # Panics
    /// If `kind` is none of the five types of numbers.
    pub fn with_number(mut self, kind: u32, number: u64) -> NameBuf {
        assert!(uri::number_prefix(kind).is_some(), "type {kind} is not one of a number");
        let bytes = number.to_be_bytes();
        let value = &bytes[8 - tlv::number_len(number)..];
        self.push(Component { kind: kind as u16, value }).expect("the type was just looked at");
        self
    }

    /// Adds the components of another name.
    pub fn extend(&mut self, name: Name<'_>) {
        self.value.extend_from_slice(name.value);
        self.len += name.len;
    }

    /// Takes the last components away until `len` are left.
    pub fn truncate(&mut self, len: usize) {
        let kept = self.as_name().prefix(len);
        let (bytes, len) = (kept.value.len(), kept.len);
        self.value.truncate(bytes);
        self.len = len;
    }
}

impl Hash for NameBuf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_name().hash(state);
    }
}

/// By its bytes: a map of names can be searched with [`Name::value`], or a part that ends at one of
/// [`Name::ends`].
impl std::borrow::Borrow<[u8]> for NameBuf {
    fn borrow(&self) -> &[u8] {
        &self.value
    }
}

impl From<Name<'_>> for NameBuf {
    fn from(name: Name<'_>) -> NameBuf {
        name.to_buf()
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

#[cfg(test)]
mod tests;
