//! Changes of the group's forwarding table, as the controller sends them to its nodes (SPEC.md,
//! 15): sets of next hops, and routes that name them.
//!
//! A full table is a million routes, so a change is short: a kind (u8), and for a route the length
//! of its prefix (u8), as many bytes of its address as that length needs, and the number of its set
//! (u32).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::field::{Field, Reader, invalid};
use super::partition::finish;
use crate::Prefix;
use crate::error::Error;

/// Most hosts of a set.
pub const FIB_HOPS_MAX: usize = 64;
/// The longest change: a set of IPv6 hosts.
pub const FIB_CHANGE_MAX: usize = 1 + 4 + 1 + 1 + FIB_HOPS_MAX * (17 + 1);

const ROUTE_V4: u8 = 1;
const ROUTE_V6: u8 = 2;
const WITHDRAWN_V4: u8 = 3;
const WITHDRAWN_V6: u8 = 4;
const SET: u8 = 5;
const SET_GONE: u8 = 6;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FibChange {
    /// What a set of next hops is, from now on; absent: no route names it any more.
    Set {
        /// Its number; no other set of the table ever has it.
        set: u32,
        /// What becomes of packets.
        target: Option<FibTarget>,
    },
    /// The set that a prefix leads to; absent: the route is withdrawn.
    Route {
        /// The prefix.
        prefix: Prefix,
        /// The set.
        set: Option<u32>,
    },
}

/// What becomes of packets.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FibTarget {
    /// They go to one of these hosts of the group's subnets, by flow: 1 to [`FIB_HOPS_MAX`].
    Hosts(Vec<FibHop>),
    /// They are dropped silently.
    Blackhole,
    /// They are dropped, and the sender is told that the host is unreachable.
    Unreachable,
    /// They are dropped, and the sender is told that it is prohibited.
    Prohibited,
}

/// A host that leads to other networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct FibHop {
    /// Its address.
    pub via: IpAddr,
    /// Its share of the flows, at least 1.
    pub weight: u8,
}

