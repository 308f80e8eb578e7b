//! What a segment of simulated TCP costs: two endpoints that talk to each other without a network.
//!
//! `cargo run --release -p plexus-sim --example tcp_cost [SEGMENTS] [LOSS]` prints nanoseconds per
//! data segment, sending and receiving and half an acknowledgement each way included; `LOSS` is one
//! in so many segments, 0 for none. Under callgrind, `--toggle-collect='*exchange*'` leaves the
//! rest out.

use std::time::Instant;

use plexus_sim::tcp::{Congestion, Tcp, TcpConfig};
use plexus_wire::Time;

/// Runs until `segments` data segments were sent; a round trip is 1 ms. Returns how many were lost.
#[inline(never)]
fn exchange(client: &mut Tcp, server: &mut Tcp, segments: u64, loss: u64) -> u64 {
    let (mut ms, mut sent, mut lost) = (0, 0_u64, 0);
    let mut there = Vec::with_capacity(1 << 12);
    while sent < segments {
        ms += 1;
        let now = Time::from_millis(ms);
        while let Some(segment) = client.poll(now) {
            sent += u64::from(segment.len > 0);
            if loss > 0 && sent % loss == loss - 1 {
                lost += 1;
            } else {
                there.push(segment);
            }
        }
        for segment in there.drain(..) {
            server.handle(now, &segment);
            while let Some(answer) = server.poll(now) {
                client.handle(now, &answer);
            }
        }
    }
    lost
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse().expect("a number"));
    let (segments, loss) = (arguments.next().unwrap_or(3_000_000), arguments.next().unwrap_or(0));
    for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp] {
        // A window of 700 segments.
        let config = TcpConfig { congestion, receive_buffer: 1 << 20, ..TcpConfig::default() };
        let (mut client, mut server) = (Tcp::connect(config), Tcp::listen(config));
        client.write_unlimited();
        let begun = Instant::now();
        let lost = exchange(&mut client, &mut server, segments, loss);
        let ns = begun.elapsed().as_nanos() as f64 / segments as f64;
        println!(
            "{congestion:?}: {ns:.0} ns per segment, {lost} lost, {} bytes delivered",
            server.delivered()
        );
    }
}
