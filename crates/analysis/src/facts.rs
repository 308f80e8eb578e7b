//! Findings about a topology, as JSON and as text.

mod loads;
mod non_blocking;
mod topology;

use plexus_report::plural;
use plexus_topo::Topology;

pub use loads::LoadFacts;
pub use non_blocking::NonBlockingFacts;
pub use topology::TopologyFacts;

/// Lines of a table that are printed before it is cut.
const ROWS_SHOWN: usize = 40;

/// A topology's contents in one line.
pub fn summary(topology: &Topology) -> String {
    let count = |n: usize, what: &str| plural(n as u64, what);
    let mut counts = vec![
        count(topology.nodes.len(), "node"),
        count(topology.hosts.len(), "host"),
        count(topology.links.len(), "link"),
        count(topology.traffic.len(), "flow"),
        count(topology.assertions.len(), "assertion"),
    ];
    if !topology.bridges.is_empty() {
        counts.insert(1, count(topology.bridges.len(), "bridge"));
    }
    counts.join(", ")
}

/// A table after an empty line; long ones are cut, and say so.
fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let shown = &rows[..rows.len().min(ROWS_SHOWN)];
    let more = match rows.len() - shown.len() {
        0 => String::new(),
        more => format!("… and {more} more (--json shows all)\n"),
    };
    format!("\n{}{more}", plexus_report::table(heads, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tables_are_cut_aloud() {
        let rows = (0..100).map(|i| vec![i.to_string()]).collect();
        assert!(table(&["N"], rows).ends_with("… and 60 more (--json shows all)\n"));
    }
}
