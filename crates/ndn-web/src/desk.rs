//! The desk fetches named data for requests: many objects at once, on one face, in one thread.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plexus_io::wake::Waker;
use plexus_ndn::link::{Kind, Received};
use plexus_ndn_apps::Failure;
use plexus_ndn_apps::app::{Application, Output};
use plexus_ndn_apps::ask::{Ask, Question};
use plexus_ndn_apps::endpoint::{EndpointError, publish, random_seed};
use plexus_ndn_apps::metadata::{self, Metadata};
use plexus_ndn_apps::segments::{Segments, Settings};
use plexus_wire::Time;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::{Data, Interest, NameBuf};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// Lifetime of an Interest for metadata.
const LIFETIME: Duration = Duration::from_secs(4);
/// A reader that takes nothing for this long is dropped.
const STALL: Duration = Duration::from_secs(60);
/// Most requests that wait for the desk. It takes none while the forwarder is away.
const COMMANDS_MAX: usize = 1024;

/// A request for an object's segments.
pub struct Order {
    /// The object's name, with its version.
    pub object: NameBuf,
    /// The first segment.
    pub first: u64,
    /// The last segment; `None`: up to the last one there is.
    pub last: Option<u64>,
    /// Bytes of every segment except the last, and the number of the last segment.
    pub shape: Option<(u64, u64)>,
    /// Receives the segments, in order.
    pub sink: Sender<Result<Option<Box<[u8]>>, Failure>>,
}

enum Command {
    Metadata { object: NameBuf, reply: oneshot::Sender<Result<Metadata, Failure>> },
    Segments(Order),
}

/// A handle of the desk. Copies share it.
#[derive(Clone)]
pub struct Desk {
    commands: mpsc::SyncSender<Command>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Desk {
    /// The metadata of an object; `None` if the desk is closed, or takes no request.
    pub async fn metadata(&self, object: NameBuf) -> Option<Result<Metadata, Failure>> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(Command::Metadata { object, reply }).ok()?;
        self.wake();
        answer.await.ok()
    }

    /// Requests segments. If the desk is closed, or takes no request, none arrive.
    pub fn order(&self, order: Order) {
        let _ = self.commands.try_send(Command::Segments(order));
        self.wake();
    }

    /// Wakes the desk: there is a command, or room for a segment.
    pub fn wake(&self) {
        // A panic elsewhere has not changed it.
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker {
            waker.wake();
        }
    }
}

/// State of the desk's thread.
pub struct Work {
    commands: Receiver<Command>,
    asks: Vec<(Ask, oneshot::Sender<Result<Metadata, Failure>>)>,
    orders: Vec<Job>,
    settings: Settings,
    tries: u32,
    random: Pcg64Mcg,
}

struct Job {
    segments: Segments,
    order: Order,
    /// When the reader last took a segment.
    moved: Time,
}

impl Work {
    /// A desk and its handle. Requests for metadata wait up to `patience`.
    pub fn new(settings: Settings, patience: Duration, seed: u64) -> (Work, Desk) {
        let (sender, commands) = mpsc::sync_channel(COMMANDS_MAX);
        let desk = Desk { commands: sender, waker: Arc::default() };
        let tries = patience.as_secs().div_ceil(LIFETIME.as_secs()).clamp(1, 100) as u32;
        let random = Pcg64Mcg::seed_from_u64(seed);
        let (asks, orders) = (Vec::new(), Vec::new());
        (Work { commands, asks, orders, settings, tries, random }, desk)
    }

    /// Runs until `stop` is set, with the forwarder at `uri`; reconnects if the connection is lost.
    ///
    /// # Errors
    /// When the first connection fails.
    pub fn run(
        mut self,
        uri: &FaceUri,
        desk: &Desk,
        stop: &AtomicBool,
        mut ready: impl FnMut(),
    ) -> Result<(), EndpointError> {
        publish(uri, &[], None, &mut self, stop, |waker| {
            let mut place = desk.waker.lock().unwrap_or_else(PoisonError::into_inner);
            *place = Some(waker.clone());
            ready();
        })
    }

    fn take_commands(&mut self, now: Time) {
        while let Ok(command) = self.commands.try_recv() {
            let seed = self.random.random();
            match command {
                // Nobody waits for it any more.
                Command::Metadata { reply, .. } if reply.is_closed() => {}
                Command::Metadata { object, reply } => {
                    let question = Question {
                        name: metadata::name_of(object.as_name()),
                        can_be_prefix: true,
                        must_be_fresh: true,
                        lifetime: LIFETIME,
                        tries: self.tries,
                    };
                    self.asks.push((Ask::new(question, seed), reply));
                }
                Command::Segments(order) => {
                    let object = order.object.clone();
                    let segments =
                        Segments::new(object, order.first, order.last, self.settings, seed);
                    self.orders.push(Job { segments, order, moved: now });
                }
            }
        }
    }

