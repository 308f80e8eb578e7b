//! Data (packet format, "Data Packet").
//!
//! ```text
//! Data     = Name [MetaInfo] [Content] SignatureInfo SignatureValue
//! MetaInfo = [ContentType] [FreshnessPeriod] [FinalBlockId]
//! ```

use std::fmt;
use std::time::Duration;

use super::name::{Component, Digests, Name};
use super::signature::{SignatureInfo, Signer};
use super::tlv::{self, Element, Reader, Writer};
use super::types;
use crate::error::{Error, Format, need};

const F: Format = Format::NdnData;

/// The type of the content (packet format, "ContentType").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContentType(pub u64);

impl ContentType {
    /// The payload of the name; the default.
    pub const BLOB: ContentType = ContentType(0);
    /// Names of where to ask.
    pub const LINK: ContentType = ContentType(1);
    /// A public key: the Data is a certificate.
    pub const KEY: ContentType = ContentType(2);
    /// The producer has no such Data.
    pub const NACK: ContentType = ContentType(3);
}

/// The meaning of MetaInfo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaInfo<'a> {
    /// The type of the content; [`ContentType::BLOB`] if absent.
    pub content_type: Option<ContentType>,
    /// How long after its arrival a node treats it as fresh, in milliseconds; absent: never.
    pub freshness_ms: Option<u64>,
    /// The last component of the name of the last Data of a sequence.
    pub final_block: Option<Component<'a>>,
}

impl<'a> MetaInfo<'a> {
    fn parse(element: &Element<'a>) -> Result<MetaInfo<'a>, Error> {
        let mut meta = MetaInfo::default();
        let mut reader = element.elements();
        let mut last = 0;
        while let Some(element) = reader.next()? {
            // The three have numbers in their order.
            if !(types::CONTENT_TYPE..=types::FINAL_BLOCK_ID).contains(&element.kind)
                || element.kind <= last
            {
                element.ignore()?;
                continue;
            }
            last = element.kind;
            match element.kind {
                types::CONTENT_TYPE => meta.content_type = Some(ContentType(element.number()?)),
                types::FRESHNESS_PERIOD => meta.freshness_ms = Some(element.number()?),
                _ => meta.final_block = Some(Component::new_checked(element.value)?),
            }
        }
        Ok(meta)
    }

    /// Writes the element's value.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.optional_number(types::CONTENT_TYPE, self.content_type.map(|t| t.0));
        w.optional_number(types::FRESHNESS_PERIOD, self.freshness_ms);
        if let Some(component) = self.final_block {
            w.nested(types::FINAL_BLOCK_ID, |w| {
                w.element(component.kind.into(), component.value);
            });
        }
    }
}

/// A view of a Data packet.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    bytes: &'a [u8],
    name: Name<'a>,
    meta: MetaInfo<'a>,
    has_meta: bool,
    content: Option<&'a [u8]>,
    signature_info: &'a [u8],
    signature_value: &'a [u8],
    signed_portion: &'a [u8],
}

