//! Devices of this machine in place of a topology's hosts, as `HOST=BACKEND:DEVICE` names them.

use std::collections::HashSet;

use plexus_config::Backend;
use plexus_topo::{Device, Fidelity, HostsByAddress, Link, MTU_USUAL, Target, Topology};

use crate::real_time::Outside;

/// The devices in place of hosts, if any. Their hosts' flows leave the topology. An error continues
/// a sentence that begins with the name of the option.
///
/// # Errors
/// In words, when a text says something else, a host or a device comes twice, or a device cannot
/// be opened.
pub fn attach(texts: &[String], topology: &mut Topology) -> Result<Option<Outside>, String> {
    if texts.is_empty() {
        return Ok(None);
    }
    let at_host = |l: &&Link| l.devices().iter().any(|d| matches!(d, Device::Host(_)));
    if topology.fidelity == Fidelity::Control {
        let why = ": what devices send is traffic, which fidelity = \"control\" has no \
                   queues for: take it out, or add --fidelity full";
        return Err(why.into());
    }
    let mtu = topology.links.iter().filter(at_host).map(|l| l.mtu).max().unwrap_or(MTU_USUAL);
    let (mut attached, mut devices, mut asked) = (HashSet::new(), HashSet::new(), vec![]);
    // No device is touched before all that is asked for can be.
    for text in texts {
        let (host, backend, device) = parse_attach(text, topology)?;
        let name = &topology.hosts[host].name;
        let refuse = |why: String| Err(format!(" {text}: {why}"));
        if !attached.insert(host) {
            return refuse(format!("{name} has a device already: attach each host once"));
        }
        if !devices.insert(device) {
            return refuse(format!("{device} is another host's already: name one for each host"));
        }
        asked.push((host, name, backend, device));
    }
    let mut outside = Outside::new(mtu).map_err(|e| format!(": {e}"))?;
    for (host, name, backend, device) in asked {
        outside.open(host, name, backend, device).map_err(|e| format!(": {e}"))?;
    }
    let hosts = HostsByAddress::new(topology);
    let is_attached = |host: usize| attached.contains(&host);
    topology.keep_flows(|flow| {
        let to = match flow.to {
            Target::Host(host) => Some(host),
            Target::Address(address) => hosts.get(address),
        };
        !is_attached(flow.from) && !to.is_some_and(is_attached)
    });
    Ok(Some(outside))
}

/// Host, back-end and device of `HOST=BACKEND:DEVICE`.
///
/// # Errors
/// In words, when it says something else, or there is no such host.
fn parse_attach<'a>(
    text: &'a str,
    topology: &Topology,
) -> Result<(usize, Backend, &'a str), String> {
    let usage = || format!(" {text}: write HOST=BACKEND:DEVICE, as in h1=tap:vm1");
    let (host, place) = text.split_once('=').ok_or_else(usage)?;
    let (backend, device) = place.split_once(':').ok_or_else(usage)?;
    let backend: Backend = backend.parse().map_err(|e| format!(" {text}: {e}"))?;
    if !matches!(backend, Backend::Tap | Backend::AfPacket) {
        return Err(format!(" {text}: take tap, or af_packet for a device that is there"));
    }
    let index = topology.hosts.iter().position(|h| h.name == host).ok_or_else(|| {
        let known: Vec<&str> = topology.hosts.iter().map(|h| h.name.as_str()).collect();
        format!(" {text}: there is no host {host:?}: {}", known.join(", "))
    })?;
    Ok((index, backend, device))
}
