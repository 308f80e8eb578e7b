//! Network devices that can become ports, and what speaks against each.

use std::fs;
use std::net::IpAddr;

use plexus_io::netlink::{DeviceInfo, devices};
use plexus_report::table;
use serde::Serialize;

/// A network device that could become a port.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The device.
    pub info: DeviceInfo,
    /// Objections to it, the worst first.
    pub objections: Vec<Objection>,
}

/// A reason not to take a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Objection {
    /// To take the device would cut a connection that is in use.
    pub is_grave: bool,
    /// In words.
    pub text: String,
}

impl Candidate {
    /// Whether only `--force` takes it.
    pub fn needs_force(&self) -> bool {
        self.objections.iter().any(|objection| objection.is_grave)
    }

    /// The objections in one line.
    pub fn remarks(&self) -> String {
        let texts: Vec<&str> = self.objections.iter().map(|o| o.text.as_str()).collect();
        texts.join("; ")
    }
}

/// The devices of this box that could become ports, by name.
///
/// # Errors
/// In words, when the kernel cannot be asked.
pub fn candidates() -> Result<Vec<Candidate>, String> {
    let session = ssh_address();
    let devices = devices().map_err(|e| e.to_string())?;
    let mut found: Vec<Candidate> = devices
        .into_iter()
        .filter(can_be_port)
        .map(|info| Candidate { objections: objections(&info, session), info })
        .collect();
    found.sort_by(|a, b| a.info.name.cmp(&b.info.name));
    Ok(found)
}

/// The devices of these names, in this order.
///
/// # Errors
/// In words: the first that is not there, is named twice, or is taken only by force.
pub fn choose(
    candidates: &[Candidate],
    names: &[String],
    force: bool,
) -> Result<Vec<String>, String> {
    for (i, name) in names.iter().enumerate() {
        let Some(candidate) = candidates.iter().find(|c| c.info.name == *name) else {
            let all: Vec<&str> = candidates.iter().map(|c| c.info.name.as_str()).collect();
            let all = if all.is_empty() { "none".into() } else { all.join(", ") };
            return Err(format!("there is no Ethernet interface {name}; there are: {all}"));
        };
        if names[..i].contains(name) {
            return Err(format!("interface {name} is named twice"));
        }
        if candidate.needs_force() && !force {
            let why = candidate.remarks();
            return Err(format!(
                "interface {name} is in use: {why}. As a port it stops to serve this box. Choose \
                 another, or add --force"
            ));
        }
    }
    Ok(names.to_vec())
}

/// The devices as a table in which each has a number.
pub fn list(candidates: &[Candidate]) -> String {
    let head = ["", "INTERFACE", "DRIVER", "SPEED", "CABLE", "MAC", "REMARKS"];
    let row = |(number, candidate): (usize, &Candidate)| {
        let info = &candidate.info;
        let speed = info.speed_mbit_per_s.filter(|_| info.has_carrier);
        let cable = match (info.is_up, info.has_carrier) {
            (_, true) => "yes",
            (true, false) => "no",
            // A device that is down does not know.
            (false, false) => "(down)",
        };
        let force = if candidate.needs_force() { "IN USE: " } else { "" };
        vec![
            number.to_string(),
            info.name.clone(),
            info.driver.clone().unwrap_or_else(|| "-".into()),
            speed.map_or_else(|| "-".into(), |speed| format!("{speed}Mbit")),
            cable.into(),
            info.mac.map(|mac| mac.to_string()).unwrap_or_default(),
            format!("{force}{}", candidate.remarks()),
        ]
    };
    let rows: Vec<Vec<String>> = (1..).zip(candidates).map(row).collect();
    table(&head, &rows)
}

/// The devices that a line of text names, by their names or by their numbers in the [`list`].
///
/// # Errors
/// In words, when it has another number, or no name.
pub fn read_names(candidates: &[Candidate], line: &str) -> Result<Vec<String>, String> {
    let name = |word: &str| match word.parse::<usize>() {
        Ok(number) => match number.checked_sub(1).and_then(|at| candidates.get(at)) {
            Some(candidate) => Ok(candidate.info.name.clone()),
            None => Err(format!("there is no number {number} in the list")),
        },
        Err(_) => Ok(word.to_string()),
    };
    let words = line.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty());
    let named: Vec<String> = words.map(name).collect::<Result<_, _>>()?;
    match named.is_empty() {
        true => Err("no interface was named".into()),
        false => Ok(named),
    }
}

