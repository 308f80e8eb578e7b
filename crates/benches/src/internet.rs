//! The table of a Tier-1 provider, for benches and experiments: see `crates/table/data`.

use std::io::Read;

use plexus_table::lpm::{Prefix, parse_prefixes};

const TABLE: &[u8] = include_bytes!("../../table/data/prefixes.txt.gz");

/// Its prefixes, 901,899 of IPv4 and 160,147 of IPv6.
///
/// # Errors
/// When what is embedded is damaged.
pub fn prefixes() -> Result<Vec<Prefix>, String> {
    let mut text = String::new();
    let read = flate2::read::GzDecoder::new(TABLE).read_to_string(&mut text);
    read.map_err(|e| format!("the embedded table: {e}"))?;
    parse_prefixes(&text).map(|prefix| prefix.map_err(|e| e.to_string())).collect()
}
