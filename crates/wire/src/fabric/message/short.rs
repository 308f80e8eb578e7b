//! Bodies of version 2: the questions for addresses, with nothing in them that the receiver knows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Field, Hops, MacAddr, Reader, invalid};
use crate::error::Error;

/// From this kind on, bodies have no request number: they are never retransmitted as they are.
pub const SHORT_KINDS: u8 = 128;

/// What an exchange's number and keys are made of; drawn at random by the source node.
pub type Secret = [u8; 16];

impl Field for Secret {
    const LEN_MIN: usize = 16;
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let mut secret = [0; 16];
        secret.copy_from_slice(from.bytes(16)?);
        Ok(secret)
    }
}

/// A number in as few bytes as it needs, with their count before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Number(pub u64);

impl Field for Number {
    const LEN_MIN: usize = 1;
    fn put(&self, out: &mut Vec<u8>) {
        let len = 8 - self.0.leading_zeros() as usize / 8;
        out.push(len as u8);
        out.extend_from_slice(&self.0.to_be_bytes()[8 - len..]);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let len = u8::take(from)?;
        if len > 8 {
            return Err(invalid("number", len));
        }
        let bytes = from.bytes(len.into())?;
        match bytes.first() {
            Some(0) => Err(invalid("number", 0u8)),
            _ => Ok(Number(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))),
        }
    }
}

/// The addresses of who asks and who is asked for, of the same version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ips {
    /// Two of IPv4.
    V4([Ipv4Addr; 2]),
    /// Two of IPv6.
    V6([Ipv6Addr; 2]),
}

impl Ips {
    /// The pair of these two, if they are of the same version.
    pub fn new(source: IpAddr, target: IpAddr) -> Option<Ips> {
        match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => Some(Ips::V4([source, target])),
            (IpAddr::V6(source), IpAddr::V6(target)) => Some(Ips::V6([source, target])),
            _ => None,
        }
    }

    /// That of the asking host.
    pub fn source(&self) -> IpAddr {
        match *self {
            Ips::V4([source, _]) => source.into(),
            Ips::V6([source, _]) => source.into(),
        }
    }

    /// That which is asked for.
    pub fn target(&self) -> IpAddr {
        match *self {
            Ips::V4([_, target]) => target.into(),
            Ips::V6([_, target]) => target.into(),
        }
    }
}

impl Field for Ips {
    const LEN_MIN: usize = 9;
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Ips::V4(both) => {
                out.push(4);
                both.iter().for_each(|ip| out.extend_from_slice(&ip.octets()));
            }
            Ips::V6(both) => {
                out.push(6);
                both.iter().for_each(|ip| out.extend_from_slice(&ip.octets()));
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match u8::take(from)? {
            4 => {
                let mut ip = || Ok(Ipv4Addr::from_bits(u32::take(from)?));
                Ok(Ips::V4([ip()?, ip()?]))
            }
            6 => {
                let mut ip = || {
                    let (high, low) = (u64::take(from)?, u64::take(from)?);
                    Ok(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
                };
                Ok(Ips::V6([ip()?, ip()?]))
            }
            other => Err(invalid("IP version", other)),
        }
    }
}

/// Routes, whose hops take as few bits as the ports on the way need.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<Hops>", into = "Vec<Hops>")]
pub struct Routes(Vec<Hops>);

impl Routes {
    /// Most routes.
    pub const MAX: usize = 15;

    /// These routes, if they are not too many, and each has 1 to 255 hops.
    pub fn new(routes: Vec<Hops>) -> Option<Routes> {
        let is_good =
            routes.len() <= Self::MAX && routes.iter().all(|r| (1..=255).contains(&r.len()));
        is_good.then_some(Routes(routes))
    }

    /// Each of them.
    pub fn hops(&self) -> &[Hops] {
        &self.0
    }

