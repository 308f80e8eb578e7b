//! Batches of datagrams on a socket with many peers: recvmmsg(2) and sendmmsg(2) with addresses.
//!
//! Unlike a port's messages these are not frames of a pool: received datagrams lie in a buffer of
//! the batch until the next call; those to send stay in the caller's memory.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sys;

/// Datagrams in one system call, at most.
pub const DATAGRAMS: usize = 64;
/// Bytes of the longer of the two addresses.
pub(crate) const NAME_LEN: usize = size_of::<libc::sockaddr_in6>();

type Name = [u8; NAME_LEN];

/// A batch of datagrams.
pub struct Datagrams {
    /// One slot of `len_max` bytes for each.
    buffer: Vec<u8>,
    len_max: usize,
    received: usize,
    names: [Name; DATAGRAMS],
    parts: [libc::iovec; DATAGRAMS],
    messages: [libc::mmsghdr; DATAGRAMS],
}

// SAFETY: the pointers are only used within `receive` and `send`, which write them first.
unsafe impl Send for Datagrams {}

impl Datagrams {
    /// A batch that receives datagrams of up to `len_max` bytes; of 0, one that only sends.
    pub fn new(len_max: usize) -> Box<Datagrams> {
        // SAFETY: integers and raw pointers, for which zero is a value.
        let (parts, messages) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Box::new(Datagrams {
            buffer: vec![0; len_max * DATAGRAMS],
            len_max,
            received: 0,
            names: [[0; NAME_LEN]; DATAGRAMS],
            parts,
            messages,
        })
    }

    /// Receives pending datagrams from a socket, without blocking; returns how many.
    ///
    /// # Errors
    /// Those of recvmmsg(2): `WouldBlock` if nothing is pending, and errors that ICMP reported for
    /// an earlier datagram; `InvalidInput` if the batch only sends.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.received = 0;
        if self.len_max == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (i, slot) in self.buffer.chunks_exact_mut(self.len_max).enumerate() {
            self.parts[i] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        }
        (0..DATAGRAMS).for_each(|i| self.point(i, NAME_LEN));
        // MSG_TRUNC: the true length is returned, so that a datagram cut short is noticed.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: each message points at its own part and name, each part at its own slot of the
        // buffer, which has one for each; all live through the call.
        let n = sys::check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                DATAGRAMS as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        })?;
        self.received = n as usize;
        Ok(self.received)
    }

    /// Datagram `i` of those that the last call received: its sender, and the bytes. `None` if it
    /// was too long for a slot, or its sender has no IP address.
    pub fn get(&self, i: usize) -> Option<(SocketAddr, &[u8])> {
        let message = self.messages[..self.received].get(i)?;
        let name_len = NAME_LEN.min(message.msg_hdr.msg_namelen as usize);
        let from = decode(&self.names[i][..name_len])?;
        let bytes = self.buffer.get(i * self.len_max..(i + 1) * self.len_max)?;
        Some((from, bytes.get(..message.msg_len as usize)?))
    }

    /// Sends datagrams, without blocking, in order; says how many of them, at least one.
    ///
    /// # Errors
    /// Those of sendmmsg(2), about the first of them; none was sent then.
    pub fn send<'d>(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: impl IntoIterator<Item = (SocketAddr, &'d [u8])>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (i, (to, bytes)) in datagrams.into_iter().take(DATAGRAMS).enumerate() {
            let len = encode(to, &mut self.names[i]);
            let base = bytes.as_ptr().cast_mut().cast();
            self.parts[i] = libc::iovec { iov_base: base, iov_len: bytes.len() };
            self.point(i, len);
            count = i + 1;
        }
        // This partly overwrites received datagrams.
        self.received = 0;
        // SAFETY: each message points at its own name and part, each part at bytes that the caller
        // lent for `'d`, which sending only reads; there are as many as were written above.
        let n = sys::check(unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        })?;
        Ok(n as usize)
    }

    /// Message `i` consists of part `i`, and of its name.
    fn point(&mut self, i: usize, name_len: usize) {
        let header = &mut self.messages[i].msg_hdr;
        header.msg_name = (&raw mut self.names[i]).cast();
        header.msg_namelen = name_len as libc::socklen_t;
        header.msg_iov = &raw mut self.parts[i];
        header.msg_iovlen = 1;
        header.msg_control = std::ptr::null_mut();
        header.msg_controllen = 0;
        header.msg_flags = 0;
    }
}

/// Writes a `sockaddr_in` or `sockaddr_in6` as the kernel reads it; says how long it is.
fn encode(address: SocketAddr, name: &mut Name) -> usize {
    name.fill(0);
    name[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            name[..2].copy_from_slice(&(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
            name[4..8].copy_from_slice(&v4.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            name[..2].copy_from_slice(&(libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
            name[8..24].copy_from_slice(&v6.ip().octets());
            name[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            NAME_LEN
        }
    }
}

/// The address in a `sockaddr_in` or `sockaddr_in6` as the kernel writes it.
pub(crate) fn decode(name: &[u8]) -> Option<SocketAddr> {
    let family = libc::sa_family_t::from_ne_bytes(*name.first_chunk()?);
    let port = u16::from_be_bytes(*name.get(2..)?.first_chunk()?);
    match libc::c_int::from(family) {
        libc::AF_INET => {
            let octets: &[u8; 4] = name.get(4..)?.first_chunk()?;
            Some(SocketAddrV4::new(Ipv4Addr::from(*octets), port).into())
        }
        libc::AF_INET6 => {
            let octets: &[u8; 16] = name.get(8..)?.first_chunk()?;
            let scope = u32::from_ne_bytes(*name.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(*octets), port, 0, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn datagrams_go_to_their_addresses_and_come_with_their_senders() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let [hub, one, two] = [0; 3].map(|_| UdpSocket::bind(host).unwrap());
            let address = |s: &UdpSocket| s.local_addr().unwrap();
            let mut batch = Datagrams::new(100);
            let to = [(&one, vec![1; 10]), (&two, vec![2; 20]), (&one, vec![3; 101])];
            let sent = to.iter().map(|(s, bytes)| (address(s), &bytes[..]));
            assert_eq!(batch.send(hub.as_fd(), sent).unwrap(), 3);
            assert_eq!(batch.receive(one.as_fd()).unwrap(), 2);
            assert_eq!(batch.get(0), Some((address(&hub), &[1; 10][..])));
            assert_eq!((batch.get(1), batch.get(2)), (None, None), "too long, and not there");
            assert_eq!(batch.receive(two.as_fd()).unwrap(), 1);
            assert_eq!(batch.get(0), Some((address(&hub), &[2; 20][..])));
            let error = batch.receive(two.as_fd()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            // A batch without receive memory must not use its send state.
            let mut sender = Datagrams::new(0);
            assert_eq!(sender.send(hub.as_fd(), [(address(&two), &[4; 4][..])]).unwrap(), 1);
            let error = sender.receive(two.as_fd()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert_eq!(batch.receive(two.as_fd()).unwrap(), 1);
        }
    }
}
