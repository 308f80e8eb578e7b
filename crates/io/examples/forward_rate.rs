//! How fast one worker forwards 60-byte frames between two veth ports. As root:
//!
//!     cargo run --release -p plexus-io --example forward_rate [af_xdp|af_packet] [SECONDS]
//!
//! A generator on core 0 sends by AF_XDP into one pair; the forwarder on core 1 moves frames to
//! the other pair, whose far end is an ordinary kernel interface. All in a network namespace of
//! its own.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plexus_io::af_packet::AfPacketPort;
use plexus_io::af_xdp::{AfXdpPort, XdpOptions};
use plexus_io::{Batch, Link, Pool, Port};
use plexus_wire::Time;

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.is_ok_and(|s| s.success()), "ip {arguments}");
}

fn pin(core: usize) {
    // SAFETY: the set is integers; the kernel reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

fn open(kind: &str, device: &str, pool: &mut Pool) -> Box<dyn Port> {
    match kind {
        "af_packet" => Box::new(AfPacketPort::open(device, device, pool).unwrap()),
        _ => Box::new(AfXdpPort::open(device, device, XdpOptions::default(), pool).unwrap()),
    }
}

fn main() {
    let kind = std::env::args().nth(1).unwrap_or("af_xdp".into());
    let seconds = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(3);
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "needs root");
    for (a, b) in [("in0", "in1"), ("out0", "out1")] {
        ip(&format!("link add {a} type veth peer name {b}"));
        ip(&format!("link set {a} up"));
        ip(&format!("link set {b} up"));
    }
    static STOP: AtomicBool = AtomicBool::new(false);
    let generator = std::thread::spawn(|| {
        pin(0);
        let mut pool = Pool::new(8192, 2048).unwrap();
        let options = XdpOptions { fill: 64, ..XdpOptions::default() };
        let mut port = AfXdpPort::open("generator", "in0", options, &mut pool).unwrap();
        while port.maintain(Time::ZERO, &mut pool) == Link::Down {}
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5];
        frame.resize(60, 0);
        let mut batch = Batch::new();
        while !STOP.load(Ordering::Relaxed) {
            while !batch.is_full() {
                let Some(packet) = pool.alloc_from(&frame) else { break };
                batch.push(packet);
            }
            port.transmit(Time::ZERO, &mut pool, &mut batch);
        }
        batch.drain(..).for_each(|p| pool.free(p));
        port.close(&mut pool);
        port.stats().tx_packets
    });
    pin(1);
    let mut pool = Pool::new(8192, 2048).unwrap();
    let mut input = open(&kind, "in1", &mut pool);
    let mut output = open(&kind, "out0", &mut pool);
    while output.maintain(Time::ZERO, &mut pool) == Link::Down {}
    let mut batch = Batch::new();
    let mut calls = 0u64;
    // What arrived while the output was being opened is not part of the measurement.
    let before = input.stats();
    let start = Instant::now();
    let limit = Duration::from_secs(seconds);
    while start.elapsed() < limit {
        for _ in 0..64 {
            let now = Time::from_nanos(start.elapsed().as_nanos() as u64);
            calls += u64::from(input.receive(now, &mut pool, &mut batch) > 0);
            output.transmit(now, &mut pool, &mut batch);
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    let (rx, tx) = (input.stats(), output.stats());
    STOP.store(true, Ordering::Relaxed);
    let generated = generator.join().unwrap();
    batch.drain(..).for_each(|p| pool.free(p));
    input.close(&mut pool);
    output.close(&mut pool);
    assert_eq!(pool.available(), pool.frames());
    let mpps = |n: u64| n as f64 / elapsed / 1e6;
    let mean = rx.rx_packets as f64 / calls.max(1) as f64;
    println!(
        "{kind}: generated {:.2} Mpps, received {:.2}, forwarded {:.2}, overflow {:.2}; {mean:.0} \
         packets a batch",
        mpps(generated),
        mpps(rx.rx_packets - before.rx_packets),
        mpps(tx.tx_packets),
        mpps(rx.rx_overflow - before.rx_overflow),
    );
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let sink = table.lines().find(|l| l.trim_start().starts_with("out1:")).unwrap_or("");
    println!("kernel's count at the far end: {}", sink.split_whitespace().nth(2).unwrap_or("?"));
}
