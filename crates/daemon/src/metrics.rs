//! The text format of Prometheus' metrics.

use std::fmt::Write as _;

/// Begins a family of samples.
pub(crate) fn begin_family(out: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}
