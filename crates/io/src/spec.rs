//! Specifications of ports, as in a configuration, and opening them.

use plexus_config::Backend;

use crate::OpenError;
use crate::af_packet::{AfPacketPort, Only, SUPER_FRAME};
use crate::af_xdp::{self, AfXdpPort, XdpMode, XdpOptions};
use crate::device::{Device, ETHERNET};
use crate::pcap::{PcapOptions, PcapPort};
use crate::pool::{HEADROOM, Pool};
use crate::port::Port;
use crate::tap::TapPort;
use crate::udp::{UdpEnds, UdpPort};

/// A port to be opened.
#[derive(Clone, Debug, Default)]
pub struct PortSpec {
    /// Its display name.
    pub name: String,
    /// The network device; of no meaning for pcap and udp.
    pub device: String,
    /// How to reach it.
    pub backend: Backend,
    /// Only frames of this protocol are wanted. A packet socket receives no others, and leaves the
    /// device to the kernel otherwise; the other back-ends receive everything.
    pub only: Option<Only>,
    /// For AF_XDP.
    pub xdp: XdpOptions,
    /// For pcap.
    pub pcap: PcapOptions,
    /// For udp, which cannot do without.
    pub udp: Option<UdpEnds>,
}

/// An open port, with notes for the user.
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
            let port = AfPacketPort::open_for(name, device, spec.only, pool)?;
            let how = match spec.only {
                None => carried(&port),
                Some(only) => format!("frames of protocol {:#06x} alone", only.ethertype),
            };
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
        Backend::Udp => {
            let problem = "a udp port needs the two ends of its tunnel".to_string();
            let missing = OpenError::Invalid { device: name.clone(), problem };
            let ends = spec.udp.ok_or(missing)?;
            let port = UdpPort::open(name, ends, pool)?;
            Ok(Opened { port: Box::new(port), backend: Backend::Udp, how: ends.to_string() })
        }
    }
}

/// Opens one more port over the pool of a worker that has others; the pool's frame size limits what
/// `Auto` can be.
///
/// # Errors
/// As [`open`], and when the pool has too few frames for another AF_XDP port.
pub fn open_beside(spec: &PortSpec, pool: &mut Pool) -> Result<Opened, OpenError> {
    let mut spec = spec.clone();
    if spec.backend == Backend::Auto && pool.frame_size() >= SUPER_FRAME {
        spec.backend = Backend::AfPacket;
    }
    let [wanted, _] = xdp_frames(&spec);
    let is_xdp = matches!(spec.backend, Backend::Auto | Backend::AfXdp);
    if is_xdp && has_device(&spec) && pool.available() < 2 * wanted {
        let problem = format!(
            "its worker's pool has {} free frames, and an AF_XDP port holds {wanted}: raise \
             `frames` and restart the node",
            pool.available()
        );
        return Err(OpenError::Invalid { device: spec.device, problem });
    }
    open(&spec, pool)
}

/// Frames that an AF_XDP port keeps ready for reception, and to be sent.
fn xdp_frames(spec: &PortSpec) -> [usize; 2] {
    let device = has_device(spec).then(|| Device::named(&spec.device).ok()).flatten();
    device.map_or(spec.xdp, |device| spec.xdp.of(&device)).frames()
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
    let port = AfPacketPort::open_for(&spec.name, &spec.device, spec.only, pool)?;
    let how = format!("{}; not AF_XDP: {reason}", carried(&port));
    Ok(Opened { port: Box::new(port), backend: Backend::AfPacket, how })
}

fn xdp_mode(port: &AfXdpPort) -> String {
    let mode = if port.is_native() { "native" } else { "generic" };
    let copy = if port.is_zero_copy() { "zero copy" } else { "the kernel copies" };
    let checksums = match port.is_virtual() {
        true => ", completes checksums that the far end left to its device",
        false => "",
    };
    format!("{mode} XDP, {copy}{checksums}")
}

fn carried(port: &impl Port) -> String {
    if port.capabilities().segmentation {
        "carries checksum and segmentation state".into()
    } else {
        "carries checksum state; super-packets do not fit the pool's frames".into()
    }
}

/// All ports of a worker, over one pool.
pub struct Share {
    /// The frames.
    pub pool: Pool,
    /// The ports, in the order of their specs.
    pub ports: Vec<Opened>,
}

