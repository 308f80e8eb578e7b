//! Fields of messages: how values are written and read (SPEC.md, "Bodies"). A count that the
//! remaining bytes cannot hold is refused before any allocation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{Error, Format, need};
use crate::mac::MacAddr;

/// A field: how it is written and read.
pub(super) trait Field: Sized {
    /// Fewest bytes that a value can take.
    const LEN_MIN: usize;
    fn put(&self, out: &mut Vec<u8>);
    fn take(from: &mut Reader<'_>) -> Result<Self, Error>;
}

/// The bytes not parsed yet.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Error> {
        need(Format::FabricMessage, self.0.len(), len)?;
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }
}

pub(super) fn invalid(field: &'static str, value: impl Into<u32>) -> Error {
    Error::invalid(Format::FabricMessage, field, value.into())
}

macro_rules! integer_fields {
    ($($integer:ty),*) => {$(
        impl Field for $integer {
            const LEN_MIN: usize = size_of::<$integer>();
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
                Ok(<$integer>::from_be_bytes(from.array()?))
            }
        }
    )*};
}

integer_fields!(u8, u16, u32, u64);

impl Field for bool {
    const LEN_MIN: usize = 1;
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(invalid("truth value", other)),
        }
    }
}

impl Field for [u8; 32] {
    const LEN_MIN: usize = 32;
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        from.array()
    }
}

impl Field for MacAddr {
    const LEN_MIN: usize = 6;
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(MacAddr(from.array()?))
    }
}

impl Field for IpAddr {
    const LEN_MIN: usize = 5;
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match u8::take(from)? {
            4 => Ok(Ipv4Addr::from(from.array::<4>()?).into()),
            6 => Ok(Ipv6Addr::from(from.array::<16>()?).into()),
            other => Err(invalid("IP version", other)),
        }
    }
}

impl<T: Field> Field for Option<T> {
    const LEN_MIN: usize = 1;
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Field> Field for Vec<T> {
    const LEN_MIN: usize = 2;
    fn put(&self, out: &mut Vec<u8>) {
        count(self.len()).put(out);
        for item in &self[..usize::from(count(self.len()))] {
            item.put(out);
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let count = usize::from(u16::take(from)?);
        need(Format::FabricMessage, from.0.len(), count * T::LEN_MIN)?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

/// Lists are short by construction (`BODY_MAX`).
fn count(len: usize) -> u16 {
    debug_assert!(len <= usize::from(u16::MAX));
    len.min(usize::from(u16::MAX)) as u16
}
