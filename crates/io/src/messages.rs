//! Batches of messages through recvmmsg(2) and sendmmsg(2): frames go straight into and out of the
//! pool, one system call for up to [`BATCH`] of them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::packet::{BATCH, Packet};
use crate::pool::{HEADROOM, Pool};
use crate::sys;

/// The arrays for the system calls, kept to save their set-up. Every pointer in them is rewritten
/// before each call.
///
/// Each frame may have additional bytes in the kernel's layout: `LEAD` bytes before the frame, in
/// both directions; and on reception, the sender's address in up to `NAME` bytes and control
/// messages in up to `CONTROL`. 0: not used.
pub(crate) struct Messages<const LEAD: usize, const NAME: usize, const CONTROL: usize> {
    leads: [[u8; LEAD]; BATCH],
    names: [[u8; NAME]; BATCH],
    controls: [[u8; CONTROL]; BATCH],
    parts: [[libc::iovec; 2]; BATCH],
    messages: [libc::mmsghdr; BATCH],
}

// SAFETY: the pointers are only used within `receive` and `send`, which write them first.
unsafe impl<const LEAD: usize, const NAME: usize, const CONTROL: usize> Send
    for Messages<LEAD, NAME, CONTROL>
{
}

/// A received message.
pub(crate) struct Received<'a, const LEAD: usize> {
    /// The bytes before the frame.
    pub(crate) lead: &'a [u8; LEAD],
    /// Bytes of the frame, more than were stored if it was cut short.
    pub(crate) len: usize,
    /// Its sender's address, as far as the kernel wrote one.
    pub(crate) name: &'a [u8],
    /// Its control messages, likewise.
    pub(crate) control: &'a [u8],
}

impl<const LEAD: usize, const NAME: usize, const CONTROL: usize> Messages<LEAD, NAME, CONTROL> {
    pub(crate) fn new() -> Box<Self> {
        // SAFETY: integers and raw pointers, for which zero is a value.
        Box::new(unsafe { std::mem::zeroed() })
    }

