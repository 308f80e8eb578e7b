//! How a generator or a meter reaches a device: through a port, or by a program in the kernel.

use plexus_config::Backend;
use plexus_io::af_xdp::XdpOptions;
use plexus_io::pcap::PcapOptions;
use plexus_io::spec::{self, Opened, PortSpec};
use plexus_io::{HEADROOM, Pool};
use rustix::time::{ClockId, clock_gettime};

use crate::drive::now;

/// What `--backend` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A port of ours.
    Port(Backend),
    /// An XDP program that sends or counts by itself.
    Kernel,
}

/// As `gen --backend` says it.
///
/// # Errors
/// With the names that there are.
pub fn parse_gen(text: &str) -> Result<Via, String> {
    parse(text, "xdp_live")
}

/// As `meter --backend` says it.
///
/// # Errors
/// With the names that there are.
pub fn parse_meter(text: &str) -> Result<Via, String> {
    parse(text, "xdp")
}

fn parse(text: &str, kernel: &str) -> Result<Via, String> {
    if text == kernel {
        return Ok(Via::Kernel);
    }
    // A tunnel leads to a node of a fabric only.
    let ports = Backend::NAMES.iter().filter(|(_, backend)| *backend != Backend::Udp);
    match ports.clone().find(|(name, _)| *name == text) {
        Some((_, backend)) => Ok(Via::Port(*backend)),
        None => {
            let names: Vec<_> = ports.map(|(name, _)| *name).chain([kernel]).collect();
            Err(format!("'{text}' is no back-end: there are {}", names.join(", ")))
        }
    }
}

/// Which way packets go through the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Out.
    Send,
    /// In.
    Receive,
}

/// A pool for frames of `frame` bytes, and the device as a port over it.
///
/// # Errors
/// In words, when there is no memory, or the device cannot be opened.
pub fn open(
    device: &str,
    backend: Backend,
    frame: usize,
    what_for: Use,
) -> Result<(Pool, Opened), String> {
    let file = Some(device.into());
    let (frames, ring, fill, input, output) = match what_for {
        // Nothing reads what arrives at a sender.
        Use::Send => (8192, 2048, 64, None, file),
        // Deep enough for some milliseconds in which the meter is not scheduled.
        Use::Receive => (16_384, 4096, 4096, file, None),
    };
    let mut pool =
        Pool::new(frames, frame + HEADROOM).map_err(|e| format!("no memory for frames: {e}"))?;
    let spec = PortSpec {
        name: device.into(),
        device: device.into(),
        backend,
        xdp: XdpOptions { ring, fill, ..XdpOptions::default() },
        pcap: PcapOptions { input, output, origin_ns: origin_ns() },
        ..PortSpec::default()
    };
    let opened = spec::open(&spec, &mut pool).map_err(|e| e.to_string())?;
    Ok((pool, opened))
}

/// Nanoseconds from 1970 to the origin of `now`.
fn origin_ns() -> u64 {
    let t = clock_gettime(ClockId::Realtime);
    (t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64).saturating_sub(now().as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_has_the_ports_and_a_program_of_its_own() {
        assert_eq!(parse_gen("af_xdp"), Ok(Via::Port(Backend::AfXdp)));
        assert_eq!(parse_meter("af_packet"), Ok(Via::Port(Backend::AfPacket)));
        assert_eq!((parse_gen("xdp_live"), parse_meter("xdp")), (Ok(Via::Kernel), Ok(Via::Kernel)));
        assert!(parse_gen("xdp").unwrap_err().ends_with("pcap, xdp_live"));
        assert!(parse_meter("xdp_live").unwrap_err().ends_with("pcap, xdp"));
    }
}
