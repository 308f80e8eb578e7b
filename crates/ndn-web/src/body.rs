//! Response bodies: a few bytes, or segments as they arrive.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use plexus_ndn_apps::Failure;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Receiver;

use crate::desk::Desk;

/// Most segments buffered for the reader.
pub const WAITING_MAX: usize = 16;

/// The body of a response.
pub enum Reply {
    /// These bytes.
    Bytes(Option<Bytes>),
    /// The content of segments.
    Segments(Segments),
}

/// The content of segments, as they arrive.
pub struct Segments {
    /// Delivers the segments in order; `None` after the last.
    pub receiver: Receiver<Result<Option<Box<[u8]>>, Failure>>,
    /// Fetches more segments once there is room.
    pub desk: Desk,
    /// Bytes of the first segment to skip.
    pub skip: u64,
    /// Bytes still to deliver; `None`: all.
    pub remaining: Option<u64>,
    /// The request's share of the limit on concurrent requests.
    pub permit: OwnedSemaphorePermit,
}

impl Reply {
    /// A text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Bytes(Some(Bytes::from(text.into())))
    }

    /// Nothing.
    pub fn empty() -> Reply {
        Reply::Bytes(None)
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.get_mut() {
            Reply::Bytes(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Reply::Segments(segments) => segments.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reply::Bytes(bytes) => bytes.is_none(),
            Reply::Segments(segments) => segments.remaining == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Bytes(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Reply::Segments(segments) => match segments.remaining {
                Some(remaining) => SizeHint::with_exact(remaining),
                None => SizeHint::default(),
            },
        }
    }
}

impl Segments {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        loop {
            if self.remaining == Some(0) {
                return Poll::Ready(None);
            }
            let content = match self.receiver.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Some(content)))) => content,
                // For an object of unknown size this is the end; otherwise it is too early.
                Poll::Ready(Some(Ok(None))) if self.remaining.is_none() => {
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(failure))) => {
                    return Poll::Ready(Some(Err(std::io::Error::other(failure))));
                }
                Poll::Ready(Some(Ok(None)) | None) => {
                    let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    return Poll::Ready(Some(Err(cut)));
                }
            };
            // One wake-up for several segments.
            if self.receiver.len() == WAITING_MAX / 2 || self.receiver.is_empty() {
                self.desk.wake();
            }
            let mut bytes = Bytes::from(content);
            let skip = self.skip.min(bytes.len() as u64);
            self.skip -= skip;
            bytes = bytes.slice(skip as usize..);
            if let Some(remaining) = &mut self.remaining {
                bytes.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
                *remaining -= bytes.len() as u64;
            }
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }
}
