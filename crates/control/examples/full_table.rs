//! Loads a full table of routes, and reports its cost in CPU time and memory.
//!
//! `cargo run --release -p plexus-control --example full_table -- PREFIXES`, where the file has one
//! prefix on each line.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Instant;

use plexus_control::router::{
    Input, InterfaceFacts, InterfaceId, Limits, NextHop, Output, Route, Router, Source,
};
use plexus_wire::{MacAddr, Prefix, Time};

/// Gateways on each of two interfaces; routes spread over them and over pairs of them.
const GATEWAYS: u32 = 100;

fn main() -> ExitCode {
    let path = std::env::args().nth(1);
    let text = path.map(|path| std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}")));
    let text = match text {
        Some(Ok(text)) => text,
        Some(Err(error)) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        None => {
            eprintln!("usage: full_table PREFIXES (a file with a prefix on each line)");
            return ExitCode::FAILURE;
        }
    };
    let prefixes: Vec<Prefix> = text.lines().filter_map(|line| line.parse().ok()).collect();
    drop(text);
    run(&prefixes);
    ExitCode::SUCCESS
}

fn facts(n: u8) -> InterfaceFacts {
    let v4 = IpAddr::V4(Ipv4Addr::new(10, n, 0, 1));
    let v6 = format!("2001:db8:{n}::1").parse().expect("it is an address");
    InterfaceFacts {
        name: format!("v{n}"),
        mac: MacAddr([2, 0, 0, 0, 0, n]),
        mtu: 1500,
        addresses: vec![(v4, 16), (v6, 64)],
        kernel: true,
        is_told: false,
    }
}

fn gateway(n: u32) -> NextHop {
    let interface = InterfaceId(1 + (n % 2) as u16);
    let addr = Ipv4Addr::from(0x0A00_0002 + (u32::from(interface.0) << 16) + n / 2 % GATEWAYS);
    NextHop { interface, gateway: Some(addr.into()), on_link: false, weight: 1 }
}

fn route(n: u32, prefix: &Prefix) -> Route {
    // Some 2,000 sets of next hops; Knuth's multiplicative hash spreads the prefixes.
    let at = n.wrapping_mul(0x9E37_79B1) >> 21;
    let mut hops = vec![gateway(at)];
    if at.is_multiple_of(4) {
        hops.push(gateway(at / 4 + 1));
    }
    if prefix.addr().is_ipv6() {
        for hop in &mut hops {
            let text = format!("2001:db8:{}::{:x}", hop.interface.0, 2 + at % GATEWAYS);
            hop.gateway = text.parse().ok();
        }
    }
    Route::Via(hops)
}

/// Resident memory, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}

struct Counted {
    router: Router,
    outputs: BTreeMap<&'static str, u64>,
}

impl Counted {
    fn input(&mut self, input: Input) {
        self.router.handle(Time::from_secs(1), input);
        while let Some(output) = self.router.poll_output() {
            let kind = match output {
                Output::Fib { .. } => "fib",
                Output::Group { .. } => "group",
                _ => "other",
            };
            *self.outputs.entry(kind).or_default() += 1;
        }
    }

    fn set(&mut self, prefix: Prefix, route: Option<Route>) {
        self.input(Input::Route { source: Source::Kernel, prefix, metric: 20, route });
    }

    fn timed(&mut self, what: &str, count: usize, work: impl FnOnce(&mut Counted)) {
        let before = Instant::now();
        work(self);
        let spent = before.elapsed();
        let each_ns = spent.as_nanos() / count.max(1) as u128;
        let outputs = std::mem::take(&mut self.outputs);
        println!("{what:<44} {:>8.3} s {each_ns:>7} ns each  {outputs:?}", spent.as_secs_f64());
    }
}

fn run(prefixes: &[Prefix]) {
    let router = Router::new(Limits::default(), [1; 32]);
    let mut counted = Counted { router, outputs: BTreeMap::new() };
    for n in 1..=2 {
        counted.input(Input::Interface { id: InterfaceId(n), facts: Some(facts(n as u8)) });
    }
    let count = prefixes.len();
    let before = resident();
    let all = |counted: &mut Counted| {
        for (n, prefix) in prefixes.iter().enumerate() {
            counted.set(*prefix, Some(route(n as u32, prefix)));
        }
    };
    counted.timed("take over", count, |counted| {
        counted.input(Input::Begin(Source::Kernel));
        all(counted);
        counted.input(Input::End(Source::Kernel));
    });
    let bytes = resident().saturating_sub(before);
    println!("{count} prefixes, {:.1} MB, {} B each", bytes as f64 / 1e6, bytes / count.max(1));
    println!("{:?}", counted.router.sizes());
    counted.timed("resynchronise, nothing changed", count, |counted| {
        counted.input(Input::Begin(Source::Kernel));
        all(counted);
        counted.input(Input::End(Source::Kernel));
    });
    let flapping: Vec<(u32, Prefix)> =
        prefixes.iter().enumerate().step_by(101).map(|(n, p)| (n as u32, *p)).collect();
    counted.timed("withdraw and announce again", flapping.len(), |counted| {
        for (n, prefix) in &flapping {
            counted.set(*prefix, None);
            counted.set(*prefix, Some(route(*n, prefix)));
        }
    });
    counted.timed("other next hops", flapping.len(), |counted| {
        for (n, prefix) in &flapping {
            counted.set(*prefix, Some(route(n + 1, prefix)));
        }
    });
    counted.timed("default route there and away", 1000, |counted| {
        for n in 0..500 {
            let prefix = Prefix::around(Ipv4Addr::UNSPECIFIED.into(), 0).expect("length 0");
            counted.set(prefix, Some(route(n, &prefix)));
            counted.set(prefix, None);
        }
    });
    counted.timed("one of two interfaces down", 1, |counted| {
        counted.input(Input::Interface { id: InterfaceId(1), facts: None });
    });
    counted.timed("and up", 1, |counted| {
        counted.input(Input::Interface { id: InterfaceId(1), facts: Some(facts(1)) });
    });
    counted.timed("withdraw everything", count, |counted| {
        counted.input(Input::Begin(Source::Kernel));
        counted.input(Input::End(Source::Kernel));
    });
}
