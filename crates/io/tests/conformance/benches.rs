//! The back-ends under test, each with the far end of its cable.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use plexus_io::af_packet::AfPacketPort;
use plexus_io::af_xdp::{AfXdpPort, XdpMode, XdpOptions};
use plexus_io::memory::{self, Cable};
use plexus_io::pcap::{PcapOptions, PcapPort, Reader};
use plexus_io::tap::TapPort;
use plexus_io::udp::{UdpEnds, UdpPort};
use plexus_io::{Batch, Link, Packet, Pool, Port};
use plexus_wire::Time;

use crate::net;

/// A back-end under test.
pub(crate) trait Bench {
    /// Bytes per frame of the pools it is to be tried with.
    fn frame_size(&self) -> usize {
        2048
    }

    /// Opens a port on the device.
    fn open(&mut self, pool: &mut Pool) -> Box<dyn Port>;

    /// Has frames arrive at the port; `pool` is the port's.
    fn arrive(&mut self, pool: &mut Pool, frames: &[Vec<u8>]);

    /// Takes what the port has sent so far.
    fn sent(&mut self, pool: &mut Pool) -> Vec<Vec<u8>>;

    /// Takes the device away, or returns false if it cannot go.
    fn remove_device(&mut self) -> bool {
        false
    }

    /// Brings the device back.
    fn restore_device(&mut self) {}

    /// Whether it notices that a device that disappeared and returned between two calls was
    /// replaced.
    fn notices_replacement(&self) -> bool {
        true
    }
}

/// Takes all there is at a port within `limit` polls, waiting for the first.
pub(crate) fn drain(port: &mut dyn Port, pool: &mut Pool, now: Time) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut batch = Batch::new();
    while port.receive(now, pool, &mut batch) > 0 {
        frames.extend(batch.drain(..).map(|packet| bytes_of(pool, packet)));
    }
    frames
}

fn bytes_of(pool: &mut Pool, packet: Packet) -> Vec<u8> {
    let bytes = pool.data(&packet).to_vec();
    pool.free(packet);
    bytes
}

/// A cable in memory.
pub(crate) struct Memory {
    cable: Option<Cable>,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory { cable: None }
    }
}

impl Bench for Memory {
    fn open(&mut self, _pool: &mut Pool) -> Box<dyn Port> {
        let (port, cable) = memory::port("memory", 256);
        self.cable = Some(cable);
        Box::new(port)
    }

    fn arrive(&mut self, pool: &mut Pool, frames: &[Vec<u8>]) {
        let cable = self.cable.as_mut().unwrap();
        for bytes in frames {
            let packet = pool.alloc_from(bytes).unwrap();
            if let Err(rtrb::PushError::Full(packet)) = cable.to_port.push(packet) {
                pool.free(packet);
            }
        }
    }

    fn sent(&mut self, pool: &mut Pool) -> Vec<Vec<u8>> {
        let cable = self.cable.as_mut().unwrap();
        let packets = std::iter::from_fn(|| cable.from_port.pop().ok());
        packets.map(|packet| bytes_of(pool, packet)).collect()
    }
}

/// A station at the far end of a device: a packet socket on the peer.
pub(crate) struct Station {
    pub(crate) port: AfPacketPort,
    pub(crate) pool: Pool,
}

impl Station {
    pub(crate) fn on(device: &str) -> Station {
        let pool = Pool::new(512, plexus_io::SUPER_FRAME).unwrap();
        Station { port: AfPacketPort::open("station", device, &pool).unwrap(), pool }
    }

    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) {
        let mut batch = Batch::new();
        for chunk in frames.chunks(plexus_io::BATCH) {
            for bytes in chunk {
                batch.push(self.pool.alloc_from(bytes).unwrap());
            }
            while !batch.is_empty() {
                self.port.transmit(Time::ZERO, &mut self.pool, &mut batch);
            }
        }
        assert_eq!(self.port.stats().tx_rejected, 0);
    }

    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        drain(&mut self.port, &mut self.pool, Time::ZERO)
    }

    /// Waits for the device to have a carrier.
    pub(crate) fn wait(&mut self) {
        while self.port.maintain(Time::ZERO, &mut self.pool) == Link::Down {
            std::thread::yield_now();
        }
    }
}

/// A port on one side of a veth pair, with a station on the other.
pub(crate) struct Veth {
    frame_size: usize,
    open: fn(&mut Pool) -> Box<dyn Port>,
    station: Option<Station>,
}

