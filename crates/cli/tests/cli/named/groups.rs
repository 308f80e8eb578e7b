//! Groups of IP: faces by which one asks all on a link at once.

use std::fs;
use std::io;

use plexus_wire::ndn::nfd::ControlParameters;

use super::Node;
use super::commands::Client;
use crate::common::{self, Desk};

/// Sets a namespace up so that the addresses of its devices are ready at once.
fn ready() -> io::Result<()> {
    for key in ["accept_dad", "dad_transmits"] {
        fs::write(format!("/proc/sys/net/ipv6/conf/default/{key}"), "0")?;
    }
    Ok(())
}

/// The number of a node's face whose other end begins so.
fn face_to(node: &Node, remote: &str) -> Option<u64> {
    let faces = node.show("faces").unwrap();
    let mut all = faces["faces"].as_array().unwrap().iter();
    let face = all.find(|f| f["remote"].as_str().is_some_and(|r| r.starts_with(remote)))?;
    assert_eq!(
        (&face["link"], &face["persistency"]),
        (&"multi-access".into(), &"permanent".into())
    );
    face["face"].as_u64()
}

#[test]
fn neighbours_fetch_of_groups_of_both_ip_versions() {
    let Some([near, far]) = common::namespaces("groups of IP", ready) else { return };
    if !fs::exists("/proc/sys/net/ipv6").unwrap() {
        eprintln!("SKIPPED: there is no IPv6 here");
        return;
    }
    common::cable((&near, "e0"), (&far, "e0"), 1500);
    for (place, address) in [(&near, "10.9.0.1/24"), (&far, "10.9.0.2/24")] {
        common::ip(place, &format!("address add {address} dev e0"));
    }
    let desk = Desk::new("named-groups");
    let groups = |own| format!("multicast = [\"{own}\"]\nmulticast6 = [\"e0\"]\n");
    let near = desk.node_in(&near, "near", &groups("10.9.0.1"));
    let far = desk.node_in(&far, "far", &groups("10.9.0.2"));
    let (file, content) = desk.object(100_000);
    let mut client = Client::new(&desk.path("near.nfd"));
    for (prefix, remote) in
        [("/four", "udp4://224.0.23.170:56363"), ("/six", "udp6://[ff02::1234%")]
    {
        let _producer = desk.serve(&far, prefix, &file);
        let face = face_to(&near, remote);
        assert!(face.is_some(), "no face to {remote}: {:?}", near.show("faces"));
        let name = Some(prefix.parse().unwrap());
        let asked = ControlParameters { name, face_id: face, ..ControlParameters::default() };
        assert_eq!(client.command("rib/register", &asked).code, 200);
        assert!(desk.fetch("near", prefix).is_some_and(|got| got == content), "{prefix}");
        // What a node sends to the group is not brought to it again.
        let faces = near.show("faces").unwrap();
        let mut all = faces["faces"].as_array().unwrap().iter();
        let counted = all.find(|f| f["face"].as_u64() == face).unwrap();
        assert_eq!(counted["received"]["interests"], 0, "{counted}");
    }
}

#[test]
fn a_device_without_an_address_of_the_version_is_told() {
    let Some([place]) = common::namespaces("a group of IPv6", common::quiet) else { return };
    common::ip(&place, "link add d0 type veth peer name d9");
    common::ip(&place, "link set dev d0 up");
    let desk = Desk::new("named-groups");
    for (device, why) in [
        ("d0", "joining the group [ff02::1234]:56363 on d0: "),
        ("d1", "joining the group [ff02::1234]:56363 on d1: No such device"),
    ] {
        let file = desk.write("alone", &format!("multicast6 = [\"{device}\"]\n"));
        let config = file.to_str().unwrap();
        let mut node = common::plexus_in(&place, &["node", "run", "--config", config]);
        let said = common::Said::of(&mut node).expect(2);
        assert!(said.err.contains(why), "{}", said.err);
    }
}
