//! What prefixes take of this process's memory where routes lead to them: RIB and FIB together.

use plexus_io::process::memory;
use plexus_ndn::face::FaceId;
use plexus_ndn::fib::{Fib, NameLimits};
use plexus_ndn::management::{Claim, Rib, RibLimits, Route};
use plexus_ndn::names::NameHasher;
use plexus_wire::ndn::Name;
use plexus_wire::ndn::nfd::{origin, route_flags};

use super::super::{Row, Setting};
use super::{KEY, made};

/// Faces that routes lead to.
const FACES: u32 = 16;

/// Prefixes of which the memory is told: of few, it is lost in what else the process takes and
/// gives back.
const TOLD_FROM: usize = 100_000;

/// Both sizes. To be measured before anything else leaves memory to be used again.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let mut held = Vec::new();
    let mut rows = Vec::new();
    for (size, prefixes) in [("1m", 1_000_000), ("10m", 10_000_000)] {
        let prefixes = prefixes / setting.effort.shrink;
        let table = made::table(prefixes, 1);
        let rss = || memory::held().ok_or("the kernel does not tell of this process's memory");
        let before = rss()?;
        held.push(filled(&table)?);
        if prefixes < TOLD_FROM {
            continue;
        }
        let bytes = rss()?.saturating_sub(before) as f64 / table.len() as f64;
        rows.push(Row::once(&format!("{name}-{size}-rib-memory"), "B/prefix", bytes));
    }
    Ok(rows)
}

/// As a node of so many prefixes has them, each by one route.
fn filled(table: &made::Names) -> Result<(Rib, Fib), String> {
    let prefixes = table.len() + 1;
    let limits = NameLimits { prefixes, record_bytes: prefixes * 96 };
    let mut fib = Fib::new(NameHasher::new(KEY), limits).map_err(|e| e.to_string())?;
    let mut rib = Rib::new(RibLimits::of_prefixes(prefixes));
    for i in 0..table.len() {
        let prefix = Name::new_checked(table.get(i).0).map_err(|e| e.to_string())?;
        let face = FaceId::new(i as u32 % FACES, 0).ok_or("the number of a face")?;
        let (origin, flags) = (origin::APP, route_flags::CHILD_INHERIT);
        let route = Route { face, origin, cost: 0, flags, expires: None, claim: Claim::OWN };
        let publish = &mut |prefix: Name<'_>, hops: &[_]| fib.set(prefix, hops);
        rib.add(prefix, route, publish).map_err(|e| e.to_string())?;
        rib.turn(plexus_wire::Time::ZERO, publish);
    }
    Ok((rib, fib))
}