impl Veth {
    /// A packet socket.
    pub(crate) fn af_packet(frame_size: usize) -> Veth {
        let open =
            |pool: &mut Pool| Box::new(AfPacketPort::open("port", "near", pool).unwrap()) as _;
        Veth { frame_size, open, station: None }
    }

    /// AF_XDP in the driver.
    pub(crate) fn af_xdp_native(frame_size: usize) -> Veth {
        Veth { frame_size, open: |pool| af_xdp(pool, XdpMode::Native), station: None }
    }

    /// AF_XDP before the stack.
    pub(crate) fn af_xdp_generic() -> Veth {
        Veth { frame_size: 2048, open: |pool| af_xdp(pool, XdpMode::Generic), station: None }
    }
}

fn af_xdp(pool: &mut Pool, mode: XdpMode) -> Box<dyn Port> {
    let options = XdpOptions { mode, ..XdpOptions::default() };
    let port = AfXdpPort::open("port", "near", options, pool).unwrap();
    assert_eq!(port.is_native(), mode == XdpMode::Native);
    Box::new(port)
}

impl Bench for Veth {
    fn frame_size(&self) -> usize {
        self.frame_size
    }

    fn open(&mut self, pool: &mut Pool) -> Box<dyn Port> {
        if self.station.is_none() {
            self.restore_device();
        }
        (self.open)(pool)
    }

    fn arrive(&mut self, _pool: &mut Pool, frames: &[Vec<u8>]) {
        self.station.as_mut().unwrap().send(frames);
    }

    fn sent(&mut self, _pool: &mut Pool) -> Vec<Vec<u8>> {
        self.station.as_mut().unwrap().take()
    }

    fn remove_device(&mut self) -> bool {
        net::ip("link del near");
        true
    }

    fn restore_device(&mut self) {
        net::veth("near", "far");
        let mut station = Station::on("far");
        station.wait();
        self.station = Some(station);
    }
}

/// A TAP device, with a packet socket on its interface.
pub(crate) struct Tap {
    frame_size: usize,
    station: Option<Station>,
}

impl Tap {
    pub(crate) fn new(frame_size: usize) -> Tap {
        Tap { frame_size, station: None }
    }
}

impl Bench for Tap {
    fn frame_size(&self) -> usize {
        self.frame_size
    }

    fn open(&mut self, pool: &mut Pool) -> Box<dyn Port> {
        self.station = None;
        let port = TapPort::open("port", "near", pool).unwrap();
        self.station = Some(Station::on("near"));
        Box::new(port)
    }

    fn arrive(&mut self, _pool: &mut Pool, frames: &[Vec<u8>]) {
        let station = self.station.as_mut().unwrap();
        station.wait();
        station.send(frames);
    }

    fn sent(&mut self, _pool: &mut Pool) -> Vec<Vec<u8>> {
        self.station.as_mut().unwrap().take()
    }

    fn remove_device(&mut self) -> bool {
        net::ip("link del near");
        true
    }

    fn restore_device(&mut self) {
        net::ip("tuntap add mode tap vnet_hdr name near");
        net::ip("link set near up");
        self.station = Some(Station::on("near"));
    }
}

/// A tunnel to a socket, both ends on the loopback device of one namespace.
pub(crate) struct Tunnel {
    ends: UdpEnds,
    station: Option<UdpSocket>,
}

impl Tunnel {
    pub(crate) fn v4() -> Tunnel {
        Tunnel::between("192.0.2.1:18773", "192.0.2.2:18773")
    }

    pub(crate) fn v6() -> Tunnel {
        Tunnel::between("[2001:db8::1]:18773", "[2001:db8::2]:18774")
    }

    fn between(local: &str, peer: &str) -> Tunnel {
        let ends = UdpEnds { local: local.parse().unwrap(), peer: peer.parse().unwrap() };
        Tunnel { ends, station: None }
    }

    fn address(&self, what: &str, end: std::net::SocketAddr) {
        let nodad = if end.is_ipv6() { " nodad" } else { "" };
        net::ip(&format!("address {what} {} dev lo{nodad}", end.ip()));
        // The kernel makes an IPv6 address local a little later; until then it drops packets to it
        // as not for this machine.
        let is_local = || {
            let mut ip = std::process::Command::new("ip");
            let output = ip.args(["route", "get", &end.ip().to_string()]).output().unwrap();
            output.stdout.starts_with(b"local")
        };
        while what == "add" && !is_local() {
            std::thread::yield_now();
        }
    }
}