impl<'a> Data<'a> {
    /// Checks the Data at the start of `bytes`; bytes after it (padding) are ignored. The
    /// signature's own information is not checked: [`Data::signature_info`] does that.
    ///
    /// # Errors
    /// Truncated: it exceeds `bytes`. Invalid: not Data, no name, no signature, an implicit digest
    /// in the name (it is computed, never sent), an element that is malformed, or critical and
    /// unknown or out of order.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Data<'a>, Error> {
        Data::new_checked_but_name(bytes, |_| None)
    }

    /// The same, but that the name is not checked if it is `known`: if that says of the name's
    /// bytes that they were, that no implicit digest is among them, and how many components they
    /// are. It has to be right: [`Name`] believes it.
    ///
    /// # Errors
    /// As [`Data::new_checked`].
    #[inline(always)]
    pub fn new_checked_but_name(
        bytes: &'a [u8],
        known: impl FnOnce(&'a [u8]) -> Option<u32>,
    ) -> Result<Data<'a>, Error> {
        let whole = Reader::new(bytes, F).expect(types::DATA, "packet type")?;
        let mut reader = whole.elements();
        let name_element = reader.expect(types::NAME, "name")?;
        let name = match known(name_element.value) {
            Some(components) => Name::known(name_element.value, components),
            None => match Name::check(name_element.value)? {
                (name, Digests { implicit: 0, .. }) => name,
                (_, Digests { implicit, .. }) => {
                    return Err(Error::invalid(F, "count of implicit digests", implicit));
                }
            },
        };
        let mut data = Data {
            bytes: &bytes[..whole.end()],
            name,
            meta: MetaInfo::default(),
            has_meta: false,
            content: None,
            signature_info: &[],
            signature_value: &[],
            signed_portion: &[],
        };
        let mut last = types::NAME;
        // What nearly every Data has, in order; then whatever else comes. Written twice, since each
        // element by its own type takes a fifth fewer instructions than all by one loop.
        if let Some(element) = reader.next_if(types::META_INFO)? {
            (data.meta, data.has_meta, last) = (MetaInfo::parse(&element)?, true, types::META_INFO);
        }
        if let Some(element) = reader.next_if(types::CONTENT)? {
            (data.content, last) = (Some(element.value), types::CONTENT);
        }
        if let Some(element) = reader.next_if(types::SIGNATURE_INFO)? {
            (data.signature_info, last) = (element.value, types::SIGNATURE_INFO);
            if let Some(element) = reader.next_if(types::SIGNATURE_VALUE)? {
                data.signature_value = element.value;
                data.signed_portion = &whole.value[..element.start];
                last = types::SIGNATURE_VALUE;
            }
        }
        while let Some(element) = reader.next()? {
            // The four have numbers in their order.
            if !(types::META_INFO..=types::SIGNATURE_VALUE).contains(&element.kind)
                || element.kind <= last
            {
                element.ignore()?;
                continue;
            }
            match element.kind {
                types::META_INFO => {
                    data.meta = MetaInfo::parse(&element)?;
                    data.has_meta = true;
                }
                types::CONTENT => data.content = Some(element.value),
                types::SIGNATURE_INFO => data.signature_info = element.value,
                _ if last != types::SIGNATURE_INFO => break,
                _ => {
                    data.signature_value = element.value;
                    data.signed_portion = &whole.value[..element.start];
                }
            }
            last = element.kind;
        }
        match last {
            types::SIGNATURE_VALUE => Ok(data),
            types::SIGNATURE_INFO => Err(Error::invalid(F, "count of signatures", 0)),
            _ => Err(Error::invalid(F, "count of signature infos", 0)),
        }
    }

    /// The Data, from its type to its end: the input of the implicit digest.
    #[inline(always)]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The name, without the implicit digest.
    #[inline(always)]
    pub const fn name(&self) -> Name<'a> {
        self.name
    }

    /// Its meta information.
    #[inline(always)]
    pub const fn meta(&self) -> &MetaInfo<'a> {
        &self.meta
    }

    /// The type of the content.
    #[inline(always)]
    pub fn content_type(&self) -> ContentType {
        self.meta.content_type.unwrap_or_default()
    }

    /// How long after its arrival it is fresh; zero: never.
    #[inline(always)]
    pub fn freshness(&self) -> Duration {
        Duration::from_millis(self.meta.freshness_ms.unwrap_or(0))
    }

    /// The content; empty if there is none.
    #[inline(always)]
    pub fn content(&self) -> &'a [u8] {
        self.content.unwrap_or_default()
    }

    /// Its signature information.
    ///
    /// # Errors
    /// As [`SignatureInfo::parse`].
    pub fn signature_info(&self) -> Result<SignatureInfo<'a>, Error> {
        SignatureInfo::parse(self.signature_info)
    }

    /// The signature.
    #[inline(always)]
    pub const fn signature_value(&self) -> &'a [u8] {
        self.signature_value
    }

    /// The bytes that the signature is over: from the name to before the signature.
    #[inline(always)]
    pub const fn signed_portion(&self) -> &'a [u8] {
        self.signed_portion
    }
}

