//! The MTU of fabric links. A device as the kernel makes it carries 1,500 bytes, which is less than
//! a host's full frame behind its route ([`LINK_MTU_MIN`]). The node raises the MTU once the
//! neighbour has authenticated as a node, and restores it when the port is removed or the node
//! ends. The former value is kept in a file beside the control socket: if the node is killed, the
//! next one restores the MTU. Without the privilege to raise it, the node logs the command to run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_config::Tunnel;
use plexus_wire::Time;
use plexus_wire::fabric::LINK_MTU_MIN;

/// How long a neighbour may take to raise the MTU of its end before a warning is logged.
const PATIENCE: Duration = Duration::from_secs(3);

const NEEDED: usize = LINK_MTU_MIN as usize;

/// This node's end of a link.
pub(super) enum End<'a> {
    /// A cable to this device.
    Device(&'a str),
    /// A tunnel whose datagrams carry frames of so many bytes.
    Tunnel(Tunnel, u16),
}

/// Links whose MTU is too small, and devices whose MTU was raised.
pub(super) struct Mtus {
    /// Devices whose MTU is raised: what it was before.
    raised: BTreeMap<String, usize>,
    /// Where `raised` is kept.
    file: PathBuf,
    /// Ports that wait for the neighbour to raise its MTU, and when to warn of it.
    waiting: BTreeMap<u8, Time>,
}

impl Mtus {
    /// For the node with this control socket; `ours` are the devices of its ports. Reads the former
    /// values that a killed node has left.
    pub(super) fn new(control: &Path, ours: &[&str]) -> Mtus {
        let file = control.with_extension("mtu");
        let left = fs::read(&file).ok().and_then(|left| serde_json::from_slice(&left).ok());
        let mut raised: BTreeMap<String, usize> = left.unwrap_or_default();
        // The machine may have been rebooted, or somebody has set another MTU.
        raised.retain(|device, _| is_raised(device));
        let mut mtus = Mtus { raised, file, waiting: BTreeMap::new() };
        let not_ours = |device: &&String| !ours.contains(&device.as_str());
        let others: Vec<String> = mtus.raised.keys().filter(not_ours).cloned().collect();
        others.iter().for_each(|device| mtus.lower(device));
        mtus.keep();
        mtus
    }

    /// A port leads to a node, and the MTU of its link is too small.
    pub(super) fn too_small(&mut self, now: Time, port: u8, name: &str, end: &End<'_>) {
        match end {
            End::Tunnel(tunnel, mtu) if usize::from(*mtu) < NEEDED => warn_of(name, tunnel, *mtu),
            End::Tunnel(..) => drop(self.waiting.entry(port).or_insert(now + PATIENCE)),
            End::Device(device) => match plexus_io::device_facts(device) {
                Ok(facts) if facts.mtu < NEEDED => self.raise(name, device, facts.mtu),
                Ok(_) => drop(self.waiting.entry(port).or_insert(now + PATIENCE)),
                Err(error) => tracing::warn!(port = name, %error, "reading the MTU"),
            },
        }
    }

    fn raise(&mut self, name: &str, device: &str, mtu: usize) {
        // The value is written first, so that it is there whenever the node is killed.
        let is_new = !self.raised.contains_key(device);
        self.raised.entry(device.into()).or_insert(mtu);
        self.keep();
        match plexus_io::set_mtu(device, NEEDED) {
            Ok(before) => tracing::info!(
                port = name,
                device,
                "MTU raised from {before} to {NEEDED} bytes, which a fabric link needs"
            ),
            Err(error) => {
                if is_new {
                    self.raised.remove(device);
                    self.keep();
                }
                tracing::warn!(
                    port = name,
                    %error,
                    "a fabric link needs an MTU of {NEEDED} bytes and {device} has {mtu}: nothing \
                     passes here until you run `ip link set dev {device} mtu {NEEDED}`"
                );
            }
        }
    }

    /// The port's link is large enough, or down.
    pub(super) fn no_longer_small(&mut self, port: u8) {
        self.waiting.remove(&port);
    }

    /// The port was removed: its device gets its former MTU.
    pub(super) fn removed(&mut self, port: u8, device: &str) {
        self.no_longer_small(port);
        self.lower(device);
        self.keep();
    }

    /// The ports whose neighbours should have raised their MTU by now, each once.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<u8> {
        let due = self.waiting.iter_mut().filter(|(_, at)| **at <= now);
        due.map(|(port, at)| (*port, *at = Time::FOREVER).0).collect()
    }

    /// Restores the MTU of a device, unless somebody has set another one.
    fn lower(&mut self, device: &str) {
        let Some(before) = self.raised.remove(device) else { return };
        if !is_raised(device) {
            return;
        }
        match plexus_io::set_mtu(device, before) {
            Ok(_) => tracing::info!(device, "MTU restored to {before} bytes"),
            Err(error) => tracing::warn!(device, %error, "the MTU stays raised"),
        }
    }

    /// Writes the former values for the next node.
    fn keep(&self) {
        let kept = if self.raised.is_empty() {
            match fs::remove_file(&self.file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        } else {
            // By a rename, so that the file is always complete.
            let new = self.file.with_extension("mtu.new");
            let text = serde_json::to_vec(&self.raised).unwrap_or_default();
            fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file))
        };
        if let Err(error) = kept {
            let file = self.file.display();
            tracing::warn!(%error, %file, "if this node is killed, MTUs stay raised");
        }
    }
}

impl Drop for Mtus {
    fn drop(&mut self) {
        let raised: Vec<String> = self.raised.keys().cloned().collect();
        raised.iter().for_each(|device| self.lower(device));
        self.keep();
    }
}

fn is_raised(device: &str) -> bool {
    plexus_io::device_facts(device).is_ok_and(|facts| facts.mtu == NEEDED)
}

/// Says what to do about a tunnel whose path has too small an MTU.
fn warn_of(port: &str, tunnel: &Tunnel, mtu: u16) {
    let headers = if tunnel.peer.is_ipv4() { 28 } else { 48 };
    let (path, has) = (NEEDED + headers, usize::from(mtu) + headers);
    let (local, peer) = (tunnel.local.ip(), tunnel.peer.ip());
    let device = plexus_io::device_of(local).unwrap_or_else(|| format!("(the one with {local})"));
    let help = match plexus_io::device_facts(&device) {
        Ok(facts) if facts.mtu >= path => format!(
            "{device} here has {}, so a router on the path has less: `tracepath {peer}` shows it",
            facts.mtu
        ),
        _ => format!(
            "`ip link set dev {device} mtu {path}`, and the same wherever the path has less"
        ),
    };
    tracing::warn!(
        port,
        "a fabric link needs an MTU of {NEEDED} bytes and datagrams to {peer} carry {mtu}: nothing \
         passes here until every link on the path carries packets of {path} bytes instead of \
         {has}. {help}"
    );
}