/// Opens all ports of a worker, over one pool of at least `frames_min` frames, sized for the
/// back-ends that [`resolve`] selects. If an `Auto` port selected for AF_XDP cannot be opened (its
/// memory cannot be locked), all `Auto` ports become packet sockets.
///
/// # Errors
/// With the number of the port that cannot be opened, if a port is the cause.
pub fn open_all(
    specs: &[PortSpec],
    frames_min: usize,
) -> Result<Share, (Option<usize>, OpenError)> {
    let mut resolved = specs.to_vec();
    let mut reasons = resolve(&mut resolved);
    loop {
        let frame_size = frame_size_for(&resolved).map_err(|e| (None, e))?;
        let frames = frames_min.max(frames_for(&resolved, frame_size));
        let mut pool = Pool::new(frames, frame_size)
            .map_err(|e| (None, OpenError::system("pool", "mapping a worker's frames", e)))?;
        let mut ports: Vec<Opened> = Vec::new();
        let mut failed = None;
        for (i, spec) in resolved.iter().enumerate() {
            match open(spec, &mut pool) {
                Ok(opened) => ports.push(opened),
                Err(error) => {
                    failed = Some((i, error));
                    break;
                }
            }
        }
        let Some((i, error)) = failed else {
            for (opened, reason) in ports.iter_mut().zip(&reasons) {
                if let Some(reason) = reason {
                    opened.how = format!("{}; not AF_XDP: {reason}", opened.how);
                }
            }
            warn_of_super_packets(&resolved, frame_size);
            return Ok(Share { pool, ports });
        };
        ports.iter_mut().for_each(|opened| opened.port.close(&mut pool));
        let by_choice = specs[i].backend == Backend::Auto
            && resolved[i].backend == Backend::AfXdp
            && !matches!(error, OpenError::NoDevice { .. });
        if !by_choice {
            return Err((Some(i), error));
        }
        // Each iteration has one AF_XDP port less among the `Auto` ones, so this terminates.
        for (j, spec) in resolved.iter_mut().enumerate() {
            if specs[j].backend == Backend::Auto && spec.backend == Backend::AfXdp {
                spec.backend = Backend::AfPacket;
                reasons[j] = Some(error.to_string());
            }
        }
    }
}

/// Selects a back-end for each `Auto` port of one worker, before there is a pool, because the
/// back-ends need different frames: AF_XDP those of a page or half a page, packet sockets those
/// that hold a super-packet. A packet socket over small frames loses every super-packet, and with
/// them TCP. So all `Auto` ports of a worker become the same:
///
/// - AF_XDP, if a port is set to it: the frames are small anyway, and each port does what it can;
/// - packet sockets, if a port is set to that, or one cannot be AF_XDP in its driver;
/// - packet sockets, if none is hardware: the hosts behind virtual cables send super-packets as
///   long as no XDP program is attached, which carry TCP at several times the rate;
/// - otherwise AF_XDP: hardware delivers single frames, and many more of them without the kernel's
///   stack.
///
/// Devices are tested by attaching the XDP program briefly.
///
/// Returns, for each `Auto` port that is not AF_XDP, the reason.
pub fn resolve(specs: &mut [PortSpec]) -> Vec<Option<String>> {
    let small = small_frame_for(specs);
    let lacks = |s: &PortSpec| af_xdp::probe(&s.device, small).err().map(|e| e.to_string());
    let reasons = reasons(specs, virtual_driver, lacks);
    for (spec, reason) in specs.iter_mut().zip(&reasons) {
        if spec.backend == Backend::Auto {
            spec.backend = if reason.is_none() { Backend::AfXdp } else { Backend::AfPacket };
            spec.xdp.mode = XdpMode::Native;
        }
    }
    reasons
}

/// Why `Auto` ports cannot be AF_XDP: because of the virtual driver of a device, or of what AF_XDP
/// lacks there.
fn reasons(
    specs: &[PortSpec],
    driver: impl Fn(&PortSpec) -> Option<String>,
    lacks: impl Fn(&PortSpec) -> Option<String>,
) -> Vec<Option<String>> {
    let is_auto = |s: &PortSpec| s.backend == Backend::Auto;
    let forced = specs.iter().any(|s| s.backend == Backend::AfXdp);
    let socket = specs.iter().find(|s| s.backend == Backend::AfPacket).map(|s| s.name.clone());
    let drivers: Vec<Option<String>> = specs.iter().map(driver).collect();
    let all_virtual = specs.iter().zip(&drivers).all(|(s, driver)| !is_auto(s) || driver.is_some());
    let reason =
        |(spec, driver): (&PortSpec, Option<String>)| match (is_auto(spec), &socket, driver) {
            (false, ..) => None,
            (_, Some(other), _) if !forced => Some(format!(
                "port {other} of the same worker is a packet socket, whose frames AF_XDP cannot use"
            )),
            (_, _, Some(driver)) if all_virtual && !forced => {
                Some(format!("{driver} is a virtual device, whose super-packets AF_XDP would cut"))
            }
            _ => lacks(spec),
        };
    let mut reasons: Vec<Option<String>> = specs.iter().zip(drivers).map(reason).collect();
    let lacking =
        specs.iter().zip(&reasons).find(|(_, r)| r.is_some()).map(|(s, _)| s.name.clone());
    if let (Some(other), false) = (lacking, forced) {
        for (spec, reason) in specs.iter().zip(&mut reasons) {
            if is_auto(spec) && reason.is_none() {
                *reason = Some(format!(
                    "port {other} of the same worker has to be a packet socket, whose frames \
                     AF_XDP cannot use; give it another worker"
                ));
            }
        }
    }
    reasons
}

