//! Leases of addresses that a store makes durable in a second, and DHCP acknowledgements that a
//! controller's core gives with it. 64 are asked for at a time: as many as a controller takes
//! frames at a time.
//!
//!     cargo run --release -p plexus-keeper --example leases -- /var/tmp/leases.redb
//!     cargo run --release -p plexus-keeper --example leases -- http://127.0.0.1:2379

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use plexus_config::{ControllerFile, EtcdSettings};
use plexus_controller::tenure::{Answer, Ask};
use plexus_controller::{Change, Controller, Input, Lease, NodeId, Output, Record, Start};
use plexus_keeper::{Etcd, File, Keeper};
use plexus_wire::dhcpv4::{self, DhcpOption, MessageType, option};
use plexus_wire::fabric::message::{
    Body, ControllerHello, HostFrame, HostSeen, PortRole, PortState,
};
use plexus_wire::{MacAddr, Time, frame};

const AT_ONCE: u32 = 64;
const RUNS: usize = 5;
const RUN: Duration = Duration::from_secs(2);

fn main() -> Result<(), String> {
    let place = std::env::args().nth(1).ok_or("give a file, or the URL of an etcd")?;
    let mut keeper: Box<dyn Keeper> = match place.starts_with("http") {
        false => Box::new(File::open(Path::new(&place))?),
        true => {
            let endpoints = vec![place];
            let (insecure, lease) = (true, Duration::from_secs(60));
            let settings = EtcdSettings { endpoints, ca: None, certificate: None, insecure, lease };
            let state = std::env::temp_dir().join(format!("writes-{}.etcd", std::process::id()));
            Box::new(Etcd::start(&settings, "writes", &[0xEE; 16], &state, || {})?)
        }
    };
    let keeper = keeper.as_mut();
    let (mut lease, mut epoch) = (None, None);
    while epoch.is_none() {
        match next(keeper)? {
            Answer::Leader(_) => {
                keeper.ask(Ask::Lease { time: Duration::from_secs(60), asked: Time::ZERO });
            }
            Answer::Leased { lease: id, .. } => {
                lease = Some(id);
                keeper.ask(Ask::Campaign { lease: id, instead_of: 0 });
            }
            Answer::Won { epoch: won, .. } => epoch = Some(won),
            Answer::Beaten => return Err("another one leads there".into()),
            _ => {}
        }
    }
    let epoch = epoch.unwrap_or(0);
    let mut ticket = 0;
    let mut write = || {
        let mut changes = 0;
        for _ in 0..AT_ONCE {
            ticket += 1;
            changes += 1;
            let ip = Ipv4Addr::from_bits(0x0A00_0000 + (ticket % 100_000) as u32);
            let lease = Lease { ip, mac: MacAddr([2, 0, 0, 0, 0, 1]), until_unix_s: ticket };
            let changes = vec![Change::Put(Record::Lease(lease))];
            keeper.ask(Ask::Write { epoch, ticket, changes });
        }
        wait_for(keeper, ticket)?;
        Ok(changes)
    };
    measure("leases stored", &mut write)?;
    let mut hosts = Hosts::new(epoch, ticket)?;
    measure("DHCP ACKs", &mut || hosts.renew(keeper))?;
    if let Some(lease) = lease {
        keeper.ask(Ask::Release { lease });
    }
    println!("{}", keeper.describe());
    Ok(())
}

