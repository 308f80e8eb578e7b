//! Parts of the Internet's tables on forwarders of the group: routes and memory of the one with
//! most, and lookups among its own addresses beside those in the whole table. `1-of-4`: each part
//! is with one of four forwarders.

use std::net::IpAddr;

use plexus_wire::Prefix;
use plexus_wire::fabric::{Holders, Partition};

use super::lpm::{Family, Route, build, bulk, keys_in_table, rounds, table};
use super::{Row, Setting};

/// Forwarders, and how many of them hold each part.
const LAYOUTS: [(u8, u8); 4] = [(2, 1), (4, 1), (4, 2), (8, 2)];

/// A family of addresses, as the partition sees it.
trait Parted: Family {
    fn ip(self) -> IpAddr;
}

impl Parted for u32 {
    fn ip(self) -> IpAddr {
        self.to_be_bytes().into()
    }
}

impl Parted for u128 {
    fn ip(self) -> IpAddr {
        self.to_be_bytes().into()
    }
}

/// The routes of a forwarder, or all.
fn part<A: Parted>(routes: &[Route<A>], of: Option<(&Partition, u8)>) -> Vec<Route<A>> {
    let holds = |&&(addr, len, _): &&Route<A>| match of {
        Some((partition, forwarder)) => Prefix::new(addr.ip(), len)
            .is_ok_and(|prefix| partition.holders_of(&prefix).contains(forwarder)),
        None => true,
    };
    routes.iter().filter(holds).copied().collect()
}

/// Routes of both families.
type Tables = (Vec<Route<u32>>, Vec<Route<u128>>);

pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let whole = table(setting.effort.shrink)?;
    let mut rows = memory(&format!("{name}-whole"), &[&whole])?;
    for (forwarders, copies) in LAYOUTS {
        let partition = Partition::new(&vec![1; forwarders.into()], copies).ok_or("no parts")?;
        let of = |forwarder| {
            let of = Some((&partition, forwarder));
            (part(&whole.0, of), part(&whole.1, of))
        };
        let all: Vec<Tables> = (0..forwarders).map(of).collect();
        let name = format!("{name}-{copies}-of-{forwarders}");
        rows.extend(memory(&name, &all.iter().collect::<Vec<_>>())?);
        let first = (&partition, 0);
        rows.push(rate(&format!("{name}-ipv4"), &whole.0, &all[0].0, first, setting)?);
        rows.push(rate(&format!("{name}-ipv6"), &whole.1, &all[0].1, first, setting)?);
    }
    rows.push(choice(&format!("{name}-choice-ipv6"), &whole.1, setting)?);
    Ok(rows)
}

/// Routes at the forwarders with fewest and most, and the memory of the latter.
fn memory(name: &str, all: &[&Tables]) -> Result<Vec<Row>, String> {
    let count = |tables: &Tables| tables.0.len() + tables.1.len();
    let least = all.iter().map(|tables| count(tables)).min().unwrap_or(0);
    let most = all.iter().max_by_key(|tables| count(tables)).ok_or("no forwarder")?;
    let (v4, v6) = (build(&most.0)?.memory(), build(&most.1)?.memory());
    let row = |what: &str, unit, value| Row::once(&format!("{name}-{what}"), unit, value);
    Ok(vec![
        row("routes-least", "routes", least as f64),
        row("routes-most", "routes", count(most) as f64),
        row("memory-ipv4", "MB", v4.lookup as f64 / 1e6),
        row("memory-ipv6", "MB", v6.lookup as f64 / 1e6),
        row("memory-writer", "MB", (v4.writer + v6.writer) as f64 / 1e6),
    ])
}

/// Lookups of a forwarder among the addresses that it holds, beside those in the whole table.
fn rate<A: Parted>(
    name: &str,
    whole: &[Route<A>],
    own: &[Route<A>],
    (partition, forwarder): (&Partition, u8),
    setting: &Setting,
) -> Result<Row, String> {
    let effort = setting.effort;
    let all = keys_in_table(whole, effort.shrink);
    let is_own = |key: &A| partition.holders(key.ip()).contains(forwarder);
    // As many, for they take as much of the caches. Few are in routes that lead beyond the part.
    let mut keys: Vec<A> = keys_in_table(own, effort.shrink);
    keys.retain(is_own);
    let more: Vec<A> = keys.iter().copied().cycle().take(all.len()).skip(keys.len()).collect();
    keys.extend(more);
    let (whole, own) = (build(whole)?, build(own)?);
    let (mut whole, mut own) = (whole.reader(), own.reader());
    Row::measure(name, "M/s", Some("whole"), effort.runs, || {
        let (theirs, _) = bulk(&mut whole, &all, effort.time);
        Ok((bulk(&mut own, &keys, effort.time).0, Some(theirs)))
    })
}

/// How often a front box can find the two of four forwarders that hold an address of IPv6; for IPv4
/// it has a table.
fn choice(name: &str, whole: &[Route<u128>], setting: &Setting) -> Result<Row, String> {
    let partition = Partition::new(&[1; 4], 2).ok_or("no parts")?;
    let keys = keys_in_table(whole, setting.effort.shrink);
    let keys: Vec<IpAddr> = keys.into_iter().map(Parted::ip).collect();
    Row::measure(name, "M/s", None, setting.effort.runs, || {
        let places = |holders: Holders| u64::from(partition.places_of(holders));
        let round = || (keys.len(), keys.iter().map(|key| places(partition.holders(*key))).sum());
        Ok((rounds(setting.effort.time, round).0, None))
    })
}