/// The driver of a device that is there and no hardware.
fn virtual_driver(spec: &PortSpec) -> Option<String> {
    let device = has_device(spec).then(|| Device::named(&spec.device).ok()).flatten()?;
    device.virtual_driver().ok()?
}

/// Settings can put a packet socket over frames too small for super-packets: then its device must
/// not make any.
fn warn_of_super_packets(specs: &[PortSpec], frame_size: usize) {
    if frame_size >= SUPER_FRAME {
        return;
    }
    let sockets = specs.iter().filter(|s| s.backend == Backend::AfPacket && s.only.is_none());
    for PortSpec { name, device, .. } in sockets {
        tracing::warn!(
            port = name,
            device,
            "this packet socket shares the small frames of an AF_XDP port of its worker, so \
             super-packets are dropped (rx_invalid) and TCP crawls: switch them off here and at \
             the far end of a virtual cable (`ethtool -K {device} gro off lro off tso off gso \
             off`), or give the port another worker"
        );
    }
}

/// Bytes per frame for a pool that these ports share: room for super-packets if there is a packet
/// socket or TAP for all protocols and no port is AF_XDP; otherwise what the largest MTU among them
/// needs. A missing device counts as 1,500. `Auto` counts as AF_XDP: call [`resolve`] first.
///
/// # Errors
/// When a device's name is invalid.
pub fn frame_size_for(specs: &[PortSpec]) -> Result<usize, OpenError> {
    for spec in specs.iter().filter(|s| has_device(s)) {
        Device::named(&spec.device)?;
    }
    let xdp = specs.iter().any(|s| matches!(s.backend, Backend::Auto | Backend::AfXdp));
    // Of one protocol there are no super-packets.
    let carries =
        |s: &PortSpec| s.only.is_none() && matches!(s.backend, Backend::AfPacket | Backend::Tap);
    if !xdp && specs.iter().any(carries) {
        return Ok(SUPER_FRAME);
    }
    Ok(small_frame_for(specs))
}

fn has_device(spec: &PortSpec) -> bool {
    !matches!(spec.backend, Backend::Pcap | Backend::Udp)
}

/// Bytes per frame that the largest MTU needs, without super-packets. A tunnel's payload (a host's
/// full-size frame behind its headers) fits the smallest.
fn small_frame_for(specs: &[PortSpec]) -> usize {
    const TAG: usize = 4;
    let mtu = |spec: &PortSpec| {
        let device = has_device(spec).then(|| Device::named(&spec.device).ok()).flatten()?;
        Some(device.state().ok()??.mtu)
    };
    let mtu_max = specs.iter().filter_map(mtu).max().unwrap_or(0).max(1500);
    (mtu_max + ETHERNET + TAG + HEADROOM).next_power_of_two().max(2048)
}

/// Frames for a pool that `specs` share: the capacity of their rings plus batches in flight. Memory
/// is used only when frames are first touched, except under AF_XDP.
pub fn frames_for(specs: &[PortSpec], frame_size: usize) -> usize {
    let held: usize = specs
        .iter()
        .map(|spec| match spec.backend {
            Backend::AfXdp | Backend::Auto if frame_size <= 4096 => xdp_frames(spec).iter().sum(),
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

    /// A port that has its device's name.
    fn named(device: &str, backend: Backend) -> PortSpec {
        PortSpec { name: device.into(), ..spec(device, backend) }
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
    fn auto_is_af_xdp_on_hardware_and_packet_sockets_where_there_is_none() {
        use Backend::{AfPacket, AfXdp, Auto};
        let driver = |s: &PortSpec| s.device.starts_with("veth").then(|| "veth".to_string());
        let lacks = |s: &PortSpec| (s.device == "old").then(|| "no native XDP".to_string());
        for (ports, sockets) in [
            (vec![("nic0", Auto), ("nic1", Auto)], vec![]),
            (vec![("veth0", Auto), ("veth1", Auto)], vec!["a virtual device", "a virtual device"]),
            // The hardware decides: a virtual cable among its ports costs that cable alone.
            (vec![("nic0", Auto), ("veth0", Auto)], vec![]),
            (vec![("nic0", Auto), ("old", Auto)], vec!["port old", "no native XDP"]),
            (vec![("veth0", Auto), ("nic0", AfXdp)], vec![]),
            (vec![("nic0", Auto), ("veth0", AfPacket)], vec!["port veth0"]),
        ] {
            let specs: Vec<PortSpec> = ports.iter().map(|(d, b)| named(d, *b)).collect();
            let found: Vec<String> = reasons(&specs, driver, lacks).into_iter().flatten().collect();
            assert_eq!(found.len(), sockets.len(), "{ports:?}: {found:?}");
            for (found, expected) in found.iter().zip(sockets) {
                assert!(found.contains(expected), "{ports:?}: {found}");
            }
        }
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
}
