//! How long it takes to write the kernel's table, and to read it back.
//!
//! `cargo run --release -p plexus-io --example kernel_table -- PREFIXES` (root): a prefix on each
//! line, into a network namespace that ends with the run.

use std::net::IpAddr;
use std::time::Instant;

use plexus_io::namespace::Namespaces;
use plexus_io::netlink::{
    Hop, InterfaceSpec, KernelEvent, KernelRoute, RouteChange, RouteKey, RouteWriter, TABLE_MAIN,
    Watcher, ensure_interface,
};
use plexus_wire::MacAddr;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).ok_or("usage: kernel_table PREFIXES")?;
    let text = std::fs::read_to_string(path)?;
    Namespaces::create(|| Ok(()))?.run(|| measure(&text))?
}

fn measure(text: &str) -> Result<(), Failure> {
    let addresses = [("10.255.0.1".parse()?, 24), ("fd00::1".parse()?, 64)];
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let spec = InterfaceSpec {
        name: "r",
        peer: "r.px",
        mac: Some(mac),
        mtu: 1500,
        addresses: Some(&addresses),
    };
    let device = ensure_interface(&spec)?.index;
    let mut changes = Vec::new();
    for line in text.lines() {
        let (address, len) = line.split_once('/').ok_or("a line without a prefix")?;
        let address: IpAddr = address.parse()?;
        let gateway = if address.is_ipv4() { "10.255.0.2" } else { "fd00::2" };
        let hop = Hop { device, gateway: Some(gateway.parse()?), weight: 1, on_link: false };
        let key = RouteKey { prefix: (address, len.parse()?), table: TABLE_MAIN, metric: 20 };
        let route = Some(KernelRoute::Via(vec![hop]));
        changes.push(RouteChange { key, protocol: 186, route });
    }
    let mut idle = Watcher::open()?;
    let slab = slab_kb()?;
    let start = Instant::now();
    let failures = RouteWriter::open()?.write(&changes)?;
    println!("written: {} in {:.2?}, {} refused", changes.len(), start.elapsed(), failures.len());
    for failure in failures.iter().take(5) {
        println!("refused: {:?}: {}", changes[failure.index].key.prefix, failure.error);
    }
    println!("the kernel's slab grew by {} MB", (slab_kb()? - slab) / 1000);
    take_over("taken over by a new watcher", &mut Watcher::open()?)?;
    take_over("taken over by one that slept meanwhile", &mut idle)?;
    for change in &mut changes {
        change.route = None;
    }
    let start = Instant::now();
    let refused = RouteWriter::open()?.write(&changes)?.len();
    println!("removed: {} in {:.2?}, {refused} refused", changes.len(), start.elapsed());
    Ok(())
}

fn take_over(what: &str, watcher: &mut Watcher) -> Result<(), Failure> {
    let (start, mut longest) = (Instant::now(), 0.0_f64);
    let (mut routes, mut resyncs, mut events) = (0, 0, Vec::new());
    loop {
        let turn = Instant::now();
        let more = watcher.next_events(&mut events)?;
        longest = longest.max(turn.elapsed().as_secs_f64());
        for event in events.drain(..) {
            routes += usize::from(matches!(event, KernelEvent::Route { .. }));
            resyncs += usize::from(event == KernelEvent::ResyncEnd);
        }
        if !more {
            break;
        }
    }
    let took = start.elapsed();
    println!("{what}: {routes} told in {took:.2?}, {resyncs} resyncs; longest call {longest:.4} s");
    Ok(())
}

/// What the kernel's own objects take, in kB (proc(5)).
fn slab_kb() -> Result<i64, Failure> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    let number = line.and_then(|line| line.split_whitespace().next()).ok_or("no slab")?;
    Ok(number.parse()?)
}
