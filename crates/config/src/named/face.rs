//! Configured faces: to one remote end each, and to Ethernet groups.

use plexus_wire::ndn::face_uri::FaceUri;

use super::{MTU, NamedSettings};
use crate::backend::Backend;
use crate::document::{At, Lines, Problems, Section};
use crate::error::{Span, ValueError, quote};
use crate::name::check_device;

/// Back-ends for NDN frames: not a tunnel, which leads to nodes, and not files. Left to choose, a
/// node would take AF_XDP, and with it all of the device's traffic.
const BACKENDS: [(&str, Backend); 3] =
    [("af_packet", Backend::AfPacket), ("af_xdp", Backend::AfXdp), ("tap", Backend::Tap)];

/// An Ethernet on which there is a face for the group 01:00:5e:00:17:aa, and faces to stations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEthernet {
    /// What routes call the face of the group.
    pub name: String,
    /// The network device.
    pub device: String,
    /// The back-end: a packet socket for NDN frames alone, next to the kernel; or AF_XDP or a TAP
    /// device, which take all frames.
    pub backend: Backend,
    /// Longest link packet in bytes; `None`: the device's MTU.
    pub mtu: Option<u16>,
}

/// A face that is made at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFace {
    /// What routes call it.
    pub name: String,
    /// Its other end.
    pub remote: FaceUri,
    /// This end: the device, of a face to a station of an Ethernet.
    pub local: Option<FaceUri>,
    /// A lost connection is re-established.
    pub permanent: bool,
    /// Longest link packet in bytes; `None`: as all.
    pub mtu: Option<u16>,
    /// Link packets are acknowledged, and sent again when they are lost.
    pub reliability: bool,
}

impl NamedEthernet {
    /// Reads a section; `taken` are the devices of the node's ports, by which the frames pass then.
    pub(super) fn read(
        section: &Section<'_>,
        named: &NamedSettings,
        taken: &[&str],
    ) -> Option<NamedEthernet> {
        let problems = section.problems();
        let name = section.required_text("name", "\"lan\"");
        let device = section.required_text("device", "\"eth1\"");
        let backend = section.choice("backend", &BACKENDS);
        let mtu = section.integer("mtu", MTU).map(|m| m.value as u16);
        let (name, device) = (name?, device?);
        check_name(named, &name, problems)?;
        problems.note(device.span.clone(), check_device(device.value))?;
        if let Some(other) = named.ethernets.iter().find(|e| e.device == device.value) {
            let message = format!("{} has {} already", quote(device.value), quote(&other.name));
            problems.add(device.span, message, "one face to the group of a device is enough");
            return None;
        }
        if let Some(backend) = backend.as_ref().filter(|_| taken.contains(&device.value)) {
            let message = format!("{} is the device of a port", quote(device.value));
            let help = "take the back-end out: the frames pass by the port";
            problems.add(backend.span.clone(), message, help);
        }
        let backend = backend.map_or(Backend::AfPacket, |b| b.value);
        let (name, device) = (name.value.into(), device.value.into());
        Some(NamedEthernet { name, device, backend, mtu })
    }

    pub(super) fn write(&self, lines: &mut Lines, place: &str) {
        lines.heading(&format!("[[{place}named.ethernet]]"));
        lines.text("name", &self.name);
        lines.text("device", &self.device);
        lines.unusual("backend", &self.backend, &Backend::AfPacket);
        lines.given("mtu", self.mtu);
    }
}

