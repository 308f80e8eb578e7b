//! Files of static routes, which may be those of the whole Internet: one route per line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use plexus_wire::Prefix;

use crate::address::parse_route_prefix;
use crate::error::ValueError;

/// Longest line, in bytes.
const LINE_MAX: usize = 4096;
/// The remedy for a line that is no route.
pub const ROUTE_LINE: &str = "a line is PREFIX GATEWAY …, as in 192.0.2.0/24 10.0.0.1";

/// Reads lines of `PREFIX WORD …`, and gives each to `take`. A `#` begins a comment.
///
/// # Errors
/// With file and line, when the file cannot be read, a line begins with no prefix, or `take`
/// refuses it.
pub fn read_route_file(
    path: &Path,
    mut take: impl FnMut(Prefix, &[&str]) -> Result<(), ValueError>,
) -> Result<(), String> {
    let name = path.display();
    let file = File::open(path).map_err(|e| format!("{name}: cannot be read: {e}"))?;
    let mut lines = BufReader::new(file);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let limited = &mut Read::take(&mut lines, LINE_MAX as u64);
        let count = limited.read_until(b'\n', &mut bytes);
        if count.map_err(|e| format!("{name}:{number}: cannot be read: {e}"))? == 0 {
            break;
        }
        let wrong = |e: ValueError| format!("{name}:{number}: {}; {}", e.message, e.help);
        let odd = |why: String| wrong(ValueError::new(why, ROUTE_LINE));
        if bytes.len() == LINE_MAX {
            return Err(odd(format!("the line is longer than {LINE_MAX} bytes")));
        }
        let line = std::str::from_utf8(&bytes).map_err(|_| odd("this is no text".into()))?;
        let words: Vec<&str> =
            line.split('#').next().unwrap_or("").split_ascii_whitespace().collect();
        let Some((prefix, via)) = words.split_first() else { continue };
        let prefix = parse_route_prefix(prefix).map_err(|e| odd(e.message))?;
        take(prefix, via).map_err(wrong)?;
    }
    Ok(())
}