    /// The hops on the way, without the last of each route.
    fn on_the_way(&self) -> impl Iterator<Item = u8> {
        self.0.iter().flat_map(|route| &route[..route.len() - 1]).copied()
    }
}

impl TryFrom<Vec<Hops>> for Routes {
    type Error = &'static str;
    fn try_from(routes: Vec<Hops>) -> Result<Routes, &'static str> {
        Routes::new(routes).ok_or("too many routes, or one that is empty or too long")
    }
}

impl From<Routes> for Vec<Hops> {
    fn from(routes: Routes) -> Vec<Hops> {
        routes.0
    }
}

impl Field for Routes {
    const LEN_MIN: usize = 1;
    fn put(&self, out: &mut Vec<u8>) {
        let low = self.on_the_way().min().unwrap_or(0);
        let high = self.on_the_way().max().unwrap_or(0);
        let width = 8 - (high - low).leading_zeros();
        out.push((self.0.len() as u8) << 4 | width as u8);
        if !self.0.is_empty() {
            out.push(low);
        }
        for route in &self.0 {
            let (last, way) = route.split_last().expect("no route is empty");
            out.extend([route.len() as u8, *last]);
            // Bits that are not a whole byte yet, and how many.
            let (mut bits, mut count) = (0u32, 0);
            for hop in way {
                (bits, count) = (bits << width | u32::from(hop - low), count + width);
                if count >= 8 {
                    count -= 8;
                    out.push((bits >> count) as u8);
                }
            }
            if count > 0 {
                out.push((bits << (8 - count)) as u8);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let whole = from.0;
        let head = u8::take(from)?;
        let (count, width) = (head >> 4, usize::from(head & 0xF));
        if width > 8 {
            return Err(invalid("routes", head));
        }
        let low = if count > 0 { u8::take(from)? } else { 0 };
        let mut routes = Vec::new();
        for _ in 0..count {
            let (len, last) = (u8::take(from)?, u8::take(from)?);
            let way = usize::from(len).checked_sub(1).ok_or(invalid("routes", len))?;
            let bytes = from.bytes((way * width).div_ceil(8))?;
            let bit = |at: usize| u32::from(bytes[at / 8] >> (7 - at % 8) & 1);
            let hop = |at: usize| {
                let more = (at * width..(at + 1) * width).fold(0, |n, at| n << 1 | bit(at));
                u8::try_from(u32::from(low) + more).map_err(|_| invalid("routes", more))
            };
            let mut route = (0..way).map(hop).collect::<Result<Hops, Error>>()?;
            route.push(last);
            routes.push(route);
        }
        // One meaning has one encoding: the least width, and zero bits at the end.
        let routes = Routes(routes);
        let mut again = Vec::new();
        routes.put(&mut again);
        match again == whole[..whole.len() - from.0.len()] {
            true => Ok(routes),
            false => Err(invalid("routes", head)),
        }
    }
}

structures! {
    /// From the source node, instead of a `ResolveRequest`.
    ShortRequest {
        /// Number and keys of the exchange are made of it.
        secret: Secret,
        /// The asking host's port.
        port: u8,
        /// The asking host; absent: the one that has the address at that port.
        source_mac: Option<MacAddr>,
        /// Its address, and the requested one.
        ips: Ips,
    }

    /// From the controller to the target node, instead of a `ResolveForward`: the answer is a
    /// [`ShortReply`].
    ShortForward {
        /// As in the request.
        secret: Secret,
        /// Orders installations of the same entry: the higher wins.
        version: Number,
        /// The asking host.
        source_mac: MacAddr,
        /// The target host.
        target_mac: MacAddr,
        /// As in the request.
        ips: Ips,
        /// From the target host to the asking host, ending in the asking host's port.
        to_source: Routes,
        /// From the asking host to the target host, ending in the target host's port.
        to_target: Routes,
        /// Which of these the reply records on its way, from 1; 0: none.
        recorded: u8,
    }

    /// From the target node to the source node, instead of a `ResolveReply`.
    ShortReply {
        /// The target host.
        target_mac: MacAddr,
        /// Its port.
        target_port: u8,
        /// As in the forward.
        recorded: u8,
        /// From the asking host to the target host, but for the one that is recorded.
        to_target: Routes,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(field: &impl Field) -> Vec<u8> {
        let mut out = Vec::new();
        field.put(&mut out);
        out
    }

    fn read<T: Field>(bytes: &[u8]) -> Result<T, Error> {
        let mut from = Reader(bytes);
        let value = T::take(&mut from)?;
        assert!(from.0.is_empty(), "{bytes:?} has bytes behind the value");
        Ok(value)
    }

    #[test]
    fn hops_take_the_bits_that_the_ports_on_the_way_need() {
        let routes = Routes::new(vec![vec![10, 11, 10, 13, 7], vec![12, 7]]).unwrap();
        // 00 01 00 11, and 10.
        let packed = [0x22, 10, 5, 7, 0b0001_0011, 2, 7, 0b1000_0000];
        assert_eq!(bytes(&routes), packed);
        assert_eq!(read::<Routes>(&packed), Ok(routes));
        // Nothing on the way, one port alone on it, and no route.
        for (hops, packed) in [
            (vec![vec![9]], &[0x10, 0, 1, 9][..]),
            (vec![vec![3, 3, 3, 9]], &[0x10, 3, 4, 9]),
            (vec![], &[0]),
        ] {
            assert_eq!(bytes(&Routes::new(hops.clone()).unwrap()), packed);
            assert_eq!(read::<Routes>(packed).unwrap().hops(), hops);
        }
        assert_eq!(Routes::new(vec![vec![]]), None);
        assert_eq!(Routes::new(vec![vec![1]; 16]), None);
    }

    #[test]
    fn an_encoding_that_wastes_bits_is_refused() {
        for packed in [
            &[0x12, 3, 2, 9, 0x40][..], // A width of two for one port.
            &[0x11, 3, 3, 9, 0x41],     // A bit behind the last hop.
            &[0x11, 3, 3, 9, 0xC0],     // The lowest port is not the lowest.
            &[0x19, 3, 2, 9, 0, 0],     // A width of nine.
            &[0x10, 3, 1, 9],           // A lowest port without a hop.
            &[0x10, 3, 0, 9],           // A route without hops.
            &[0x01],                    // A width without routes.
            &[0x18, 250, 3, 9, 0, 6],   // A port beyond the last one.
        ] {
            assert!(read::<Routes>(packed).is_err(), "{packed:?}");
        }
        for number in [&[1, 0][..], &[2, 0, 5], &[9, 1, 1, 1, 1, 1, 1, 1, 1, 1]] {
            assert!(read::<Number>(number).is_err(), "{number:?}");
        }
        assert_eq!(bytes(&Number(0)), [0]);
        assert_eq!(bytes(&Number(256)), [2, 1, 0]);
    }

    proptest! {
        #[test]
        fn routes_and_numbers_read_back(
            hops in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 0..=15),
            low in any::<u8>(),
            span in 1u8..=255,
            number in any::<u64>(),
            shift in 0u32..64,
        ) {
            let narrow = |hop: u8| low.saturating_add(hop % span);
            let hops = hops.into_iter().map(|route| route.into_iter().map(narrow).collect());
            let routes = Routes::new(hops.collect()).unwrap();
            prop_assert_eq!(read::<Routes>(&bytes(&routes)), Ok(routes));
            let number = Number(number >> shift);
            prop_assert_eq!(read::<Number>(&bytes(&number)), Ok(number));
        }

        #[test]
        fn whatever_is_read_is_written_the_same(from in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut rest = Reader(&from);
            if let Ok(routes) = Routes::take(&mut rest) {
                prop_assert_eq!(&bytes(&routes)[..], &from[..from.len() - rest.0.len()]);
            }
        }
    }
}
