//! What port to open, as a configuration says it, and opening it.

use std::fmt;
use std::str::FromStr;

use crate::OpenError;
use crate::af_packet::{AfPacketPort, SUPER_FRAME};
use crate::af_xdp::{self, AfXdpPort, XdpMode, XdpOptions};
use crate::device::{Device, ETHERNET};
use crate::pcap::{PcapOptions, PcapPort};
use crate::pool::{HEADROOM, Pool};
use crate::port::Port;
use crate::tap::TapPort;

/// How a port reaches its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// AF_XDP in the driver where the process may and the device can, else a packet socket.
    #[default]
    Auto,
    /// [`af_xdp`](crate::af_xdp).
    AfXdp,
    /// [`af_packet`](crate::af_packet).
    AfPacket,
    /// [`tap`](crate::tap).
    Tap,
    /// [`pcap`](crate::pcap).
    Pcap,
}

impl Backend {
    /// Every back-end by the name that configurations use.
    pub const NAMES: [(&'static str, Backend); 5] = [
        ("auto", Backend::Auto),
        ("af_xdp", Backend::AfXdp),
        ("af_packet", Backend::AfPacket),
        ("tap", Backend::Tap),
        ("pcap", Backend::Pcap),
    ];
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Backend::NAMES.iter().find(|(_, b)| b == self).map_or("?", |(n, _)| n);
        f.write_str(name)
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

/// A port to be opened.
#[derive(Clone, Debug, Default)]
pub struct PortSpec {
    /// The name people know it by.
    pub name: String,
    /// The network device; of no meaning for pcap.
    pub device: String,
    /// How to reach it.
    pub backend: Backend,
    /// For AF_XDP.
    pub xdp: XdpOptions,
    /// For pcap.
    pub pcap: PcapOptions,
}

/// A port that is open, and what people are to be told about it.
pub struct Opened {
    /// The port.
    pub port: Box<dyn Port>,
    /// The back-end in use; never `Auto`.
    pub backend: Backend,
    /// Mode, and why this back-end, in one line.
    pub how: String,
}

/// Opens a port over the worker's pool.
///
/// # Errors
/// See the back-ends. `Auto` reports what the packet socket met.
pub fn open(spec: &PortSpec, pool: &mut Pool) -> Result<Opened, OpenError> {
    let PortSpec { name, device, .. } = spec;
    match spec.backend {
        Backend::Auto => open_best(spec, pool),
        Backend::AfXdp => {
            let port = AfXdpPort::open(name, device, spec.xdp, pool)?;
            let how = xdp_mode(&port);
            Ok(Opened { port: Box::new(port), backend: Backend::AfXdp, how })
        }
        Backend::AfPacket => {
            let port = AfPacketPort::open(name, device, pool)?;
            let how = carried(&port);
            Ok(Opened { port: Box::new(port), backend: Backend::AfPacket, how })
        }
        Backend::Tap => {
            let port = TapPort::open(name, device, pool)?;
            let how = carried(&port);
            Ok(Opened { port: Box::new(port), backend: Backend::Tap, how })
        }
        Backend::Pcap => {
            let port = PcapPort::open(name, spec.pcap.clone())?;
            Ok(Opened { port: Box::new(port), backend: Backend::Pcap, how: "files".into() })
        }
    }
}

/// AF_XDP if it runs in the driver: the generic mode has no advantage over a packet socket, which
/// carries checksum state too.
fn open_best(spec: &PortSpec, pool: &mut Pool) -> Result<Opened, OpenError> {
    let options = XdpOptions { mode: XdpMode::Native, ..spec.xdp };
    let reason = match AfXdpPort::open(&spec.name, &spec.device, options, pool) {
        Ok(port) => {
            let how = xdp_mode(&port);
            return Ok(Opened { port: Box::new(port), backend: Backend::AfXdp, how });
        }
        Err(error @ OpenError::NoDevice { .. }) => return Err(error),
        Err(error) => error,
    };
    let port = AfPacketPort::open(&spec.name, &spec.device, pool)?;
    let how = format!("{}; not AF_XDP: {reason}", carried(&port));
    Ok(Opened { port: Box::new(port), backend: Backend::AfPacket, how })
}

fn xdp_mode(port: &AfXdpPort) -> String {
    let mode = if port.is_native() { "native" } else { "generic" };
    let copy = if port.is_zero_copy() { "zero copy" } else { "the kernel copies" };
    format!("{mode} XDP, {copy}")
}

fn carried(port: &impl Port) -> String {
    if port.capabilities().segmentation {
        "carries checksum and segmentation state".into()
    } else {
        "carries checksum state; super-packets do not fit the pool's frames".into()
    }
}

/// Bytes per frame for a pool that these ports share: what the largest MTU among them needs; room
/// for super-packets if every port can carry them. A device that is not there counts as 1,500.
///
/// # Errors
/// When a device's name makes no sense.
pub fn frame_size_for(specs: &[PortSpec]) -> Result<usize, OpenError> {
    const TAG: usize = 4;
    let xdp = af_xdp::is_permitted();
    let mut carry_all = !specs.is_empty();
    let mut mtu_max = 1500;
    for spec in specs {
        carry_all &= match spec.backend {
            Backend::AfPacket | Backend::Tap => true,
            Backend::Auto => !xdp,
            Backend::AfXdp | Backend::Pcap => false,
        };
        if spec.backend != Backend::Pcap {
            let state = Device::named(&spec.device)?.state().ok().flatten();
            mtu_max = mtu_max.max(state.map_or(0, |s| s.mtu));
        }
    }
    if carry_all {
        return Ok(SUPER_FRAME);
    }
    let needed = mtu_max + ETHERNET + TAG + HEADROOM;
    Ok(needed.next_power_of_two().max(2048))
}

/// Frames for a pool that `specs` share: what their rings hold when full, and as many batches
/// under way. Memory is touched only as frames are first used, except under AF_XDP.
pub fn frames_for(specs: &[PortSpec], frame_size: usize) -> usize {
    let held: usize = specs
        .iter()
        .map(|spec| match spec.backend {
            Backend::AfXdp | Backend::Auto if frame_size <= 4096 => {
                (spec.xdp.fill * spec.xdp.queues + spec.xdp.ring) as usize
            }
            _ => 256,
        })
        .sum();
    held + 4096
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(device: &str, backend: Backend) -> PortSpec {
        PortSpec { name: "p".into(), device: device.into(), backend, ..PortSpec::default() }
    }

    #[test]
    fn a_missing_device_is_named_whatever_the_back_end() {
        let mut pool = Pool::new(64, 2048).unwrap();
        for backend in [Backend::Auto, Backend::AfXdp, Backend::AfPacket] {
            let error = open(&spec("no-such-dev", backend), &mut pool).err().unwrap();
            assert!(matches!(error, OpenError::NoDevice { .. }), "{backend}: {error}");
            assert!(error.to_string().contains("'no-such-dev'"));
        }
        assert_eq!(pool.available(), 64);
    }

    #[test]
    fn a_name_that_no_device_can_have_is_refused() {
        let mut pool = Pool::new(64, 2048).unwrap();
        for name in ["", "a-name-of-16-byte", "nul\0"] {
            let error = open(&spec(name, Backend::AfPacket), &mut pool).err().unwrap();
            assert!(matches!(error, OpenError::Invalid { .. }), "{error}");
        }
    }

    #[test]
    fn frames_fit_what_the_ports_can_carry() {
        let packet = spec("no-such-dev", Backend::AfPacket);
        let xdp = spec("no-such-dev", Backend::AfXdp);
        assert_eq!(frame_size_for(&[packet.clone(), packet.clone()]).unwrap(), SUPER_FRAME);
        assert_eq!(frame_size_for(&[packet, xdp.clone()]).unwrap(), 2048);
        // The loopback device has an MTU of 65,536.
        assert!(frame_size_for(&[xdp, spec("lo", Backend::AfXdp)]).unwrap() > 65_536);
    }

    #[test]
    fn back_ends_have_one_name_each() {
        for (name, backend) in Backend::NAMES {
            assert_eq!(name.parse(), Ok(backend));
            assert_eq!(backend.to_string(), name);
        }
        assert!("dpdk".parse::<Backend>().unwrap_err().contains("af_packet"));
    }
}
