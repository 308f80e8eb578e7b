//! What the router of the bench knows, and what the peer is told of it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use plexus_table::lpm::{Fib4, Fib6, GroupId, Limits, Prefix};
use tempfile::NamedTempFile;

use super::super::random::{Random, below};
use super::{Family, Load, NEIGHBOURS};
use crate::internet;

/// Tables of both families, and the destinations of the traffic.
pub(in super::super) struct World {
    pub(super) family: Family,
    pub(super) v4: Fib4,
    pub(super) v6: Fib6,
    pub(super) destinations: Vec<u128>,
}

impl World {
    /// The whole table, or every `shrink`th prefix of it.
    ///
    /// # Errors
    /// When memory is short.
    pub(in super::super) fn new(load: Load, shrink: usize) -> Result<World, String> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (i, prefix) in internet::prefixes()?.into_iter().enumerate().step_by(shrink) {
            let number = (i.wrapping_mul(0x9E37_79B9) >> 16) % NEIGHBOURS;
            let group = GroupId::new(number as u16).ok_or("there are too many groups")?;
            match prefix {
                Prefix::V4(addr, len) => v4.push((addr, len, group)),
                Prefix::V6(addr, len) => v6.push((addr, len, group)),
            }
        }
        let mut random = Random(0x0123_4567_89AB_CDEF);
        let destinations = (0..load.destinations).map(|_| {
            let pick = random.next() >> 32;
            let host = u128::from(random.next()) << 64 | u128::from(random.next());
            match load.family {
                Family::V4 => {
                    let (addr, len, _) = v4[below(pick, v4.len())];
                    let mask = u32::MAX.checked_shr(len.into()).unwrap_or(0);
                    u128::from(addr | host as u32 & mask)
                }
                Family::V6 => {
                    let (addr, len, _) = v6[below(pick, v6.len())];
                    addr | host & u128::MAX.checked_shr(len.into()).unwrap_or(0)
                }
            }
        });
        let destinations = destinations.collect();
        let v4 = Fib4::build(Limits::default(), v4).map_err(|e| e.to_string())?;
        let v6 = Fib6::build(Limits::default(), v6).map_err(|e| e.to_string())?;
        Ok(World { family: load.family, v4, v6, destinations })
    }
}

/// The file that tells the peer: `r ADDRESS LENGTH NEIGHBOUR` for each route of the family,
/// `d ADDRESS` for each destination. It lives as long as this value.
pub(super) struct Exchange(NamedTempFile);

impl Exchange {
    /// # Errors
    /// When it cannot be written.
    pub(super) fn new(world: &World) -> Result<Exchange, String> {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut route = |addr: IpAddr, len: u8, group: GroupId| {
            let _ = writeln!(text, "r {addr} {len} {}", group.number());
        };
        match world.family {
            Family::V4 => world.v4.iter().for_each(|(addr, len, group)| {
                route(Ipv4Addr::from(addr).into(), len, group);
            }),
            Family::V6 => world.v6.iter().for_each(|(addr, len, group)| {
                route(Ipv6Addr::from(addr).into(), len, group);
            }),
        }
        for &addr in &world.destinations {
            let addr: IpAddr = match world.family {
                Family::V4 => Ipv4Addr::from(addr as u32).into(),
                Family::V6 => Ipv6Addr::from(addr).into(),
            };
            let _ = writeln!(text, "d {addr}");
        }
        let mut file = NamedTempFile::with_prefix("plexus-route-").map_err(|e| e.to_string())?;
        file.write_all(text.as_bytes()).map_err(|e| format!("{}: {e}", file.path().display()))?;
        Ok(Exchange(file))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}