/// A socket that holds a hundred full-size datagrams.
pub(crate) fn roomy_socket(address: std::net::SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let bytes: libc::c_int = 8 << 20;
    // SAFETY: the kernel reads a live integer of the size that is said.
    let set = unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const bytes).cast(), size)
    };
    assert_eq!(set, 0);
    socket
}

impl Bench for Tunnel {
    fn open(&mut self, pool: &mut Pool) -> Box<dyn Port> {
        if self.station.is_none() {
            let _ = std::fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0");
            net::ip("link set lo mtu 1600 up");
            self.address("add", self.ends.local);
            self.address("add", self.ends.peer);
            self.station = Some(roomy_socket(self.ends.peer));
        }
        Box::new(UdpPort::open("port", self.ends, pool).unwrap())
    }

    fn arrive(&mut self, _pool: &mut Pool, frames: &[Vec<u8>]) {
        let station = self.station.as_ref().unwrap();
        for frame in frames {
            assert_eq!(station.send_to(frame, self.ends.local).unwrap(), frame.len());
        }
    }

    fn sent(&mut self, _pool: &mut Pool) -> Vec<Vec<u8>> {
        let station = self.station.as_ref().unwrap();
        let mut buffer = [0; 2048];
        let mut frames = Vec::new();
        while let Ok((len, from)) = station.recv_from(&mut buffer) {
            assert_eq!(from.ip(), self.ends.local.ip());
            frames.push(buffer[..len].to_vec());
        }
        frames
    }

    fn remove_device(&mut self) -> bool {
        self.address("del", self.ends.local);
        true
    }

    fn restore_device(&mut self) {
        self.address("add", self.ends.local);
    }

    fn notices_replacement(&self) -> bool {
        false
    }
}

/// Any bench with its ports wrapped.
pub(crate) struct Wrapped<B> {
    pub(crate) inner: B,
    pub(crate) wrap: fn(Box<dyn Port>) -> Box<dyn Port>,
}

impl<B: Bench> Bench for Wrapped<B> {
    fn frame_size(&self) -> usize {
        self.inner.frame_size()
    }

    fn open(&mut self, pool: &mut Pool) -> Box<dyn Port> {
        (self.wrap)(self.inner.open(pool))
    }

    fn arrive(&mut self, pool: &mut Pool, frames: &[Vec<u8>]) {
        self.inner.arrive(pool, frames);
    }

    fn sent(&mut self, pool: &mut Pool) -> Vec<Vec<u8>> {
        self.inner.sent(pool)
    }

    fn remove_device(&mut self) -> bool {
        self.inner.remove_device()
    }

    fn restore_device(&mut self) {
        self.inner.restore_device();
    }

    fn notices_replacement(&self) -> bool {
        self.inner.notices_replacement()
    }
}

/// A capture file that is written and read again. Nothing arrives by it while it is open.
pub(crate) struct Pcap {
    pub(crate) path: PathBuf,
    seen: usize,
}

impl Pcap {
    pub(crate) fn new() -> Pcap {
        let name = format!("plexus-conformance-{}.pcapng", std::process::id());
        Pcap { path: std::env::temp_dir().join(name), seen: 0 }
    }
}

impl Drop for Pcap {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Bench for Pcap {
    fn frame_size(&self) -> usize {
        plexus_io::SUPER_FRAME
    }

    fn open(&mut self, _pool: &mut Pool) -> Box<dyn Port> {
        self.seen = 0;
        let output = Some(self.path.clone());
        Box::new(PcapPort::open("port", PcapOptions { output, ..PcapOptions::default() }).unwrap())
    }

    fn arrive(&mut self, _pool: &mut Pool, frames: &[Vec<u8>]) {
        assert!(frames.is_empty(), "nothing arrives by a file that is being written");
    }

    fn sent(&mut self, _pool: &mut Pool) -> Vec<Vec<u8>> {
        let file = std::fs::read(&self.path).unwrap();
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut frames = Vec::new();
        let mut bytes = Vec::new();
        // Unflushed data ends in the middle of a record.
        while let Ok(Some(_)) = reader.next(&mut bytes) {
            frames.push(bytes.clone());
        }
        let new = frames.split_off(self.seen.min(frames.len()));
        self.seen += new.len();
        new
    }
}
