//! A node that may open few descriptors: what callers by the network take, applications of the box
//! and its operator do not miss.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;

use plexus_wire::ndn::nfd::ControlParameters;

use super::commands::Client;
use super::workers::own_address;
use super::{Desk, Node};
use crate::common::until;

fn limit_of(process: &Child) -> u64 {
    let limits = fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap()
}

fn node(desk: &Desk, limits: &str, more: &str, log: &Path) -> Node {
    let first = format!("{limits} && exec 2> {}", log.display());
    desk.node_by("n", more, &[], Some(&first))
}

#[test]
fn callers_by_the_network_leave_descriptors_to_applications_and_to_the_node() {
    let desk = Desk::new("named-descriptors");
    let (own, log) = (format!("{}:7003", own_address(3)), desk.path("log"));
    let node = node(&desk, "ulimit -n 256", &format!("tcp = [\"{own}\"]\n"), &log);
    let callers: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&own).unwrap()).collect();
    callers.iter().for_each(|caller| caller.set_nonblocking(true).unwrap());
    let is_refused = |mut caller: &TcpStream| match caller.read(&mut [0]) {
        Ok(n) => n == 0,
        Err(e) => e.kind() != ErrorKind::WouldBlock,
    };
    let said = || fs::read_to_string(&log).unwrap();
    let has_all = || {
        let refused = callers.iter().filter(|caller| is_refused(caller)).count();
        let faces = node.show("faces").unwrap()["faces"].as_array().unwrap().len();
        faces > 64 && faces + refused >= callers.len() || said().contains("could not be taken")
    };
    assert!(until(has_all));
    let mut client = Client::new(&desk.path("n.nfd"));
    assert_eq!(client.command("cs/config", &ControlParameters::default()).code, 200);
    let said = said();
    assert!(said.contains("descriptors are fewer than faces_max asks for"), "{said}");
    assert!(!said.contains("could not be taken"), "{said}");
}

#[test]
fn a_node_raises_its_limit_of_descriptors_to_what_its_faces_may_take() {
    let limits = "ulimit -S -n 256 && ulimit -H -n 3000";
    for (more, least, most, is_told) in
        [("", 3000, 3000, true), ("faces_max = 1000\n", 1100, 1400, false)]
    {
        let desk = Desk::new("named-limit");
        let log = desk.path("log");
        let node = node(&desk, limits, more, &log);
        let limit = limit_of(&node.process.0);
        assert!((least..=most).contains(&limit), "{more}: {limit}");
        let said = fs::read_to_string(&log).unwrap();
        assert_eq!(said.contains("descriptors are fewer"), is_told, "{said}");
    }
}
