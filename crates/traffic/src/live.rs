//! A generator or a meter on a device of this machine, from its opening to its end, through a port
//! or by a program in the kernel ([`Via`]). `plexus gen` and `plexus meter` call it.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_config::Backend;
use plexus_io::spec::Opened;
use plexus_io::{Link, Pool, Presence};
use plexus_wire::Time;
use rustix::io::Errno;
use serde::Serialize;

use crate::drive::{self, Told, Until, Watch, now};
use crate::generator::{Generator, GeneratorConfig, Sent};
use crate::meter::{Arrived, Meter, MeterConfig};
use crate::sizes::FCS;
use crate::stats::{FlowStats, Summary};
use crate::via::{self, Use, Via};
use crate::xdp::{XdpCounted, XdpGenerator, XdpMeter};

/// How many flows are listed of those that a meter has seen.
const LISTED: usize = 1_000;
/// How often the counters of a program in the kernel are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// News for a person meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something about the device, in words that follow its name.
    Note(String),
    /// So many packets and bytes have passed; from the beginning on, every 100 ms or more often.
    Passed {
        /// Now.
        at: Time,
        /// Packets.
        packets: u64,
        /// Bytes with the FCS of each.
        bytes: u64,
    },
}

/// The result of a generator.
#[derive(Clone, Debug, Serialize)]
pub struct Sending {
    /// The device.
    pub device: String,
    /// The back-end in use.
    pub backend: String,
    /// The seed of everything random.
    pub seed: u64,
    /// How many flows.
    pub flows: u32,
    /// Frame sizes, as they are written.
    pub size: String,
    /// How long it sent.
    pub seconds: f64,
    /// Its counters.
    #[serde(flatten)]
    pub sent: Sent,
    /// Packets that the device had no room for, or cannot send.
    pub rejected: u64,
    /// Packets a second.
    pub packets_per_s: f64,
    /// Bits a second of frames with their FCS.
    pub bits_per_s: f64,
    /// The device counts none of the packets that a program in the kernel gave it.
    #[serde(skip)]
    pub is_vanished: bool,
    /// The device was removed, renamed, or moved to another network namespace meanwhile.
    #[serde(skip)]
    pub is_device_gone: bool,
}

impl Sending {
    fn new(
        device: &str,
        backend: &str,
        config: &GeneratorConfig,
        (sent, rejected): (Sent, u64),
        elapsed: Duration,
    ) -> Sending {
        let seconds = elapsed.as_secs_f64();
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        Sending {
            device: device.into(),
            backend: backend.into(),
            seed: config.seed,
            flows: config.flows.count,
            size: config.sizes.to_string(),
            seconds,
            sent,
            rejected,
            packets_per_s: rate(sent.packets),
            bits_per_s: rate(sent.bytes * 8),
            is_vanished: false,
            is_device_gone: false,
        }
    }
}

/// The result of a meter.
#[derive(Clone, Debug, Serialize)]
pub struct Metering {
    /// The device.
    pub device: String,
    /// The back-end in use.
    pub backend: String,
    /// How long it received.
    pub seconds: f64,
    /// Everything that arrived.
    pub arrived: Arrived,
    /// Packets that the kernel or the port dropped before the meter saw them. The meter, and not
    /// the network, lost them.
    pub overflow: u64,
    /// The sum over all flows.
    pub total: Summary,
    /// How many flows.
    pub flow_count: usize,
    /// The first thousand.
    pub flows: Vec<MeteredFlow>,
    /// The device was removed, renamed, or moved to another network namespace meanwhile.
    #[serde(skip)]
    pub is_device_gone: bool,
}

/// A flow that a meter has received.
#[derive(Clone, Debug, Serialize)]
pub struct MeteredFlow {
    /// Its number.
    pub flow: u32,
    /// Its statistics.
    #[serde(flatten)]
    pub summary: Summary,
}

impl Metering {
    fn new<S: Borrow<FlowStats>>(
        device: &str,
        backend: &str,
        seconds: f64,
        (arrived, total, overflow): (Arrived, Summary, u64),
        flows: impl Iterator<Item = (u32, S)>,
    ) -> Metering {
        let mut listed = Vec::new();
        let mut flow_count = 0;
        for (flow, stats) in flows {
            flow_count += 1;
            if listed.len() < LISTED {
                listed.push(MeteredFlow { flow, summary: stats.borrow().summary() });
            }
        }
        Metering {
            device: device.into(),
            backend: backend.into(),
            seconds,
            arrived,
            overflow,
            total,
            flow_count,
            flows: listed,
            is_device_gone: false,
        }
    }
}

