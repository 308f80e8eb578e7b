//! Which fast table a box uses.

use std::fmt;

use crate::words;

/// The table that forwards flows in place of the node's own threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastTable {
    /// Whatever this machine and user have.
    #[default]
    Auto,
    /// Programs at the kernel's traffic-control hook, for ports on packet sockets.
    Tcx,
    /// Programs in the drivers of devices, for ports on AF_XDP.
    Xdp,
    /// Nothing.
    Off,
}

words!(FastTable { Auto = "auto", Tcx = "tcx", Xdp = "xdp", Off = "off" });

impl fmt::Display for FastTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
