//! A face over a WebSocket (RFC 6455): each binary message is a link packet. Server side only, for
//! browsers. Handshake, frames and their bounds are `tungstenite`'s.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use tungstenite::handshake::MidHandshake;
use tungstenite::handshake::server::{NoCallback, ServerHandshake};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Bytes, Error, HandshakeError, Message, WebSocket};

type Handshake = MidHandshake<ServerHandshake<TcpStream, NoCallback>>;

/// A connection that is not a face yet.
pub(crate) enum Opening {
    /// The peer's request has not come as a whole, or our answer has not gone.
    Waiting(Handshake),
    /// A face.
    Open(Ws),
}

/// An open connection.
pub(crate) struct Ws {
    socket: WebSocket<TcpStream>,
    /// Bytes written since the last time that everything had gone: what waits, at most.
    pub(crate) queued: usize,
    pub(crate) is_watched: bool,
}

/// Begins a connection that takes messages of up to `len_max` bytes and queues up to `limit`.
pub(crate) fn begin(stream: TcpStream, len_max: usize, limit: usize) -> io::Result<Opening> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(len_max))
        .max_frame_size(Some(len_max))
        .read_buffer_size(16 << 10)
        .write_buffer_size(16 << 10)
        .max_write_buffer_size(limit.max(32 << 10));
    went_on(tungstenite::accept_with_config(stream, Some(config)))
}

type Went = Result<WebSocket<TcpStream>, HandshakeError<ServerHandshake<TcpStream, NoCallback>>>;

fn went_on(went: Went) -> io::Result<Opening> {
    match went {
        Ok(socket) => Ok(Opening::Open(Ws { socket, queued: 0, is_watched: false })),
        Err(HandshakeError::Interrupted(waiting)) => Ok(Opening::Waiting(waiting)),
        Err(HandshakeError::Failure(e)) => Err(io::Error::other(e)),
    }
}

impl Opening {
    /// Goes on after the socket had something.
    pub(crate) fn go_on(self) -> io::Result<Opening> {
        match self {
            Opening::Waiting(handshake) => went_on(handshake.handshake()),
            open => Ok(open),
        }
    }
}

/// What came.
pub(crate) enum Came {
    /// A link packet.
    Packet(Bytes),
    /// Something that asks for an answer, which is queued.
    Answer,
    /// Nothing now.
    Nothing,
    /// The end.
    Closed,
}

impl Ws {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
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

    /// Queues a link packet; false if there is no room. Errors show with the next `flush`.
    pub(crate) fn push(&mut self, head: &[u8], piece: &[u8], limit: usize) -> bool {
        let len = head.len() + piece.len();
        if self.queued + len > limit {
            return false;
        }
        let message = Message::binary([head, piece].concat());
        match self.socket.write(message) {
            // It is queued, though not all of the queue could be written.
            Err(Error::Io(_)) | Ok(()) => {
                self.queued += len;
                true
            }
            Err(_) => false,
        }
    }

    /// Writes what the socket takes; true if that is all.
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