/// An address of this box at which others reach it, and that no port takes away: the one that the
/// operator's session came to, one beside a default route, any other, or a link-local address of a
/// port.
///
/// # Errors
/// In words, when there is none, or the kernel cannot be asked.
pub fn reachable_address(ports: &[String]) -> Result<IpAddr, String> {
    let devices = devices().map_err(|e| e.to_string())?;
    reachable(&devices, ports, ssh_address()).ok_or_else(|| {
        "this box has no address at which another box could reach it: give one to an interface \
         (`ip address add`), or set a port up, so that it has a link-local address"
            .to_string()
    })
}

fn reachable(devices: &[DeviceInfo], ports: &[String], session: Option<IpAddr>) -> Option<IpAddr> {
    let (ports, mut others): (Vec<&DeviceInfo>, Vec<_>) =
        devices.iter().partition(|info| ports.contains(&info.name));
    // Addresses of bridges are often those of containers and virtual machines here.
    let is_inner = |info: &DeviceInfo| matches!(info.kind.as_str(), "bridge" | "dummy");
    others.retain(|info| info.has_default_route || !is_inner(info));
    others.sort_by_key(|info| !info.has_default_route);
    let addresses = |all: Vec<&DeviceInfo>, local: bool| -> Vec<IpAddr> {
        let of = |info: &DeviceInfo| {
            let all = info.addresses.iter().map(|(address, _)| *address);
            let mut all: Vec<IpAddr> = all.filter(|a| is_link_local(*a) == local).collect();
            // An address of IPv4 makes the shorter code.
            all.sort_by_key(IpAddr::is_ipv6);
            all
        };
        all.into_iter().flat_map(of).filter(|address| !address.is_loopback()).collect()
    };
    let global = addresses(others, false);
    let session = session.filter(|address| global.contains(address));
    session.into_iter().chain(global).chain(addresses(ports, true)).next()
}

/// Whether an address holds on one cable only.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Bridges are no cables, and names that end so are ports of a node already.
fn can_be_port(info: &DeviceInfo) -> bool {
    let is_ours = info.name.ends_with(plexus_config::KERNEL_PEER);
    info.mac.is_some() && !is_ours && !matches!(info.kind.as_str(), "bridge" | "dummy")
}

fn objections(info: &DeviceInfo, session: Option<IpAddr>) -> Vec<Objection> {
    let mut found = Vec::new();
    let mut object = |is_grave, text: String| found.push(Objection { is_grave, text });
    let has = |address| info.addresses.iter().any(|(own, _)| *own == address);
    if session.is_some_and(has) {
        object(true, "your SSH session comes through it".into());
    }
    if info.has_default_route {
        object(true, "the default route leads through it".into());
    }
    if let Some(master) = &info.master {
        object(true, format!("it is part of {master}"));
    }
    let own = info.addresses.iter().filter(|(address, _)| !is_link_local(*address));
    let own: Vec<String> = own.map(|(address, len)| format!("{address}/{len}")).collect();
    if !own.is_empty() {
        object(false, format!("it has {}", own.join(", ")));
    }
    found
}

