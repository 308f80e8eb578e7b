//! A reader's stream of events (WHATWG HTML, 9.2).

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use crate::desk::{Desk, Reading};
use crate::published::Published;
use crate::readers::Reader;

/// A reader that takes nothing for so long is given up.
const STALLED: Duration = Duration::from_secs(20);
/// A stream says something at least so often.
const SILENCE: Duration = Duration::from_secs(5);

/// The body of an answer.
pub(crate) enum Reply {
    /// These bytes.
    Bytes(Option<Bytes>),
    /// Events until the reader goes.
    Events(Receiver<Bytes>, Rc<Reader>),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let bytes = match self.get_mut() {
            Reply::Bytes(bytes) => Poll::Ready(bytes.take()),
            Reply::Events(events, reader) => {
                let event = events.poll_recv(cx);
                if event.is_ready() {
                    reader.takes();
                }
                event
            }
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Reply::Bytes(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Bytes(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Reply::Events(..) => SizeHint::default(),
        }
    }
}

/// The events for a reader, from now on.
pub(crate) fn events(desk: &Desk, reader: Rc<Reader>) -> Reply {
    // One event waits here: what is sent next is the newest by then.
    let (sender, receiver) = channel(1);
    tokio::task::spawn_local(feed(desk.clone(), desk.read(), sender, reader.clone()));
    Reply::Events(receiver, reader)
}

async fn feed(mut desk: Desk, _reading: Reading, to: Sender<Bytes>, reader: Rc<Reader>) {
    let mut versions = [0; Published::PARTS];
    let mut has_begun = false;
    loop {
        let mut waiting = Vec::new();
        if has_begun || desk.is_fresh() {
            has_begun = true;
            let newest: Arc<Published> = desk.newest.borrow_and_update().clone();
            for (part, version) in newest.parts.iter().zip(&mut versions) {
                if part.version != *version {
                    *version = part.version;
                    waiting.push(part.event.clone());
                }
            }
        }
        if waiting.is_empty() {
            match timeout(SILENCE, desk.newest.changed()).await {
                Ok(Ok(())) => {
                    has_begun = true;
                    continue;
                }
                // The thread that asks the source has ended.
                Ok(Err(_)) => return,
                Err(_) => waiting.push(Bytes::from_static(b":\n\n")),
            }
        }
        for event in waiting {
            match timeout(STALLED, to.send(event)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => return reader.end(),
            }
        }
    }
}