/// Repeats `work`, which gives how much it has done.
fn measure(what: &str, work: &mut dyn FnMut() -> Result<u32, String>) -> Result<(), String> {
    let mut rates = Vec::new();
    for _ in 0..RUNS {
        let (begun, mut done) = (Instant::now(), 0);
        while begun.elapsed() < RUN {
            done += work()?;
        }
        rates.push(f64::from(done) / begun.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    let [least, median, greatest] = [0, RUNS / 2, RUNS - 1].map(|at| rates[at]);
    println!("{what}: {median:.0} in a second (least {least:.0}, greatest {greatest:.0})");
    Ok(())
}

/// Waits until the write of this ticket is durable.
fn wait_for(keeper: &mut dyn Keeper, ticket: u64) -> Result<(), String> {
    let mut written = 0;
    while written < ticket {
        if let Answer::Written { ticket, .. } = next(keeper)? {
            written = ticket;
        }
    }
    Ok(())
}

const NODE: NodeId = 2;
/// Ports of the node, with a host at each.
const PORTS: u8 = 200;

/// A core that leads, and hosts that renew their leases by turns.
struct Hosts {
    core: Controller,
    now: Time,
    /// Tickets of writes before: the core begins with 1.
    before: u64,
    leased: BTreeMap<u8, Ipv4Addr>,
    next: u8,
}

impl Hosts {
    fn new(epoch: u64, before: u64) -> Result<Hosts, String> {
        let file = "name = \"c1\"\n[[subnet]]\nprefix = \"10.64.0.0/16\"\n\
                    gateway = \"10.64.255.254\"\nrange = \"10.64.0.1-10.64.1.0\"\n";
        let config = ControllerFile::parse("leases", file).map_err(|e| e.to_string())?.settings;
        let now = Time::from_secs(1);
        let start = Start {
            config,
            epoch,
            provisional: false,
            now,
            unix_s: 0,
            stored: vec![],
            seed: [1; 32],
        };
        let core = Controller::new(start);
        let mut hosts = Hosts { core, now, before, leased: BTreeMap::new(), next: 0 };
        hosts.hear(Input::Attached { to: Some(NODE) });
        hosts.hear(Input::NodeUp { node: NODE, name: "n1".into(), version: 1 });
        let port = |port| PortState {
            port,
            role: PortRole::Host,
            mac: MacAddr::default(),
            mtu: 2000,
            rate_mbit_per_s: 10_000,
            peer: 0,
            peer_port: 0,
        };
        let ports = (0..PORTS).map(port).collect();
        hosts.say(ControllerHello { generation: 1, page: 0, pages: 1, ports });
        for port in 0..PORTS {
            hosts.say(HostSeen { port, mac: mac(port), ip: None });
        }
        Ok(hosts)
    }

    /// Has the next hosts renew their leases, or get one: how many were acknowledged.
    fn renew(&mut self, keeper: &mut dyn Keeper) -> Result<u32, String> {
        let (mut ticket, mut acks) = (None, 0);
        for _ in 0..AT_ONCE {
            let port = self.next;
            self.next = (self.next + 1) % PORTS;
            self.now = self.now + Duration::from_millis(1);
            let outputs = match self.leased.get(&port) {
                Some(ip) => self.ask(port, MessageType::REQUEST, *ip, None),
                None => {
                    let offers = self.ask(port, MessageType::DISCOVER, Ipv4Addr::UNSPECIFIED, None);
                    let offer = offers.iter().find_map(answer).ok_or("no offer")?;
                    self.ask(port, MessageType::REQUEST, Ipv4Addr::UNSPECIFIED, Some(offer.yiaddr))
                }
            };
            for output in outputs {
                if let Output::Store { ticket: own, changes } = output {
                    let own = self.before + own;
                    let epoch = self.core.epoch();
                    keeper.ask(Ask::Write { epoch, ticket: own, changes });
                    ticket = Some(own);
                }
            }
        }
        let ticket = ticket.ok_or("nothing to store")?;
        wait_for(keeper, ticket)?;
        for output in self.hear(Input::Stored { ticket: ticket - self.before }) {
            let Some(ack) = answer(&output) else { continue };
            if ack.message_type == MessageType::ACK {
                self.leased.insert(ack.chaddr.0[5], ack.yiaddr);
                acks += 1;
            }
        }
        Ok(acks)
    }

    fn ask(
        &mut self,
        port: u8,
        message_type: MessageType,
        ciaddr: Ipv4Addr,
        wanted: Option<Ipv4Addr>,
    ) -> Vec<Output> {
        let none = Ipv4Addr::UNSPECIFIED;
        let wanted = wanted.map(|ip| DhcpOption::addresses(option::REQUESTED_ADDRESS, &[ip]));
        let repr = dhcpv4::Repr {
            is_request: true,
            hops: 0,
            xid: 7,
            secs: 0,
            broadcast: false,
            ciaddr,
            yiaddr: none,
            siaddr: none,
            giaddr: none,
            chaddr: mac(port),
            message_type,
            options: wanted.into_iter().collect(),
        };
        self.say(HostFrame { port, frame: frame(&repr).unwrap_or_default() })
    }

    fn say(&mut self, body: impl Into<Body>) -> Vec<Output> {
        self.hear(Input::Message { node: NODE, request: 1, body: body.into() })
    }

    fn hear(&mut self, input: Input) -> Vec<Output> {
        self.core.handle(self.now, input);
        std::iter::from_fn(|| self.core.poll_output()).collect()
    }
}

fn mac(port: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port])
}

/// The DHCP message of a frame for a host.
fn answer(output: &Output) -> Option<dhcpv4::Repr> {
    let Output::Send { body: Body::HostSend(sent), .. } = output else { return None };
    let packet = dhcpv4::Packet::new_checked(sent.frame.get(42..)?).ok()?;
    dhcpv4::Repr::parse(&packet).ok()
}

/// A client's message as a broadcast frame.
fn frame(repr: &dhcpv4::Repr) -> Option<Vec<u8>> {
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut message).ok()?;
    let stations = (repr.chaddr, MacAddr::BROADCAST);
    let ends = (repr.ciaddr.into(), Ipv4Addr::BROADCAST.into());
    frame::udp(stations, ends, (dhcpv4::CLIENT_PORT, dhcpv4::SERVER_PORT), &message).ok()
}

fn next(keeper: &mut dyn Keeper) -> Result<Answer, String> {
    loop {
        match keeper.poll() {
            Some(Answer::Trouble(why)) => return Err(why),
            Some(answer) => return Ok(answer),
            None => std::thread::sleep(Duration::from_micros(20)),
        }
    }
}