    fn deliver_ready(&mut self, now: Time) {
        let mut at = 0;
        while let Some((ask, reply)) = self.asks.get_mut(at) {
            let answer = ask.take_answer();
            if answer.is_none() && !reply.is_closed() {
                at += 1;
                continue;
            }
            let (ask, reply) = self.asks.swap_remove(at);
            if let Some(answer) = answer {
                let _ = reply.send(answer.and_then(|packet| read(&ask, &packet)));
            }
        }
        self.orders.retain_mut(|job| job.deliver(now));
    }
}

fn read(ask: &Ask, packet: &[u8]) -> Result<Metadata, Failure> {
    let misfit = |why: String| Failure::Misfit { name: ask.name().clone(), why };
    let data = Data::new_checked(packet).map_err(|e| misfit(e.to_string()))?;
    let metadata = Metadata::of(&data).map_err(|e| misfit(e.to_string()))?;
    let asked = ask.name().as_name();
    let object = asked.prefix(asked.len() - 1);
    match object.is_prefix_of(&metadata.name.as_name()) {
        true => Ok(metadata),
        false => Err(misfit(format!("it leads to {}", metadata.name))),
    }
}

impl Job {
    /// Passes on segments in order; false if there is nothing left to do.
    fn deliver(&mut self, now: Time) -> bool {
        if self.order.sink.is_closed() {
            return false;
        }
        if let Some(failure) = self.segments.failure().cloned() {
            // A reader without room notices the end.
            let _ = self.order.sink.try_send(Err(failure));
            return false;
        }
        while let Ok(room) = self.order.sink.try_reserve() {
            let position = self.segments.position();
            let Some(content) = self.segments.take() else {
                if self.segments.is_done() {
                    room.send(Ok(None));
                    return false;
                }
                break;
            };
            self.moved = now;
            if let Some((size, last)) = self.order.shape
                && position != last
                && content.len() as u64 != size
            {
                let name = self.order.object.clone();
                let why = format!("segment {position} has {} bytes", content.len());
                room.send(Err(Failure::Misfit { name, why }));
                return false;
            }
            room.send(Ok(Some(content)));
        }
        now.since(self.moved) < STALL
    }
}

impl Application for Work {
    fn packet(&mut self, now: Time, received: &Received<'_>, out: &mut dyn Output) {
        // Parsed here first, so that only possible recipients parse it again.
        let name = match received.kind {
            Kind::Data => Data::new_checked(received.packet).map(|data| data.name()),
            Kind::Nack(_) => Interest::new_checked(received.packet).map(|i| i.name()),
            Kind::Interest => return,
        };
        let Ok(name) = name else { return };
        let mut is_taken = false;
        // Several requests may ask for the same object: one answer serves all.
        for (ask, _) in &mut self.asks {
            is_taken |= ask.name().as_name().is_prefix_of(&name) && ask.handle(now, received);
        }
        for job in &mut self.orders {
            let is_of = job.order.object.as_name().is_prefix_of(&name);
            if is_of && job.segments.handle(now, received) {
                is_taken = true;
                job.deliver(now);
                job.segments.poll(now, out);
            }
        }
        if is_taken {
            self.deliver_ready(now);
        }
    }

    fn poll(&mut self, now: Time, out: &mut dyn Output) {
        self.take_commands(now);
        self.asks.iter_mut().for_each(|(ask, _)| ask.poll(now, out));
        self.deliver_ready(now);
        self.orders.iter_mut().for_each(|job| job.segments.poll(now, out));
    }

    fn next_deadline(&self) -> Option<Time> {
        let asks = self.asks.iter().map(|(ask, _)| ask.next_deadline().unwrap_or(Time::ZERO));
        let orders = self.orders.iter().map(|job| {
            let stalls = job.moved + STALL;
            job.segments.next_deadline().map_or(stalls, |at| at.min(stalls))
        });
        asks.chain(orders).min()
    }
}

/// Runs a desk in its own thread, with the forwarder at `uri`, until `stop` is set. `ended` is
/// called with the reason if it ends before that; `ready` when it is open.
///
/// # Errors
/// When there is no thread, or no randomness.
pub fn open(
    uri: FaceUri,
    settings: Settings,
    patience: Duration,
    stop: Arc<AtomicBool>,
    ready: impl FnMut() + Send + 'static,
    ended: impl FnOnce(EndpointError) + Send + 'static,
) -> std::io::Result<Desk> {
    let (work, desk) = Work::new(settings, patience, random_seed()?);
    let own = desk.clone();
    std::thread::Builder::new().name("desk".into()).spawn(move || {
        if let Err(error) = work.run(&uri, &own, &stop, ready) {
            ended(error);
        }
    })?;
    Ok(desk)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn requests_take_bounded_memory_while_the_forwarder_is_away() {
        let (mut work, desk) = Work::new(Settings::default(), Duration::from_secs(4), 7);
        let mut context = Context::from_waker(Waker::noop());
        let refused = (0..2 * COMMANDS_MAX).filter(|_| {
            // The client goes away at once.
            let asked = pin!(desk.metadata("/a".parse().unwrap()));
            matches!(asked.poll(&mut context), Poll::Ready(None))
        });
        assert_eq!(refused.count(), COMMANDS_MAX);
        work.take_commands(Time::ZERO);
        assert!(work.asks.is_empty(), "nobody waits for them");
    }
}