    /// Has the kernel fill frames that the caller has taken from the pool, after their headroom;
    /// returns how many it filled.
    pub(crate) fn receive(
        &mut self,
        socket: &OwnedFd,
        pool: &mut Pool,
        frames: &[u32],
    ) -> io::Result<usize> {
        let room = pool.max_len();
        for (i, &frame) in frames.iter().enumerate() {
            // SAFETY: HEADROOM is less than the frame's size.
            let start = unsafe { pool.slot(frame).add(HEADROOM) };
            self.point(i, start.as_ptr(), room);
            let header = &mut self.messages[i].msg_hdr;
            if NAME > 0 {
                header.msg_name = (&raw mut self.names[i]).cast();
                header.msg_namelen = NAME as libc::socklen_t;
            }
            if CONTROL > 0 {
                header.msg_control = (&raw mut self.controls[i]).cast();
                header.msg_controllen = CONTROL as _;
            }
        }
        // MSG_TRUNC: the true length is returned, so that a frame cut short is noticed.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: each message points at its own lead, name, control buffer and frame, which live
        // through the call; the frames belong to the caller and nothing refers to them. `point`
        // has indexed an array of BATCH with every message that is counted here.
        let n = sys::check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                frames.len() as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        })?;
        Ok(n as usize)
    }

    /// The additional data of frame `i` of the last `receive`.
    pub(crate) fn received(&self, i: usize) -> Received<'_, LEAD> {
        let message = &self.messages[i];
        let header = &message.msg_hdr;
        Received {
            lead: &self.leads[i],
            len: (message.msg_len as usize).saturating_sub(LEAD),
            // The kernel says how long a cut name was before.
            name: &self.names[i][..NAME.min(header.msg_namelen as usize)],
            control: &self.controls[i][..CONTROL.min(header.msg_controllen)],
        }
    }

    /// Passes the packets to the kernel, each with its own lead; returns how many it accepted, at
    /// least one.
    pub(crate) fn send(
        &mut self,
        socket: &OwnedFd,
        pool: &Pool,
        packets: &[Packet],
        lead: impl Fn(&Packet) -> [u8; LEAD],
    ) -> io::Result<usize> {
        for (i, packet) in packets.iter().enumerate() {
            self.leads[i] = lead(packet);
            let data = pool.data(packet);
            self.point(i, data.as_ptr().cast_mut(), data.len());
        }
        // SAFETY: each message points at its own lead and at a packet's bytes, which live through
        // the call and which sending only reads; there are as many as `point` was called for.
        let n = sys::check(unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                packets.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        })?;
        Ok(n as usize)
    }

    /// Message `i` consists of its lead and `len` bytes at `data`, and nothing else.
    fn point(&mut self, i: usize, data: *mut u8, len: usize) {
        let lead = (&raw mut self.leads[i]).cast();
        self.parts[i] = [
            libc::iovec { iov_base: lead, iov_len: LEAD },
            libc::iovec { iov_base: data.cast(), iov_len: len },
        ];
        let first = usize::from(LEAD == 0);
        let parts = &mut self.parts[i][first..];
        let message = &mut self.messages[i].msg_hdr;
        message.msg_name = std::ptr::null_mut();
        message.msg_namelen = 0;
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        message.msg_control = std::ptr::null_mut();
        message.msg_controllen = 0;
        message.msg_flags = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// Frames of different lengths, one of which is cut short, each behind a lead of its own.
    #[test]
    fn frames_and_what_goes_with_them_arrive_in_order() {
        let mut pool = Pool::new(8, 2048).unwrap();
        let (near, far) = UnixDatagram::pair().unwrap();
        let (near, far) = (OwnedFd::from(near), OwnedFd::from(far));
        let mut messages = Messages::<2, 110, 64>::new();
        let packets: Vec<Packet> =
            [60, 100, 7].map(|n| pool.alloc_from(&vec![n; n.into()]).unwrap()).into();
        let lead = |p: &Packet| [0xEE, p.len() as u8];
        assert_eq!(messages.send(&near, &pool, &packets, lead).unwrap(), 3);
        packets.into_iter().for_each(|p| pool.free(p));

        let frames: Vec<u32> = (0..4).map(|_| pool.take().unwrap()).collect();
        assert_eq!(messages.receive(&far, &mut pool, &frames).unwrap(), 3);
        for (i, n) in [60, 100, 7].into_iter().enumerate() {
            let got = messages.received(i);
            assert_eq!((got.lead, got.len), (&[0xEE, n], usize::from(n)));
            // Neither end has an address, and no control message was requested.
            assert!(got.name.is_empty() && got.control.is_empty());
            let packet = pool.packet(frames[i], HEADROOM as u16, u32::from(n));
            assert!(pool.data(&packet).iter().all(|byte| *byte == n));
            pool.free(packet);
        }
        pool.give(frames[3]);
        assert_eq!(pool.available(), pool.frames());
    }

    #[test]
    fn a_frame_that_does_not_fit_says_how_long_it_was() {
        let (mut small, mut large) = (Pool::new(2, 2048).unwrap(), Pool::new(2, 8192).unwrap());
        let (near, far) = UnixDatagram::pair().unwrap();
        let (near, far) = (OwnedFd::from(near), OwnedFd::from(far));
        let mut messages = Messages::<0, 0, 0>::new();
        let packet = large.alloc_from(&[1; 5000]).unwrap();
        let sent = messages.send(&near, &large, std::slice::from_ref(&packet), |_| []);
        assert_eq!(sent.unwrap(), 1);
        let frame = small.take().unwrap();
        assert_eq!(messages.receive(&far, &mut small, &[frame]).unwrap(), 1);
        assert_eq!(messages.received(0).len, 5000);
        small.give(frame);
        large.free(packet);
    }
}