impl NamedFace {
    pub(super) fn read(section: &Section<'_>, named: &NamedSettings) -> Option<NamedFace> {
        let problems = section.problems();
        let name = section.required_text("name", "\"upstream\"");
        let remote = section.require("remote", "\"udp4://192.0.2.1:6363\"");
        let remote = remote.parsed("remote", parse_remote);
        let local = section.parsed("local", parse_local);
        let permanent = section.flag("permanent").is_none_or(|p| p.value);
        let mtu = section.integer("mtu", MTU);
        let reliability = section.is_set("reliability");
        let (name, remote) = (name?, remote?);
        check_name(named, &name, problems)?;
        let (local, local_span): (Option<FaceUri>, Option<Span>) =
            local.map(|l| (l.value, l.span)).unzip();
        let is_ethernet = matches!(remote.value, FaceUri::Ether(_));
        if let (Some(span), false) = (&local_span, is_ethernet) {
            let message = "the node chooses this end of a face by IP or a Unix socket";
            problems.add(span.clone(), message, "take \"local\" out");
        }
        let leads_there = |f: &&NamedFace| f.remote == remote.value && f.local == local;
        if let Some(other) = named.faces.iter().find(leads_there) {
            let message = format!("face {} leads there already", quote(&other.name));
            problems.add(remote.span, message, "one face to each end is enough");
            return None;
        }
        match &remote.value {
            FaceUri::Ether(_) => {
                let ends = (remote.span, local_span.zip(local.as_ref()));
                let mtu = mtu.as_ref().map(|m| (m.value, m.span.clone()));
                check_ethernet(named, ends, mtu, section);
            }
            FaceUri::Udp(address) => {
                if !named.udp.iter().any(|own| own.is_ipv4() == address.is_ipv4()) {
                    let message = "no UDP address of this IP version is listened on";
                    let help = "faces send from there: add one to udp = […]";
                    problems.add(remote.span, message, help);
                }
            }
            _ => {
                if let Some(mtu) = &mtu {
                    let message = "a stream carries packets of any length";
                    problems.add(mtu.span.clone(), message, "take the mtu out");
                }
            }
        }
        let is_stream = matches!(remote.value, FaceUri::Tcp(_) | FaceUri::Unix(_));
        Some(NamedFace {
            name: name.value.into(),
            remote: remote.value,
            local: local.filter(|_| is_ethernet),
            permanent,
            mtu: mtu.filter(|_| !is_stream).map(|m| m.value as u16),
            reliability,
        })
    }

    pub(super) fn write(&self, lines: &mut Lines, place: &str) {
        lines.heading(&format!("[[{place}named.face]]"));
        lines.text("name", &self.name);
        lines.value("remote", &self.remote);
        lines.given("local", self.local.as_ref());
        lines.unusual("permanent", &self.permanent, &true);
        lines.given("mtu", self.mtu);
        lines.unusual("reliability", &self.reliability, &false);
    }
}

/// Names of faces are the file's own, and routes go by them.
fn check_name(named: &NamedSettings, name: &At<&str>, problems: &Problems) -> Option<()> {
    if !named.face_names().any(|other| other == name.value) {
        return Some(());
    }
    let message = format!("there are two faces {}", quote(name.value));
    problems.add(name.span.clone(), message, "give each face its own name");
    None
}

fn parse_remote(text: &str) -> Result<FaceUri, ValueError> {
    let help = "write it as in \"udp4://192.0.2.1:6363\", \"tcp6://[2001:db8::1]:6363\", \
                \"ether://[02:00:00:00:00:07]\" or \"unix:///run/nfd/nfd.sock\"";
    let remote: FaceUri = text.parse().map_err(|e| ValueError::new(format!("{e}"), help))?;
    match remote {
        FaceUri::Udp(a) if a.ip().is_multicast() || a.ip().is_unspecified() => {
            Err(ValueError::new(format!("{remote} is no other box"), help))
        }
        FaceUri::Ether(mac) if mac.is_multicast() => {
            let help = "the face of the group is that of [[named.ethernet]]";
            Err(ValueError::new(format!("{remote} is no station"), help))
        }
        FaceUri::Udp(_) | FaceUri::Tcp(_) | FaceUri::Unix(_) | FaceUri::Ether(_) => Ok(remote),
        _ => Err(ValueError::new(format!("no face can be made to {remote}"), help)),
    }
}

fn parse_local(text: &str) -> Result<FaceUri, ValueError> {
    let help = "write the device, as in \"dev://eth1\"";
    let local: FaceUri = text.parse().map_err(|e| ValueError::new(format!("{e}"), help))?;
    match local {
        FaceUri::Dev(_) => Ok(local),
        _ => Err(ValueError::new(format!("{local} is no device"), help)),
    }
}

/// Checks that a station is behind one of the file's Ethernets, in frames of that device.
fn check_ethernet(
    named: &NamedSettings,
    (remote, local): (Span, Option<(Span, &FaceUri)>),
    mtu: Option<(u64, Span)>,
    section: &Section<'_>,
) {
    let problems = section.problems();
    let Some((span, FaceUri::Dev(device))) = local else {
        if !section.has("local") {
            let message = "the station could be on any device";
            problems.add(remote, message, "say which: local = \"dev://eth1\"");
        }
        return;
    };
    let Some(ethernet) = named.ethernets.iter().find(|e| e.device == *device) else {
        let message = format!("{} has no Ethernet faces", quote(device));
        let help = format!("add [[named.ethernet]] with device = {}", quote(device));
        return problems.add(span, message, help);
    };
    if let (Some((mtu, span)), Some(most)) = (mtu, ethernet.mtu)
        && mtu > u64::from(most)
    {
        let message = format!("{} has an mtu of {most}", quote(&ethernet.name));
        problems.add(span, message, "write at most that, or take it out");
    }
}
