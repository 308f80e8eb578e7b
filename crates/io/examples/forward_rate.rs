//! How fast one worker forwards 60-byte frames between two veth ports. As root:
//!
//!     cargo run --release -p plexus-io --example forward_rate [af_xdp|af_packet] [BATCHES]
//!
//! One thread alternates: it sends a batch by AF_XDP into one pair, then forwards the arrived
//! frames to the other pair, whose far end is an ordinary kernel interface. The processor time of
//! both halves is measured separately, so that the result also holds on a busy machine: it is what
//! each half would do on a core of its own. Everything is in a separate network namespace.

use std::process::Command;
use std::time::Duration;

use plexus_io::af_packet::AfPacketPort;
use plexus_io::af_xdp::{AfXdpPort, XdpOptions};
use plexus_io::{BATCH, Batch, Link, Pool, Port};
use plexus_wire::Time;
use rustix::time::{ClockId, clock_gettime};

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.is_ok_and(|s| s.success()), "ip {arguments}");
}

/// Processor time that this thread has used.
fn used() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

fn open(kind: &str, device: &str, pool: &mut Pool) -> Box<dyn Port> {
    match kind {
        "af_packet" => Box::new(AfPacketPort::open(device, device, pool).unwrap()),
        _ => Box::new(AfXdpPort::open(device, device, XdpOptions::default(), pool).unwrap()),
    }
}

fn main() {
    let kind = std::env::args().nth(1).unwrap_or("af_xdp".into());
    let rounds = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(20_000);
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "needs root");
    for (a, b) in [("in0", "in1"), ("out0", "out1")] {
        ip(&format!("link add {a} type veth peer name {b}"));
        ip(&format!("link set {a} up"));
        ip(&format!("link set {b} up"));
    }
    let mut outside = Pool::new(8192, 2048).unwrap();
    let options = XdpOptions { fill: 64, ..XdpOptions::default() };
    let mut generator = AfXdpPort::open("generator", "in0", options, &mut outside).unwrap();
    let mut pool = Pool::new(8192, 2048).unwrap();
    let mut input = open(&kind, "in1", &mut pool);
    let mut output = open(&kind, "out0", &mut pool);
    while generator.maintain(Time::ZERO, &mut outside) == Link::Down
        || input.maintain(Time::ZERO, &mut pool) == Link::Down
        || output.maintain(Time::ZERO, &mut pool) == Link::Down
    {}
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5];
    frame.resize(60, 0);
    let (mut generating, mut forwarding) = (Duration::ZERO, Duration::ZERO);
    let (mut made, mut batch) = (Batch::new(), Batch::new());
    for _ in 0..rounds {
        let start = used();
        while made.len() < BATCH {
            let Some(packet) = outside.alloc_from(&frame) else { break };
            made.push(packet);
        }
        generator.transmit(Time::ZERO, &mut outside, &mut made);
        let middle = used();
        input.receive(Time::ZERO, &mut pool, &mut batch);
        output.transmit(Time::ZERO, &mut pool, &mut batch);
        generating += middle - start;
        forwarding += used() - middle;
    }
    let (sent, rx, tx) = (generator.stats().tx_packets, input.stats(), output.stats());
    for p in made.drain(..) {
        outside.free(p);
    }
    generator.close(&mut outside);
    batch.drain(..).for_each(|p| pool.free(p));
    input.close(&mut pool);
    output.close(&mut pool);
    assert_eq!(pool.available(), pool.frames());
    let mpps = |n: u64, time: Duration| n as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{kind}: {:.2} Mpps generated, {:.2} Mpps forwarded, each by a core of its own; of {sent} \
         packets {} were received, {} overflowed, {} were forwarded",
        mpps(sent, generating),
        mpps(tx.tx_packets, forwarding),
        rx.rx_packets,
        rx.rx_overflow,
        tx.tx_packets,
    );
}
