//! Big-endian fields at fixed offsets. Offsets come from the code, never from a packet, and the
//! views check the length first, so the indexing below cannot fail on bad input.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::{Error, Format, need};
use crate::mac::MacAddr;
use crate::tcp::Flags;

#[inline(always)]
pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(b, at))
}

#[inline(always)]
pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(b, at))
}

#[inline(always)]
pub(crate) fn array_at<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&b[at..at + N]);
    out
}

#[inline(always)]
pub(crate) fn put(b: &mut [u8], at: usize, value: &[u8]) {
    b[at..at + value.len()].copy_from_slice(value);
}

#[inline(always)]
pub(crate) fn put_u16(b: &mut [u8], at: usize, v: u16) {
    put(b, at, &v.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put_u32(b: &mut [u8], at: usize, v: u32) {
    put(b, at, &v.to_be_bytes());
}

/// Kind and data of the next option of an IPv4 or TCP header (RFC 791, 3.1; RFC 9293, 3.1). Nothing
/// is left of `rest` after the end-of-options byte and after a malformed option.
pub(crate) fn next_option<'a>(
    rest: &mut &'a [u8],
    format: Format,
) -> Option<Result<(u8, &'a [u8]), Error>> {
    let bytes = std::mem::take(rest);
    let len = match *bytes {
        [] | [0, ..] => return None,
        // No-operation has no length byte.
        [1, ..] => {
            *rest = &bytes[1..];
            return Some(Ok((1, &[])));
        }
        [_] => 2,
        [_, len @ 0..2, ..] => return Some(Err(Error::invalid(format, "length", len.into()))),
        [_, len, ..] => len.into(),
    };
    if let Err(e) = need(format, bytes.len(), len) {
        return Some(Err(e));
    }
    *rest = &bytes[len..];
    Some(Ok((bytes[0], &bytes[2..len])))
}

/// A value that a view reads and writes at a fixed offset.
pub(crate) trait Field {
    fn get(b: &[u8], at: usize) -> Self;
    fn put(self, b: &mut [u8], at: usize);
}

macro_rules! field_types {
    ($($type:ty: $from:expr, $to:expr;)*) => {$(
        impl Field for $type {
            #[inline(always)]
            fn get(b: &[u8], at: usize) -> $type {
                $from(array_at(b, at))
            }

            #[inline(always)]
            fn put(self, b: &mut [u8], at: usize) {
                put(b, at, &$to(self));
            }
        }
    )*};
}

field_types! {
    u8: |[v]: [u8; 1]| v, |v| [v];
    u16: u16::from_be_bytes, u16::to_be_bytes;
    u32: u32::from_be_bytes, u32::to_be_bytes;
    u64: u64::from_be_bytes, u64::to_be_bytes;
    [u8; 4]: std::convert::identity, std::convert::identity;
    MacAddr: MacAddr, |mac: MacAddr| mac.0;
    Flags: |[v]: [u8; 1]| Flags(v), |flags: Flags| [flags.0];
    Ipv4Addr: |octets: [u8; 4]| Ipv4Addr::from(octets), |ip: Ipv4Addr| ip.octets();
    Ipv6Addr: |octets: [u8; 16]| Ipv6Addr::from(octets), |ip: Ipv6Addr| ip.octets();
}

/// Getters of a view for fields at fixed offsets, and setters for those with a second name:
/// `getter: type = offset` or `getter / setter: type = offset`.
macro_rules! fields {
    ($view:ident {
        $($(#[$doc:meta])* $get:ident $(/ $set:ident)?: $type:ty = $at:literal,)*
    }) => {
        impl<T: AsRef<[u8]>> $view<T> {$(
            $(#[$doc])*
            #[inline(always)]
            pub fn $get(&self) -> $type {
                <$type as crate::bytes::Field>::get(self.0.as_ref(), $at)
            }
        )*}

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $view<T> {$($(
            #[doc = concat!("Rewrites [`", stringify!($get), "`](Self::", stringify!($get), ").")]
            /// A checksum over it is the caller's.
            #[inline(always)]
            pub fn $set(&mut self, value: $type) {
                crate::bytes::Field::put(value, self.0.as_mut(), $at);
            }
        )?)*}
    };
}

/// A number with names: a type with a constant for each name. `Display` writes the name's text,
/// which also begins the constant's documentation; the last line writes any other number.
macro_rules! numbers {
    ($(#[$meta:meta])* $type:ident($int:ty) {
        $($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*
        _ => $other:expr
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub $int);

        impl $type {$(
            #[doc = concat!($text, ".\n")]
            $(#[$doc])*
            pub const $name: $type = $type($number);
        )*}

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let write_other: fn(&mut std::fmt::Formatter<'_>, $int) -> _ = $other;
                match *self {
                    $($type::$name => f.write_str($text),)*
                    $type(other) => write_other(f, other),
                }
            }
        }

        impl crate::bytes::Field for $type {
            #[inline(always)]
            fn get(b: &[u8], at: usize) -> $type {
                $type(crate::bytes::Field::get(b, at))
            }

            #[inline(always)]
            fn put(self, b: &mut [u8], at: usize) {
                crate::bytes::Field::put(self.0, b, at);
            }
        }
    };
}

pub(crate) use {fields, numbers};