/// Sends test packets until the end, the count or the flag.
///
/// # Errors
/// In words, when there is a mistake in the flows, or the device cannot send these packets.
pub fn send(
    device: &str,
    via: Via,
    config: &GeneratorConfig,
    duration: Option<Duration>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Sending, String> {
    // Mistakes in the flows are reported before a device is touched.
    Generator::new(config, Time::ZERO).map_err(|e| e.to_string())?;
    match via {
        Via::Port(backend) => send_by_port(device, backend, config, duration, stop, tell),
        Via::Kernel => send_by_kernel(device, config, duration, stop, tell),
    }
}

fn send_by_port(
    device: &str,
    backend: Backend,
    config: &GeneratorConfig,
    duration: Option<Duration>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Sending, String> {
    let size = config.sizes.max();
    let (mut pool, opened) = open(device, backend, size.max(1518), Use::Send, tell)?;
    let mut watch = DeviceWatch::of_port(opened.backend, device)?;
    let (mut port, backend) = (opened.port, opened.backend.to_string());
    let longest = port.capabilities().max_frame + FCS;
    if size > longest {
        port.close(&mut pool);
        return Err(format!(
            "{device} sends frames of {longest} bytes at most, {size} are asked for: raise its MTU \
             or choose a smaller --size"
        ));
    }
    let begin = now();
    let mut generator = Generator::new(config, begin).map_err(|e| e.to_string())?;
    let end = duration.map_or(Time::FOREVER, |d| begin + d);
    tell(Event::Passed { at: begin, packets: 0, bytes: 0 });
    let mut pass_on = |at, told| watch.pass_on(at, told, tell);
    let last = drive::send(&mut generator, &mut pool, &mut *port, end, stop, &mut pass_on);
    generator.stop(&mut pool);
    let rejected = port.stats().tx_rejected;
    drive::flush(&mut pool, &mut *port);
    port.close(&mut pool);
    let counted = (generator.sent(), rejected);
    let sending = Sending::new(device, &backend, config, counted, last.since(begin));
    Ok(Sending { is_device_gone: watch.is_gone, ..sending })
}

/// The kernel sends by itself, and we watch.
fn send_by_kernel(
    device: &str,
    config: &GeneratorConfig,
    duration: Option<Duration>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Sending, String> {
    let mut watch = DeviceWatch::of_device(device)?;
    let generator = XdpGenerator::open(config, device, duration);
    let mut generator = generator.map_err(|e| e.to_string())?;
    tell(Event::Passed { at: now(), packets: 0, bytes: 0 });
    let result = generator
        .run(|sent| !watch.look(sent.packets, sent.bytes, tell) || stop.load(Ordering::Relaxed));
    let result = result.map_err(|e| e.to_string())?;
    let sent = result.sent;
    let is_vanished = sent.packets > 0 && result.counted == Some(XdpCounted::default());
    let dropped = result.counted.map_or(0, |counted| counted.dropped);
    let rejected = if is_vanished { sent.packets } else { dropped };
    let sending = Sending::new(device, "xdp_live", config, (sent, rejected), result.elapsed);
    let is_device_gone = watch.is_gone || result.counted.is_none();
    Ok(Sending { is_vanished, is_device_gone, ..sending })
}

/// Receives test packets in frames of at most `frame` bytes, until the meter is to stop, or the
/// flag is set.
///
/// # Errors
/// In words, when the device cannot be opened or read.
pub fn receive(
    device: &str,
    via: Via,
    config: MeterConfig,
    frame: usize,
    until: Until,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Metering, String> {
    match via {
        Via::Port(backend) => {
            let (mut pool, opened) = open(device, backend, frame, Use::Receive, tell)?;
            receive_by_port(device, &mut pool, opened, config, until, stop, tell)
        }
        Via::Kernel => receive_by_kernel(device, &config, until, stop, tell),
    }
}

fn receive_by_port(
    device: &str,
    pool: &mut Pool,
    opened: Opened,
    config: MeterConfig,
    until: Until,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Metering, String> {
    let Opened { mut port, backend, .. } = opened;
    let mut watch = DeviceWatch::of_port(backend, device)?;
    let mut meter = Meter::new(config);
    let begin = now();
    tell(Event::Passed { at: begin, packets: 0, bytes: 0 });
    let until = Until { is_file: backend == Backend::Pcap, ..until };
    let mut pass_on = |at, told| watch.pass_on(at, told, tell);
    drive::receive(&mut meter, pool, &mut *port, until, stop, &mut pass_on);
    let seconds = now().since(begin).as_secs_f64();
    let overflow = port.stats().rx_overflow;
    port.close(pool);
    let counted = (meter.arrived(), meter.total(), overflow);
    let metering = Metering::new(device, &backend.to_string(), seconds, counted, meter.flows());
    Ok(Metering { is_device_gone: watch.is_gone, ..metering })
}

/// A program on the device counts, and we read its counters.
fn receive_by_kernel(
    device: &str,
    config: &MeterConfig,
    until: Until,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Metering, String> {
    let mut watch = DeviceWatch::of_device(device)?;
    let mut meter = XdpMeter::open(device, config).map_err(|e| e.to_string())?;
    if !meter.is_native() {
        tell(Event::Note("by generic XDP: slower than in the driver".into()));
    }
    let unread = |e| format!("{device}: reading its counters: {e}");
    let before = meter.overflow().map_err(unread)?;
    let begin = now();
    let mut limits = Watch::new(until, begin);
    tell(Event::Passed { at: begin, packets: 0, bytes: 0 });
    while !stop.load(Ordering::Relaxed) {
        let arrived = meter.arrived();
        if limits.is_over(now(), arrived) || !watch.look(arrived.probes, arrived.bytes, tell) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    meter.stop();
    let seconds = now().since(begin).as_secs_f64();
    let (is_device_gone, after) = match meter.overflow() {
        // The counters of a device go with it.
        Err(e) if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => (true, before),
        after => (watch.is_gone, after.map_err(unread)?),
    };
    let counted = (meter.arrived(), meter.total(), after.wrapping_sub(before));
    let metering = Metering::new(device, "xdp", seconds, counted, meter.flows());
    Ok(Metering { is_device_gone, ..metering })
}

/// Passes on news of a device, and notices when it has gone.
struct DeviceWatch {
    /// None for a file.
    presence: Option<Presence>,
    /// As it was when it was last asked for.
    link: Link,
    is_gone: bool,
}

impl DeviceWatch {
    fn of_port(backend: Backend, device: &str) -> Result<DeviceWatch, String> {
        match backend {
            Backend::Pcap => Ok(DeviceWatch { presence: None, link: Link::Up, is_gone: false }),
            _ => DeviceWatch::of_device(device),
        }
    }

    fn of_device(device: &str) -> Result<DeviceWatch, String> {
        let presence = Presence::of(device).map_err(|e| e.to_string())?;
        Ok(DeviceWatch { presence: Some(presence), link: Link::Up, is_gone: false })
    }

    /// Passes on what a port's driver tells. False if the device has gone.
    fn pass_on(&mut self, at: Time, told: Told, tell: &mut dyn FnMut(Event)) -> bool {
        match self.presence.as_ref().map(Presence::now) {
            Some(Ok(None)) => {
                self.is_gone = true;
                return false;
            }
            Some(Ok(Some(link))) => self.link = link,
            Some(Err(_)) | None => {}
        }
        match told {
            Told::Link(Link::Up) => tell(Event::Note("is up".into())),
            Told::Link(Link::Down) => tell(Event::Note("is down: waiting for it".into())),
            Told::Passed { packets, bytes } => tell(Event::Passed { at, packets, bytes }),
        }
        true
    }

    /// Tells what a program in the kernel has counted, and whether the link has changed. False if
    /// the device has gone.
    fn look(&mut self, packets: u64, bytes: u64, tell: &mut dyn FnMut(Event)) -> bool {
        let (at, before) = (now(), self.link);
        self.pass_on(at, Told::Passed { packets, bytes }, tell)
            && (self.link == before || self.pass_on(at, Told::Link(self.link), tell))
    }
}

/// A device as a port, and a pool for it; tells which back-end `auto` has taken.
fn open(
    device: &str,
    backend: Backend,
    frame: usize,
    what_for: Use,
    tell: &mut dyn FnMut(Event),
) -> Result<(Pool, Opened), String> {
    let (pool, opened) = via::open(device, backend, frame, what_for)?;
    if backend == Backend::Auto {
        tell(Event::Note(format!("by {}: {}", opened.backend, opened.how)));
    }
    Ok((pool, opened))
}
