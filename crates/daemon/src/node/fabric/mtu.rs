//! The MTU of fabric links. A device as the kernel makes it carries 1,500 bytes, which is less than
//! a host's full frame behind its route ([`LINK_MTU_MIN`]). The node raises the MTU once the
//! neighbour has proved that it is a node, and lowers it again when the node ends. Without the
//! privilege to do so, the node logs the command to run.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::fabric::LINK_MTU_MIN;

/// How long a neighbour may take to raise the MTU of its end before that is worth a warning.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which links are too small, and what was done about it.
#[derive(Default)]
pub(super) struct Mtus {
    /// Devices whose MTU is raised: what it was before.
    raised: BTreeMap<String, usize>,
    /// Ports that wait for the neighbour to raise its own: from when on that is worth a warning.
    waiting: BTreeMap<u8, Time>,
}

impl Mtus {
    /// A port leads to a node, by a link that is too small. `device` is `None` for a tunnel.
    pub(super) fn too_small(&mut self, now: Time, port: u8, name: &str, device: Option<&str>) {
        let needed = usize::from(LINK_MTU_MIN);
        let Some(device) = device else {
            tracing::warn!(port = name, needed, "the path of the tunnel carries too small an MTU");
            return;
        };
        match plexus_io::device_facts(device) {
            Ok(facts) if facts.mtu < needed => self.raise(name, device, facts.mtu),
            Ok(_) => drop(self.waiting.entry(port).or_insert(now + PATIENCE)),
            Err(error) => tracing::warn!(port = name, %error, "reading the MTU"),
        }
    }

    fn raise(&mut self, name: &str, device: &str, mtu: usize) {
        let needed = usize::from(LINK_MTU_MIN);
        match plexus_io::set_mtu(device, needed) {
            Ok(before) => {
                tracing::info!(
                    port = name,
                    device,
                    "MTU raised from {before} to {needed} bytes, which a fabric link needs"
                );
                self.raised.entry(device.into()).or_insert(before);
            }
            Err(error) => tracing::warn!(
                port = name,
                %error,
                "a fabric link needs an MTU of {needed} bytes and {device} has {mtu}: nothing \
                 passes here until you run `ip link set dev {device} mtu {needed}`"
            ),
        }
    }

    /// The port's link is not too small, or no more.
    pub(super) fn settled(&mut self, port: u8) {
        self.waiting.remove(&port);
    }

    /// The ports whose neighbours should have raised their MTU by now, each once.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<u8> {
        let due = self.waiting.iter_mut().filter(|(_, at)| **at <= now);
        due.map(|(port, at)| (*port, *at = Time::FOREVER).0).collect()
    }
}

impl Drop for Mtus {
    /// Gives the devices back as they were, but for those that were set to something else since.
    fn drop(&mut self) {
        for (device, before) in &self.raised {
            let is_ours = plexus_io::device_facts(device)
                .is_ok_and(|facts| facts.mtu == usize::from(LINK_MTU_MIN));
            if is_ours && let Err(error) = plexus_io::set_mtu(device, *before) {
                tracing::warn!(device, %error, "the MTU stays raised");
            }
        }
    }
}