/// The address of this box that the operator's SSH session came to. `sudo` takes the variable
/// away, so the processes above are asked too.
fn ssh_address() -> Option<IpAddr> {
    const NAME: &str = "SSH_CONNECTION";
    const DEPTH: usize = 32;
    let address = |value: &str| value.split(' ').nth(2)?.parse().ok();
    if let Ok(value) = std::env::var(NAME) {
        return address(&value);
    }
    let mut pid = String::from("self");
    for _ in 0..DEPTH {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may have spaces; behind it come state and parent.
        pid = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_string();
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut values = environ.split(|b| *b == 0).filter_map(|v| std::str::from_utf8(v).ok());
        let value = values.find_map(|v| v.strip_prefix(NAME)?.strip_prefix('='));
        if let Some(value) = value {
            return address(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, addresses: &[&str]) -> DeviceInfo {
        let address = |text: &&str| {
            let (address, len) = text.split_once('/').unwrap();
            (address.parse().unwrap(), len.parse().unwrap())
        };
        let addresses = addresses.iter().map(address).collect();
        DeviceInfo { name: name.into(), addresses, ..DeviceInfo::default() }
    }

    fn candidate(info: DeviceInfo, session: Option<&str>) -> Candidate {
        let session = session.map(|text| text.parse().unwrap());
        Candidate { objections: objections(&info, session), info }
    }

    #[test]
    fn a_device_that_is_in_use_is_taken_by_force_only() {
        let route = DeviceInfo { has_default_route: true, ..device("eth0", &["192.0.2.1/24"]) };
        let bridged = DeviceInfo { master: Some("br0".into()), ..device("eth1", &[]) };
        let session = device("eth2", &["198.51.100.1/24"]);
        let all: Vec<Candidate> = [route, bridged, session, device("eth3", &["10.0.0.1/8"])]
            .into_iter()
            .map(|info| candidate(info, Some("198.51.100.1")))
            .collect();
        for (name, why) in [
            ("eth0", "the default route leads through it; it has 192.0.2.1/24"),
            ("eth1", "it is part of br0"),
            ("eth2", "your SSH session comes through it"),
        ] {
            let names = [name.to_string()];
            let told = choose(&all, &names, false).unwrap_err();
            assert!(told.contains(why) && told.contains("--force"), "{told}");
            assert_eq!(choose(&all, &names, true).unwrap(), names);
        }
        let names = ["eth3".to_string()];
        assert_eq!(choose(&all, &names, false).unwrap(), names);
        assert_eq!(all[3].remarks(), "it has 10.0.0.1/8");
        let told = choose(&all, &["eth9".into()], true).unwrap_err();
        assert!(told.contains("eth0, eth1, eth2, eth3"), "{told}");
        let told = choose(&all, &["eth3".into(), "eth3".into()], true).unwrap_err();
        assert!(told.contains("twice"), "{told}");
    }

    #[test]
    fn devices_are_named_by_name_or_by_number() {
        let all = ["eth0", "eth1"].map(|name| candidate(device(name, &[]), None));
        let named = |line| read_names(&all, line);
        assert_eq!(named("2, eth0\n").unwrap(), ["eth1", "eth0"]);
        // Whether there is such a device is seen when it is chosen.
        assert_eq!(named("eth9").unwrap(), ["eth9"]);
        for (line, why) in [("3", "no number 3"), ("0", "no number 0"), (" \n", "no interface")] {
            assert!(named(line).unwrap_err().contains(why), "{line}");
        }
        let list = list(&all);
        assert!(list.contains("\n1  eth0") && list.contains("\n2  eth1"), "{list}");
    }

    #[test]
    fn others_are_told_an_address_that_stays() {
        let port = device("eth1", &["203.0.113.1/24", "fe80::1/64"]);
        let plain = device("eth2", &["2001:db8::2/64", "10.0.0.2/8", "fe80::2/64"]);
        let route = DeviceInfo { has_default_route: true, ..device("eth3", &["192.0.2.3/24"]) };
        let lo = device("lo", &["127.0.0.1/8", "::1/128"]);
        let find = |devices: &[&DeviceInfo], session: Option<&str>| {
            let all: Vec<DeviceInfo> = devices.iter().map(|d| (*d).clone()).collect();
            let session = session.map(|text| text.parse().unwrap());
            reachable(&all, &["eth1".into()], session).map(|address| address.to_string())
        };
        let of = |devices: &[&DeviceInfo]| find(devices, None);
        let session = |address| find(&[&port, &plain, &route], Some(address));
        assert_eq!(session("10.0.0.2").as_deref(), Some("10.0.0.2"));
        // The session comes through the new port: its address will be gone.
        assert_eq!(session("203.0.113.1").as_deref(), Some("192.0.2.3"));
        assert_eq!(of(&[&port, &plain, &route]).as_deref(), Some("192.0.2.3"));
        assert_eq!(of(&[&port, &plain]).as_deref(), Some("10.0.0.2"));
        assert_eq!(of(&[&lo, &port]).as_deref(), Some("fe80::1"));
        assert_eq!(of(&[&lo]), None);
    }
}
