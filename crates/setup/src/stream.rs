//! Messages over TCP: each is preceded by its length in two bytes. The peer may be anybody, so
//! every message has a greatest length and a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use plexus_control::join::MESSAGE_LEN_MAX;

/// Receives a message by the deadline.
///
/// # Errors
/// `TimedOut`, `UnexpectedEof` when the peer has closed, `InvalidData` for a length that no message
/// has.
pub(crate) fn receive(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut len = [0; 2];
    fill(stream, &mut len, deadline)?;
    let len = usize::from(u16::from_be_bytes(len));
    if len == 0 || len > MESSAGE_LEN_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; len];
    fill(stream, &mut message, deadline)?;
    Ok(message)
}

/// Sends a message.
///
/// # Errors
/// When the peer does not take it within some seconds.
pub(crate) fn send(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let len = u16::try_from(message.len()).map_err(|_| ErrorKind::InvalidInput)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[&len.to_be_bytes()[..], message].concat())
}

/// Whether the peer is still there: it has not closed, and nothing went wrong.
pub(crate) fn is_open(stream: &TcpStream) -> bool {
    let set = stream.set_nonblocking(true);
    let peeked = stream.peek(&mut [0]);
    let reset = stream.set_nonblocking(false);
    let waits = matches!(&peeked, Err(e) if e.kind() == ErrorKind::WouldBlock);
    set.is_ok() && reset.is_ok() && waits
}

/// Fills a buffer, however slowly the peer sends.
fn fill(stream: &mut TcpStream, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => buffer = &mut buffer[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
