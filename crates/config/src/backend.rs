//! A port's back-end, which moves frames in and out of the kernel, as named in files and on command
//! lines.

use std::fmt;
use std::str::FromStr;

use crate::words;

/// What moves a port's frames in and out of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The fastest for the kind of device, as far as this machine and user allow: AF_XDP in the
    /// driver for hardware, packet sockets for virtual devices.
    #[default]
    Auto,
    /// AF_XDP sockets.
    AfXdp,
    /// AF_PACKET sockets.
    AfPacket,
    /// A TAP device, made for the port.
    Tap,
    /// A tunnel over UDP to another node: a port's, never a whole node's.
    Udp,
    /// Capture files: a generator's or meter's, never a node's.
    Pcap,
}

words!(Backend {
    Auto = "auto",
    AfXdp = "af_xdp",
    AfPacket = "af_packet",
    Tap = "tap",
    Udp = "udp",
    Pcap = "pcap",
});

impl Backend {
    /// Those that a port of a node may have.
    pub fn of_ports() -> Vec<(&'static str, Backend)> {
        Backend::NAMES.into_iter().filter(|(_, b)| *b != Backend::Pcap).collect()
    }

    /// Those that reach a device, which all ports of a node may have.
    pub fn of_devices() -> Vec<(&'static str, Backend)> {
        Backend::of_ports().into_iter().filter(|(_, b)| *b != Backend::Udp).collect()
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(s: &str) -> Result<Backend, String> {
        let found = Backend::NAMES.iter().find(|(name, _)| *name == s);
        found.map(|&(_, b)| b).ok_or_else(|| {
            let names = Backend::NAMES.map(|(name, _)| name).join(", ");
            format!("'{s}' is no back-end: there are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_ends_have_one_name_each() {
        for (name, backend) in Backend::NAMES {
            assert_eq!(name.parse(), Ok(backend));
            assert_eq!(backend.to_string(), name);
        }
        assert!("dpdk".parse::<Backend>().unwrap_err().contains("af_packet"));
    }

    #[test]
    fn no_node_has_a_capture_and_not_all_its_ports_are_tunnels() {
        let names = |all: Vec<(&'static str, Backend)>| all.into_iter().map(|(name, _)| name);
        let of_devices: Vec<&str> = names(Backend::of_devices()).collect();
        assert_eq!(of_devices, ["auto", "af_xdp", "af_packet", "tap"]);
        let of_ports: Vec<&str> = names(Backend::of_ports()).collect();
        assert_eq!(of_ports, ["auto", "af_xdp", "af_packet", "tap", "udp"]);
    }
}
