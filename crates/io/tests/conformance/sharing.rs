//! AF_XDP ports of one worker share its memory: a frame goes from port to port uncopied.

use plexus_io::af_packet::AfPacketPort;
use plexus_io::af_xdp::{AfXdpPort, XdpOptions};
use plexus_io::{Batch, Link, Packet, Pool, Port};
use plexus_wire::Time;

use crate::benches::Station;
use crate::net;
use crate::suite::{frame, gather, wait};

fn open(device: &str, pool: &mut Pool) -> AfXdpPort {
    let mut port = AfXdpPort::open(device, device, XdpOptions::default(), pool).unwrap();
    wait(|| port.maintain(Time::ZERO, pool) == Link::Up, "the link to come up");
    port
}

/// Sends frames from one station to the other through two ports; returns the numbers of the frames
/// in which they arrived, which are those in which they left: packets own their frames.
fn forward(
    pool: &mut Pool,
    (from, input): (&mut Station, &mut AfXdpPort),
    (to, output): (&mut Station, &mut AfXdpPort),
    count: usize,
) -> Vec<usize> {
    let frames: Vec<_> = (0..count).map(|i| frame(60 + i, i as u8)).collect();
    from.send(&frames);
    let mut numbers = Vec::new();
    let mut batch = Batch::new();
    let got = gather(count, "frames to be forwarded", || {
        input.receive(Time::ZERO, pool, &mut batch);
        numbers.extend(batch.iter().map(Packet::frame));
        output.transmit(Time::ZERO, pool, &mut batch);
        to.take()
    });
    assert_eq!(got, frames);
    numbers
}

#[test]
fn two_ports_of_a_worker_share_its_frames() {
    net::in_quiet_namespace("sharing", || {
        net::veth("a0", "a1");
        net::veth("b0", "b1");
        let (mut left, mut right) = (Station::on("a1"), Station::on("b1"));
        left.wait();
        right.wait();
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut a = open("a0", &mut pool);
        let mut b = open("b0", &mut pool);
        // Far more than there are frames, so that each is reused many times, in both directions.
        for _ in 0..20 {
            let there = (&mut left, &mut a);
            let numbers = forward(&mut pool, there, (&mut right, &mut b), 100);
            assert!(numbers.iter().all(|&n| n < 512));
            forward(&mut pool, (&mut right, &mut b), (&mut left, &mut a), 100);
        }
        assert_eq!(a.stats().rx_overflow + b.stats().rx_overflow, 0);
        // The first port registered the memory; the second lives on without it, and a third
        // can still join.
        a.close(&mut pool);
        let mut a = open("a0", &mut pool);
        forward(&mut pool, (&mut right, &mut b), (&mut left, &mut a), 50);
        a.close(&mut pool);
        b.close(&mut pool);
        assert_eq!(pool.available(), pool.frames());
        // No socket is bound any more: the memory is registered anew.
        let mut a = open("a0", &mut pool);
        let mut b = open("b0", &mut pool);
        forward(&mut pool, (&mut left, &mut a), (&mut right, &mut b), 50);
        a.close(&mut pool);
        b.close(&mut pool);
        assert_eq!(pool.available(), pool.frames());
    });
}

#[test]
fn a_device_that_vanishes_leaves_the_other_ports_their_frames() {
    net::in_quiet_namespace("vanishing", || {
        net::veth("a0", "a1");
        net::veth("b0", "b1");
        let mut right = Station::on("b1");
        right.wait();
        let mut pool = Pool::new(512, 2048).unwrap();
        let mut a = open("a0", &mut pool);
        let mut b = open("b0", &mut pool);
        net::ip("link del a0");
        wait(|| a.maintain(Time::ZERO, &mut pool) == Link::Down, "the link to go down");
        right.send(&[frame(60, 1)]);
        let mut batch = Batch::new();
        wait(|| b.receive(Time::ZERO, &mut pool, &mut batch) == 1, "a frame by the other port");
        batch.drain(..).for_each(|p| pool.free(p));
        b.close(&mut pool);
        assert_eq!(pool.available(), pool.frames(), "the vanished port held no frames back");
        a.close(&mut pool);
    });
}

#[test]
fn a_device_that_gets_more_queues_is_served_whole() {
    net::in_quiet_namespace("more_queues", || {
        net::ip("link add near numrxqueues 2 type veth peer name far numtxqueues 2");
        ["near", "far"].iter().for_each(|device| drop(net::ip(&format!("link set {device} up"))));
        net::command("ethtool", "-L near rx 1");
        let mut pool = Pool::new(4096, 2048).unwrap();
        let mut port = AfXdpPort::open("near", "near", XdpOptions::default(), &mut pool).unwrap();
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up, "the link to come up");
        net::command("ethtool", "-L near rx 2");
        let later = Time::from_secs(1);
        assert_eq!(port.maintain(later, &mut pool), Link::Down, "users are to be told");
        wait(|| port.maintain(later, &mut pool) == Link::Up, "the link to come back");
        assert_eq!(port.queues(), 2);
        port.close(&mut pool);
        assert_eq!(pool.available(), pool.frames());
    });
}

#[test]
fn a_packet_port_leaves_a_device_that_has_another_name() {
    net::in_quiet_namespace("renamed", || {
        net::veth("near", "far");
        let mut far = Station::on("far");
        far.wait();
        let mut pool = Pool::new(64, 2048).unwrap();
        let mut port = AfPacketPort::open("near", "near", &pool).unwrap();
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up, "the link to come up");
        net::ip("link set near down");
        net::ip("link set near name other");
        net::ip("link set other up");
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Down, "the link to go down");
        far.wait();
        far.send(&[frame(60, 1)]);
        let mut other = AfPacketPort::open("other", "other", &pool).unwrap();
        far.send(&[frame(60, 2)]);
        let mut batch = Batch::new();
        wait(|| other.receive(Time::ZERO, &mut pool, &mut batch) > 0, "a frame");
        batch.drain(..).for_each(|packet| pool.free(packet));
        assert_eq!(port.receive(Time::ZERO, &mut pool, &mut batch), 0);
        other.close(&mut pool);
        net::ip("link set other down");
        net::ip("link set other name near");
        net::ip("link set near up");
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up, "the link to come back");
        far.wait();
        far.send(&[frame(60, 3)]);
        wait(|| port.receive(Time::ZERO, &mut pool, &mut batch) > 0, "a frame");
        assert_eq!(pool.data(&batch[0]), frame(60, 3));
        batch.drain(..).for_each(|packet| pool.free(packet));
        port.close(&mut pool);
    });
}
