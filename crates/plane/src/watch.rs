//! Onlookers of a worker's ports: they see every frame that passes the pipeline. An onlooker either
//! has the port's flows pass the pipeline too, or gets samples of those in the fast table.

use std::num::NonZeroU32;

use plexus_io::PortId;
use plexus_wire::Time;

/// Sees the frames that pass one port.
struct Watcher {
    port: PortId,
    number: u64,
    /// Of how many packets in the fast table it sees one. None: flows leave the fast table.
    one_in: Option<NonZeroU32>,
    /// The part of the next sample that it is due, in packets: `one_in` are a whole one.
    due: u64,
    /// The port's missed samples that it knows of.
    missed: u64,
    see: Onlooker,
}

/// Called with every frame at a watched port, on the worker's thread: it must be quick.
pub type Onlooker = Box<dyn FnMut(Seen<'_>) + Send>;

/// A frame at a watched port.
pub struct Seen<'a> {
    /// When.
    pub now: Time,
    /// True for a frame that leaves the box.
    pub outgoing: bool,
    /// The frame, as the device has it; of a sample its first bytes.
    pub bytes: &'a [u8],
    /// Bytes of the frame.
    pub len: usize,
    /// One of several frames that the fast table has forwarded.
    pub is_sample: bool,
    /// Samples that were missed since the one before, because there were too many at once.
    pub missed: u64,
}

impl<'a> Seen<'a> {
    /// A frame that passes the pipeline.
    fn whole(now: Time, outgoing: bool, bytes: &'a [u8]) -> Seen<'a> {
        Seen { now, outgoing, bytes, len: bytes.len(), is_sample: false, missed: 0 }
    }
}

/// All onlookers of a worker.
#[derive(Default)]
pub(crate) struct Watchers(Vec<Watcher>);

impl Watchers {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an onlooker. `missed`: samples of its port that have been missed before.
    pub(crate) fn add(
        &mut self,
        port: PortId,
        number: u64,
        one_in: Option<NonZeroU32>,
        missed: u64,
        see: Onlooker,
    ) {
        self.0.push(Watcher { port, number, one_in, due: 0, missed, see });
    }

    /// Removes the onlookers of a number; returns their ports.
    pub(crate) fn remove(&mut self, number: u64) -> Vec<PortId> {
        let gone = self.0.extract_if(.., |watcher| watcher.number == number);
        gone.map(|watcher| watcher.port).collect()
    }

    pub(crate) fn remove_port(&mut self, port: PortId) {
        self.0.retain(|watcher| watcher.port != port);
    }

    fn of(&self, port: PortId) -> impl Iterator<Item = &Watcher> {
        self.0.iter().filter(move |watcher| watcher.port == port)
    }

    fn of_mut(&mut self, port: PortId) -> impl Iterator<Item = &mut Watcher> {
        self.0.iter_mut().filter(move |watcher| watcher.port == port)
    }

    /// Whether somebody looks at a port.
    pub(crate) fn has(&self, port: PortId) -> bool {
        self.of(port).next().is_some()
    }

    /// Whether a port's flows have to pass the pipeline.
    pub(crate) fn want_all(&self, port: PortId) -> bool {
        self.of(port).any(|watcher| watcher.one_in.is_none())
    }

    /// The rate of a port's samples: the smallest number that an onlooker asked for.
    pub(crate) fn want_one_in(&self, port: PortId) -> Option<NonZeroU32> {
        self.of(port).filter_map(|watcher| watcher.one_in).min()
    }

    /// Shows a frame that passes the pipeline.
    pub(crate) fn show(&mut self, now: Time, port: PortId, outgoing: bool, bytes: &[u8]) {
        self.of_mut(port).for_each(|watcher| (watcher.see)(Seen::whole(now, outgoing, bytes)));
    }

    /// Shows a sample to those onlookers that are due one. `missed`: samples of the port that have
    /// been missed so far.
    pub(crate) fn show_sample(
        &mut self,
        now: Time,
        port: PortId,
        bytes: &[u8],
        len: usize,
        missed: u64,
    ) {
        let Some(taken) = self.want_one_in(port).map(|taken| u64::from(taken.get())) else {
            return;
        };
        for watcher in self.of_mut(port) {
            let Some(wanted) = watcher.one_in.map(|wanted| u64::from(wanted.get())) else {
                continue;
            };
            watcher.due += taken;
            if watcher.due >= wanted {
                watcher.due -= wanted;
                let since = missed.saturating_sub(watcher.missed) * taken / wanted;
                watcher.missed = missed;
                let (outgoing, is_sample) = (false, true);
                (watcher.see)(Seen { now, outgoing, bytes, len, is_sample, missed: since });
            }
        }
    }
}
