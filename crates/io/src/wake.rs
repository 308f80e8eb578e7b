//! How a worker sleeps: in the kernel, until a port has packets, another thread wakes it, or a
//! time is reached.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socket_with};

/// The multicast group of changes of devices (linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;

/// A worker's bed. It belongs to one thread.
pub struct Sleeper {
    event: Arc<OwnedFd>,
}

/// Wakes one worker, from any thread.
#[derive(Clone)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Sleeper {
    /// A sleeper for the calling thread, whose timers become precise (their slack, 50 µs by
    /// default, is set to one nanosecond), and its waker.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new() -> io::Result<(Sleeper, Waker)> {
        if let Err(error) = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)) {
            tracing::debug!(%error, "timers stay coarse");
        }
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok((Sleeper { event: event.clone() }, Waker { event }))
    }

    /// Sleeps until one of these is readable, or the waker is used (also if that was before), or
    /// the timeout is over; `None` is without a timeout. Returns whether the waker was used.
    ///
    /// A port's descriptor that reports an error counts as readable: `receive` and `maintain` find
    /// the cause.
    ///
    /// # Errors
    /// When memory is short. A signal ends the sleep without an error.
    pub fn sleep<'a>(
        &mut self,
        ports: impl IntoIterator<Item = BorrowedFd<'a>>,
        timeout: Option<Duration>,
    ) -> io::Result<bool> {
        let event = self.event.clone();
        let mut watched = vec![PollFd::new(&*event, PollFlags::IN)];
        watched.extend(ports.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let woken = watched[0].revents().contains(PollFlags::IN);
        if woken {
            // Reading sets the count to zero, however often it was woken.
            let _ = rustix::io::read(&*event, &mut [0; 8]);
        }
        Ok(woken)
    }
}

impl Waker {
    /// Ends the worker's sleep, or its next one if it is awake.
    pub fn wake(&self) {
        // It can only fail when the count is at its maximum: then it wakes as well.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
    }
}

/// Reports every change of a network device in the namespace in which it was created: an unplugged
/// cable is noticed at once, not at the next [`maintain`](crate::Port::maintain).
pub struct LinkNews {
    socket: OwnedFd,
}

impl LinkNews {
    /// Listens from now on (rtnetlink(7), RTMGRP_LINK).
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn listen() -> io::Result<LinkNews> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // No protocol is number 0, which is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, RTMGRP_LINK))?;
        Ok(LinkNews { socket })
    }

    /// A descriptor that becomes readable with a change.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// True if there was a change since the last call. What changed, ports find out themselves.
    pub fn take(&self) -> bool {
        let mut any = false;
        let mut buffer = [0; 4096];
        loop {
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                // More changes than the socket holds (ENOBUFS) are changes too.
                Ok(_) | Err(rustix::io::Errno::NOBUFS) => any = true,
                Err(_) => return any,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_before_the_sleep_is_not_lost_and_counts_once() {
        let (mut sleeper, waker) = Sleeper::new().unwrap();
        waker.wake();
        waker.clone().wake();
        assert!(sleeper.sleep([], None).unwrap());
        assert!(!sleeper.sleep([], Some(Duration::ZERO)).unwrap());
    }

    #[test]
    fn another_thread_ends_an_endless_sleep() {
        let (mut sleeper, waker) = Sleeper::new().unwrap();
        let thread = std::thread::spawn(move || waker.wake());
        assert!(sleeper.sleep([], None).unwrap());
        thread.join().unwrap();
    }

    #[test]
    fn a_readable_port_ends_the_sleep() {
        let (mut sleeper, _waker) = Sleeper::new().unwrap();
        let (read, write) = std::io::pipe().unwrap();
        assert!(!sleeper.sleep([read.as_fd()], Some(Duration::from_nanos(1))).unwrap());
        rustix::io::write(&write, b"x").unwrap();
        assert!(!sleeper.sleep([read.as_fd()], None).unwrap());
    }
}
