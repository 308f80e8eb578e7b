//! Follows the kernel: subscribes to every change, then dumps everything there is.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::event::{KernelEvent, TABLE_LOCAL, TABLE_MAIN};
use super::follow::Follower;
use super::message::{self, Builder, Message, flag, messages};
use super::parse::{GET_NEXT_HOP, INET, INET6};
use super::socket::{Received, Socket};

/// Groups of changes (linux/rtnetlink.h): link, IPv4 address and route, IPv6 address and route,
/// next-hop object.
const GROUPS: u32 = 1 | 0x10 | 0x40 | 0x100 | 0x400 | 1 << 31;

/// Backlog of unread changes: some seconds' worth, at 10,000 routes per second.
const RECEIVE_BYTES: i32 = 64 << 20;

/// Bytes after which a call returns, and messages' datagrams.
const TURN_BYTES: usize = 128 * 1024;
const TURN_DATAGRAMS: usize = 1024;

// As a dump's request names them, in one byte.
const LOCAL: u8 = TABLE_LOCAL as u8;
const MAIN: u8 = TABLE_MAIN as u8;

/// How often an interrupted dump is repeated, because it may lack routes. A repetition rarely lacks
/// the same ones; without a limit, a daemon that changes routes continuously would keep
/// [`KernelEvent::ResyncEnd`] from coming.
const REPEATS: u32 = 10;

/// The order of the dumps: a route is reported after its dependencies.
const STEPS: [Step; 7] = [
    Step { kind: libc::RTM_GETLINK, family: 0, table: 0 },
    Step { kind: libc::RTM_GETADDR, family: 0, table: 0 },
    Step { kind: GET_NEXT_HOP, family: 0, table: 0 },
    Step { kind: libc::RTM_GETROUTE, family: INET, table: LOCAL },
    Step { kind: libc::RTM_GETROUTE, family: INET6, table: LOCAL },
    Step { kind: libc::RTM_GETROUTE, family: INET, table: MAIN },
    Step { kind: libc::RTM_GETROUTE, family: INET6, table: MAIN },
];

/// One dump.
struct Step {
    kind: u16,
    family: u8,
    table: u8,
}

/// A dump that the kernel is answering.
struct Running {
    step: usize,
    port: u32,
    sequence: u32,
    interrupted: bool,
    /// How often it was repeated.
    repeats: u32,
}

/// Reports every route, address and device of a network namespace, and every change.
///
/// It begins with everything there is, between [`KernelEvent::ResyncBegin`] and
/// [`KernelEvent::ResyncEnd`], and repeats that when changes were lost (the socket overflowed) or
/// the kernel does not report the effects of a change: a device with routes set down or up or
/// removed, an IPv4 address removed with dependent routes, one of two routes with one key removed.
/// A consumer that removes everything not named in between has exactly the kernel's routes.
pub struct Watcher {
    socket: Socket,
    follower: Follower,
    running: Option<Running>,
    /// Dumps have begun, which has not been reported yet.
    begun: bool,
    /// Changes were lost: the backlog is discarded, then everything is dumped.
    lost: bool,
    rest: Duration,
    /// When everything had been named.
    named: Option<Instant>,
}

