//! A face over a WebSocket (RFC 6455): each binary message is a link packet. Server side only, for
//! browsers. `tungstenite` implements the handshake, the frames and their limits.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use tungstenite::handshake::MidHandshake;
use tungstenite::handshake::server::{NoCallback, ServerHandshake};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Bytes, Error, HandshakeError, Message, WebSocket};

/// A socket with a counter of written bytes.
pub(crate) struct Counted {
    socket: TcpStream,
    written_total: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.socket.write(bytes)?;
        self.written_total += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

type Role = ServerHandshake<Counted, NoCallback>;
type Handshake = MidHandshake<Role>;

/// A connection that is not a face yet.
pub(crate) enum Opening {
    /// The peer's request is incomplete, or our answer has not been sent.
    Waiting(Handshake),
    /// A face.
    Open(Ws),
}

/// An open connection.
pub(crate) struct Ws {
    socket: WebSocket<Counted>,
    /// Bytes written since the queue was last empty: an upper bound of the queue.
    pub(crate) queued: usize,
    pub(crate) is_watched: bool,
}

/// Begins a connection that accepts messages of up to `len_max` bytes and queues up to `limit`.
pub(crate) fn begin(stream: TcpStream, len_max: usize, limit: usize) -> io::Result<Opening> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(len_max))
        .max_frame_size(Some(len_max))
        .read_buffer_size(16 << 10)
        .write_buffer_size(16 << 10)
        .max_write_buffer_size(limit.max(32 << 10));
    let counted = Counted { socket: stream, written_total: 0 };
    went_on(tungstenite::accept_with_config(counted, Some(config)))
}

type Went = Result<WebSocket<Counted>, HandshakeError<Role>>;

fn went_on(went: Went) -> io::Result<Opening> {
    match went {
        Ok(socket) => Ok(Opening::Open(Ws { socket, queued: 0, is_watched: false })),
        Err(HandshakeError::Interrupted(waiting)) => Ok(Opening::Waiting(waiting)),
        Err(HandshakeError::Failure(e)) => Err(io::Error::other(e)),
    }
}

impl Opening {
    /// Continues the handshake after an event.
    pub(crate) fn go_on(self) -> io::Result<Opening> {
        match self {
            Opening::Waiting(handshake) => went_on(handshake.handshake()),
            open => Ok(open),
        }
    }
}

/// What was received.
pub(crate) enum Came {
    /// A link packet.
    Packet(Bytes),
    /// A message whose answer has been queued.
    Answer,
    /// Nothing now.
    Nothing,
    /// The end of the connection.
    Closed,
}

impl Ws {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().socket.as_fd()
    }

    pub(crate) fn written_total(&self) -> u64 {
        self.socket.get_ref().written_total
    }

    pub(crate) fn read(&mut self) -> Result<Came, String> {
        match self.socket.read() {
            Ok(Message::Binary(bytes)) => Ok(Came::Packet(bytes)),
            Ok(Message::Text(_)) => Err("a text, and not a packet".into()),
            Ok(_) => Ok(Came::Answer),
            Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => Ok(Came::Nothing),
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Ok(Came::Closed),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Enqueues a link packet; false if the queue is full. Errors are reported by the next `flush`.
    pub(crate) fn push(&mut self, head: &[u8], piece: &[u8], limit: usize) -> bool {
        let len = head.len() + piece.len();
        if self.queued + len > limit {
            return false;
        }
        let message = Message::binary([head, piece].concat());
        match self.socket.write(message) {
            // It was queued, though not all of the queue could be written.
            Err(Error::Io(_)) | Ok(()) => {
                self.queued += len;
                true
            }
            Err(_) => false,
        }
    }

    /// Writes what the socket accepts; true if the queue is empty.
    pub(crate) fn flush(&mut self) -> Result<bool, String> {
        match self.socket.flush() {
            Ok(()) => {
                self.queued = 0;
                Ok(true)
            }
            Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Ok(true),
            Err(e) => Err(e.to_string()),
        }
    }
}