impl FibChange {
    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            FibChange::Route { prefix, set } => {
                let kind = match (prefix.addr().is_ipv4(), set) {
                    (true, Some(_)) => ROUTE_V4,
                    (false, Some(_)) => ROUTE_V6,
                    (true, None) => WITHDRAWN_V4,
                    (false, None) => WITHDRAWN_V6,
                };
                out.extend([kind, prefix.len()]);
                let used = usize::from(prefix.len().div_ceil(8));
                match prefix.addr() {
                    IpAddr::V4(a) => out.extend_from_slice(&a.octets()[..used]),
                    IpAddr::V6(a) => out.extend_from_slice(&a.octets()[..used]),
                }
                if let Some(set) = set {
                    set.put(out);
                }
            }
            FibChange::Set { set, target: None } => {
                out.push(SET_GONE);
                set.put(out);
            }
            FibChange::Set { set, target: Some(target) } => {
                out.push(SET);
                set.put(out);
                match target {
                    FibTarget::Blackhole => out.push(1),
                    FibTarget::Unreachable => out.push(2),
                    FibTarget::Prohibited => out.push(3),
                    FibTarget::Hosts(hops) => {
                        let hops = &hops[..hops.len().min(FIB_HOPS_MAX)];
                        out.extend([0, hops.len() as u8]);
                        for hop in hops {
                            hop.via.put(out);
                            hop.weight.put(out);
                        }
                    }
                }
            }
        }
    }

    /// The changes whose bytes follow each other.
    ///
    /// # Errors
    /// Truncated, or invalid: an unknown kind or value, or bits beyond a prefix.
    pub fn read_all(bytes: &[u8]) -> Result<Vec<FibChange>, Error> {
        let mut from = Reader(bytes);
        let mut changes = Vec::new();
        while !from.0.is_empty() {
            changes.push(FibChange::read(&mut from)?);
        }
        Ok(changes)
    }

    fn read(from: &mut Reader<'_>) -> Result<FibChange, Error> {
        let kind = u8::take(from)?;
        match kind {
            ROUTE_V4 | WITHDRAWN_V4 => {
                let (octets, len) = octets::<4>(from)?;
                route(from, Ipv4Addr::from(octets).into(), len, kind == ROUTE_V4)
            }
            ROUTE_V6 | WITHDRAWN_V6 => {
                let (octets, len) = octets::<16>(from)?;
                route(from, Ipv6Addr::from(octets).into(), len, kind == ROUTE_V6)
            }
            SET_GONE => Ok(FibChange::Set { set: u32::take(from)?, target: None }),
            SET => {
                let set = u32::take(from)?;
                let target = match u8::take(from)? {
                    0 => FibTarget::Hosts(hops(from)?),
                    1 => FibTarget::Blackhole,
                    2 => FibTarget::Unreachable,
                    3 => FibTarget::Prohibited,
                    other => return Err(invalid("target of a set", other)),
                };
                Ok(FibChange::Set { set, target: Some(target) })
            }
            other => Err(invalid("kind of change", other)),
        }
    }

    /// What it adds to the sum of a table that has it (SPEC.md, 15): so two tables are compared.
    /// FNV-1a of its bytes, finished as in MurmurHash3 so that sums of many keep all bits.
    pub fn digest(&self) -> u64 {
        let mut bytes = Vec::with_capacity(32);
        self.write(&mut bytes);
        let mut h = 0xCBF2_9CE4_8422_2325_u64;
        for byte in bytes {
            h = (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        finish(h)
    }
}

/// The address and length of a prefix.
fn octets<const N: usize>(from: &mut Reader<'_>) -> Result<([u8; N], u8), Error> {
    let len = u8::take(from)?;
    let used = usize::from(len.div_ceil(8));
    if used > N {
        return Err(invalid("prefix length", len));
    }
    let mut octets = [0; N];
    octets[..used].copy_from_slice(from.bytes(used)?);
    Ok((octets, len))
}

fn route(from: &mut Reader<'_>, addr: IpAddr, len: u8, is_set: bool) -> Result<FibChange, Error> {
    // Bits beyond the length would make two messages of one route.
    let prefix = Prefix::new(addr, len).map_err(|_| invalid("prefix", len))?;
    let set = if is_set { Some(u32::take(from)?) } else { None };
    Ok(FibChange::Route { prefix, set })
}

fn hops(from: &mut Reader<'_>) -> Result<Vec<FibHop>, Error> {
    let count = u8::take(from)?;
    if count == 0 || usize::from(count) > FIB_HOPS_MAX {
        return Err(invalid("number of next hops", count));
    }
    let hop = |_| {
        let (via, weight) = (IpAddr::take(from)?, u8::take(from)?);
        if weight == 0 { Err(invalid("weight", weight)) } else { Ok(FibHop { via, weight }) }
    };
    (0..count).map(hop).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(change: &FibChange) -> Vec<u8> {
        let mut bytes = Vec::new();
        change.write(&mut bytes);
        bytes
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    /// The examples of SPEC.md, 15.
    #[test]
    fn the_examples_of_the_document() {
        let hop = |via: &str| FibHop { via: via.parse().unwrap(), weight: 1 };
        let hosts = FibTarget::Hosts(vec![hop("10.0.0.1"), hop("fd00::1")]);
        let route = |prefix, set| FibChange::Route { prefix, set };
        let examples = [
            (
                FibChange::Set { set: 7, target: Some(hosts) },
                "0500000007 0002 040a00000101 06fd00000000000000000000000000000101",
            ),
            (FibChange::Set { set: 7, target: Some(FibTarget::Unreachable) }, "0500000007 02"),
            (FibChange::Set { set: 7, target: None }, "0600000007"),
            (route(prefix("10.1.2.0/23"), Some(7)), "0117 0a0102 00000007"),
            (route(prefix("0.0.0.0/0"), Some(7)), "0100 00000007"),
            (route(prefix("fd00:1::/32"), None), "0420 fd000001"),
        ];
        let mut all = Vec::new();
        for (change, text) in &examples {
            let written: String = bytes(change).iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(written, text.replace(' ', ""));
            assert!(bytes(change).len() <= FIB_CHANGE_MAX);
            change.write(&mut all);
        }
        let read = FibChange::read_all(&all).unwrap();
        assert!(read.iter().eq(examples.iter().map(|(change, _)| change)));
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for wrong in [
            "00",
            "07",
            "05",
            "0500000001",
            "050000000100",
            "05000000010000",
            "050000000104",
            "05000000010001040a00000100",
            "0121 0a010203",
            "0117 0a0103 00000007",
            "0117 0a01",
            "0181",
            "02810000",
        ] {
            let bytes = crate::unhex(&wrong.replace(' ', "")).unwrap();
            assert!(FibChange::read_all(&bytes).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// There is one way to write a change: so sums can be compared.
        #[test]
        fn whatever_is_read_is_written_alike(bytes in prop::collection::vec(0u8..8, 0..60)) {
            if let Ok(changes) = FibChange::read_all(&bytes) {
                let mut written = Vec::new();
                changes.iter().for_each(|change| change.write(&mut written));
                prop_assert_eq!(written, bytes);
            }
        }
    }
}