/// The meaning of a Data packet, without its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The name.
    pub name: Name<'a>,
    /// Its meta information.
    pub meta: Option<MetaInfo<'a>>,
    /// The content.
    pub content: Option<&'a [u8]>,
}

impl<'a> Repr<'a> {
    /// The meaning of `data`.
    ///
    /// # Errors
    /// None today: whatever the view has checked is valid.
    pub fn parse(data: &Data<'a>) -> Result<Repr<'a>, Error> {
        let meta = data.has_meta.then_some(data.meta);
        Ok(Repr { name: data.name, meta, content: data.content })
    }

    fn write_signed_portion(&self, signer: &dyn Signer, w: &mut Writer<'_>) {
        self.name.write(w);
        if let Some(meta) = &self.meta {
            w.nested(types::META_INFO, |w| meta.write(w));
        }
        if let Some(content) = self.content {
            w.element(types::CONTENT, content);
        }
        signer.info().write(types::SIGNATURE_INFO, w);
    }

    /// Most bytes that `emit` writes; it writes fewer if the signature has fewer than it may.
    pub fn buffer_len(&self, signer: &dyn Signer) -> usize {
        let signed = Writer::count(|w| self.write_signed_portion(signer, w));
        let signature = tlv::element_len(types::SIGNATURE_VALUE, signer.signature_len_max());
        tlv::element_len(types::DATA, signed + signature)
    }

    /// Writes the Data at the start of `buf`, signed; returns its length.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: the signer wrote more than it said
    /// it would.
    pub fn emit(&self, signer: &dyn Signer, buf: &mut [u8]) -> Result<usize, Error> {
        let signed_len = Writer::count(|w| self.write_signed_portion(signer, w));
        let max = signer.signature_len_max();
        let value_head_max = tlv::element_len(types::SIGNATURE_VALUE, max) - max;
        let value_len_max = signed_len + value_head_max + max;
        let head_max = tlv::element_len(types::DATA, value_len_max) - value_len_max;
        need(F, buf.len(), head_max + value_len_max)?;

        // First assuming the longest signature; then the head moves up if it is shorter.
        let (head, rest) = buf.split_at_mut(head_max);
        let (signed, rest) = rest.split_at_mut(signed_len);
        let (value_head, value) = rest.split_at_mut(value_head_max);
        self.write_signed_portion(signer, &mut Writer::new(signed));
        let len = signer.sign(&[signed], &mut value[..max]);
        if len > max {
            return Err(Error::invalid(F, "length of signature", len as u32));
        }
        let mut writer = Writer::new(value_head);
        writer.head(types::SIGNATURE_VALUE, len);
        let value_head_len = writer.len();
        let value_len = signed_len + value_head_len + len;
        let mut writer = Writer::new(head);
        writer.head(types::DATA, value_len);
        let head_len = writer.len();

        let value_at = head_max + signed_len + value_head_max;
        buf.copy_within(value_at..value_at + len, value_at - value_head_max + value_head_len);
        buf.copy_within(head_max..head_max + value_len, head_len);
        Ok(head_len + value_len)
    }

    /// The signed Data in a buffer of its own.
    ///
    /// # Errors
    /// As [`Repr::emit`].
    pub fn to_bytes(&self, signer: &dyn Signer) -> Result<Vec<u8>, Error> {
        let mut out = vec![0; self.buffer_len(signer)];
        let len = self.emit(signer, &mut out)?;
        out.truncate(len);
        Ok(out)
    }
}

impl fmt::Display for Repr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data {} content {}", self.name, self.content.map_or(0, <[u8]>::len))?;
        let meta = self.meta.unwrap_or_default();
        if let Some(ContentType(other @ 1..)) = meta.content_type {
            write!(f, " type {other}")?;
        }
        if let Some(ms) = meta.freshness_ms {
            write!(f, " fresh {ms} ms")?;
        }
        if let Some(last) = meta.final_block {
            write!(f, " final {last}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
