//! The machines that a lab is spread over, and which of them has each device.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use plexus_config::ValueError;
use plexus_config::document::{At, Lines, Section, quoted};
use plexus_config::name::check_name;

use crate::model::{Device, Topology};

/// Most machines of a lab.
const MACHINES_MAX: usize = 256;

/// A machine that has a part of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name, unique among machines.
    pub name: String,
    /// Its address, at which the others reach it.
    pub address: IpAddr,
    /// Its devices. The first machine also has those that no machine names.
    pub devices: Vec<Device>,
}

impl Topology {
    /// The place of a device's machine in [`Topology::machines`].
    pub fn machine_of(&self, device: Device) -> usize {
        let has = |machine: &Machine| machine.devices.contains(&device);
        self.machines.iter().position(has).unwrap_or(0)
    }

    fn device_called(&self, device: Device) -> &str {
        match device {
            Device::Node(i) => &self.nodes[i].name,
            Device::Host(i) => &self.hosts[i].name,
            Device::Bridge(i) => &self.bridges[i].name,
        }
    }

    pub(crate) fn write_machines(&self, lines: &mut Lines) {
        for machine in &self.machines {
            lines.heading("[[machine]]");
            lines.text("name", &machine.name);
            lines.text("address", &machine.address.to_string());
            let names = machine.devices.iter().map(|device| quoted(self.device_called(*device)));
            let names: Vec<String> = names.collect();
            lines.entry("devices", format_args!("[{}]", names.join(", ")));
        }
    }
}

/// Reads the `[[machine]]` sections.
pub(crate) fn read_machines(
    root: &Section<'_>,
    topology: &mut Topology,
    devices: &HashMap<String, Device>,
) {
    let mut placed = HashSet::new();
    for section in root.sections("machine", "a machine of the lab") {
        let name = section.required_text("name", "\"m1\"");
        if let Some(At { value, span }) = &name {
            root.problems().note(span.clone(), check_name("machine", value));
            let is_known = topology.machines.iter().any(|machine| machine.name == *value);
            if is_known || topology.machines.len() == MACHINES_MAX {
                let message = match is_known {
                    true => format!("there are two machines \"{value}\""),
                    false => format!("there are more than {MACHINES_MAX} machines"),
                };
                root.problems().add(span.clone(), message, "write each machine once");
            }
        }
        let address = section.require("address", "\"192.0.2.1\"").parsed("address", parse_address);
        let mut own = Vec::new();
        for At { value, span } in section.texts("devices").unwrap_or_default() {
            match devices.get(value) {
                None => {
                    let names = devices.keys().map(String::as_str);
                    root.problems().unknown(span, "device", value, names);
                }
                Some(device) if !placed.insert(*device) => {
                    let message = format!("two machines have {value}");
                    root.problems().add(span, message, "name it at one of them");
                }
                Some(device) => own.push(*device),
            }
        }
        if let (Some(name), Some(address)) = (name, address) {
            let (name, address) = (name.value.to_string(), address.value);
            topology.machines.push(Machine { name, address, devices: own });
        }
    }
}

fn parse_address(text: &str) -> Result<IpAddr, ValueError> {
    let help = "write the address at which the other machines reach it";
    let address: Option<IpAddr> = text.parse().ok();
    let usable = address.filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
    usable.ok_or_else(|| ValueError::new("this is no address of a machine", help))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = \"two\"\n\
        [[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
        [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
        [[link]]\nends = [\"n1.a\", \"n2.a\"]\n[[link]]\nends = [\"h1\", \"n2.b\"]\n";

    fn with(machines: &str) -> Result<Topology, String> {
        Topology::parse("f", &format!("{FILE}{machines}")).map_err(|e| e.to_string())
    }

    #[test]
    fn each_device_is_at_one_machine_and_unnamed_ones_at_the_first() {
        let text = "[[machine]]\nname = \"m1\"\naddress = \"192.0.2.1\"\ndevices = []\n\
                    [[machine]]\nname = \"m2\"\naddress = \"2001:db8::2\"\n\
                    devices = [\"n2\", \"h1\"]\n";
        let two = with(text).unwrap();
        let at = [Device::Node(0), Device::Node(1), Device::Host(0)].map(|d| two.machine_of(d));
        assert_eq!(at, [0, 1, 1]);
        assert_eq!(Topology::parse("f", &two.to_toml()).unwrap(), two);
        for (wrong, why) in [
            (text.replace("\"h1\"]", "\"h9\"]"), "there is no device \"h9\""),
            (text.replace("devices = []", "devices = [\"n2\"]"), "two machines have n2"),
            (text.replace("\"m2\"", "\"m1\""), "there are two machines \"m1\""),
            (text.replace("192.0.2.1", "0.0.0.0"), "no address of a machine"),
        ] {
            let told = with(&wrong).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