impl Watcher {
    /// Watches the calling thread's network namespace; the events are from there wherever
    /// [`next_events`](Watcher::next_events) is called.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<Watcher> {
        Watcher::with_buffer(RECEIVE_BYTES)
    }

    /// As [`open`](Watcher::open), but with a backlog of at most this many bytes; an overflow leads
    /// to a new dump of everything.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn with_buffer(bytes: i32) -> io::Result<Watcher> {
        let socket = Socket::open(GROUPS, bytes)?;
        let follower = Follower::default();
        let (rest, named) = (Duration::ZERO, None);
        let (running, begun, lost) = (None, false, false);
        let mut watcher = Watcher { socket, follower, running, begun, lost, rest, named };
        // The answer makes the descriptor readable, so that the caller begins to read.
        watcher.begin()?;
        Ok(watcher)
    }

    /// Sets a pause between the end of a dump and the beginning of the next, so that flapping
    /// devices do not cause continuous dumps of a full table. After lost changes there is no pause.
    #[must_use]
    pub fn with_rest(self, rest: Duration) -> Watcher {
        Watcher { rest, ..self }
    }

    /// Everything is to be dumped once more, after the pause.
    pub fn read_again(&mut self) {
        self.follower.ask_again();
    }

    /// When there is something to do though nothing is readable.
    pub fn wakes_in(&self) -> Option<Duration> {
        (self.running.is_none() && self.follower.asks_again()).then(|| self.rest_left())
    }

    fn rest_left(&self) -> Duration {
        self.named.map_or(Duration::ZERO, |named| self.rest.saturating_sub(named.elapsed()))
    }

    /// Readable while there is something to do, except for [`wakes_in`](Self::wakes_in).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Appends new events to `events`; never waits. Each call does a bounded amount of work, about
    /// a millisecond; `true` means that there may be more at once.
    ///
    /// # Errors
    /// When the kernel refuses to answer or memory is short. Then the watcher is unusable: open
    /// another.
    pub fn next_events(&mut self, events: &mut Vec<KernelEvent>) -> io::Result<bool> {
        let mut bytes = 0;
        for _ in 0..TURN_DATAGRAMS {
            if std::mem::take(&mut self.begun) {
                events.push(KernelEvent::ResyncBegin);
            }
            if bytes >= TURN_BYTES {
                return Ok(true);
            }
            let (mut empty, mut ended) = (false, None);
            match self.socket.receive()? {
                Received::Empty => empty = true,
                Received::Overflow => self.lost = true,
                Received::Datagram(datagram) => {
                    bytes += datagram.len();
                    let (follower, lost) = (&mut self.follower, self.lost);
                    for message in messages(datagram) {
                        let mut running = self.running.as_mut();
                        match running.as_mut().filter(|running| running.answers(&message)) {
                            Some(running) => {
                                running.interrupted |= message.flags & flag::DUMP_INTERRUPTED != 0;
                                if matches!(message.kind, message::ERROR | message::DONE) {
                                    ended = Some(message.code());
                                } else if !lost {
                                    follower.dumped(message, events);
                                }
                            }
                            None if !lost => follower.changed(message, events),
                            None => {}
                        }
                    }
                }
            }
            if let Some(code) = ended {
                self.dump_ended(code, events)?;
            }
            // An overflowed socket receives changes again only once it is empty (netlink_rcv_wake):
            // a dump that begins earlier would miss some.
            let rested = || self.follower.asks_again() && self.rest_left().is_zero();
            let again = if self.lost { empty } else { rested() };
            if again && self.running.is_none() {
                self.lost = false;
                self.begin()?;
            } else if empty {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins a dump of everything.
    fn begin(&mut self) -> io::Result<()> {
        self.follower.begin();
        self.begun = true;
        self.ask(0, 0)
    }

    fn ask(&mut self, step: usize, repeats: u32) -> io::Result<()> {
        self.follower.begin_dump();
        let Step { kind, family, table } = STEPS[step];
        let mut fixed = [0; 16];
        fixed[0] = family;
        fixed[4] = table;
        let len = match kind {
            libc::RTM_GETLINK => 16,
            libc::RTM_GETROUTE => 12,
            _ => 8,
        };
        let sequence = self.socket.next_sequence();
        let mut request = Builder::default();
        request.begin(kind, flag::DUMP, sequence, &fixed[..len]);
        self.socket.send(request.bytes())?;
        let port = self.socket.port();
        self.running = Some(Running { step, port, sequence, interrupted: false, repeats });
        Ok(())
    }

    /// A dump has ended with this errno.
    fn dump_ended(&mut self, code: i32, events: &mut Vec<KernelEvent>) -> io::Result<()> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let Running { step, repeats, interrupted, .. } = running;
        match code {
            // No such table yet; no IPv6; no next-hop objects (before Linux 5.3).
            0 | libc::ENOENT | libc::EAFNOSUPPORT | libc::EOPNOTSUPP => {}
            // Something changed in the middle, so that something may be missing.
            libc::EINTR | libc::EAGAIN => return self.ask(step, repeats),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
        if self.lost {
            return Ok(());
        }
        if interrupted || (self.follower.disturbed() && repeats < REPEATS) {
            return self.ask(step, repeats + 1);
        }
        if step + 1 < STEPS.len() {
            return self.ask(step + 1, 0);
        }
        self.follower.end(events);
        events.push(KernelEvent::ResyncEnd);
        self.named = Some(Instant::now());
        Ok(())
    }
}

impl Running {
    fn answers(&self, message: &Message<'_>) -> bool {
        (message.port, message.sequence) == (self.port, self.sequence)
    }
}
