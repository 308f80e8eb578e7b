//! The thread that asks the source: once a second while there are readers, and for what a reader
//! wants to know besides.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use plexus_api::answer::network::Pair;
use plexus_wire::Prefix;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use crate::published::{Press, Published};
use crate::{Command, Source};

/// How often the source is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// Questions that may wait. Readers hear at once when more do.
const WAITING: usize = 32;

/// The pause after a question: the controller works on it in the thread of all its work.
const PAUSE: Duration = Duration::from_millis(20);

/// A reader's question.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Ways(Pair),
    Routes(Prefix),
    Route(IpAddr),
    Command(Command),
}

/// An answer as JSON, or the reason why there is none.
pub(crate) type Told = Result<Value, String>;

enum Ask {
    /// There is a reader.
    Look,
    Question(Question, oneshot::Sender<Told>),
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Desk {
    asks: SyncSender<Ask>,
    readers: Arc<AtomicUsize>,
    pub(crate) newest: watch::Receiver<Arc<Published>>,
}

/// Somebody reads the newest state as long as this is there.
pub(crate) struct Reading(Arc<AtomicUsize>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Desk {
    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(source: impl Source) -> std::io::Result<Desk> {
        let (asks, asked) = sync_channel(WAITING);
        let (publish, newest) = watch::channel(Arc::default());
        let readers = Arc::new(AtomicUsize::new(0));
        let counted = readers.clone();
        let thread = std::thread::Builder::new().name("page".into());
        thread.spawn(move || run(source, &asked, &counted, &publish))?;
        Ok(Desk { asks, readers, newest })
    }

    /// Has the state made anew while the answer is kept.
    pub(crate) fn read(&self) -> Reading {
        self.readers.fetch_add(1, Ordering::Relaxed);
        // If the thread has that much to do, it looks soon anyway.
        let _ = self.asks.try_send(Ask::Look);
        Reading(self.readers.clone())
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When there is none; `None`: too many questions wait.
    pub(crate) async fn ask(&self, question: Question) -> Option<Told> {
        let (reply, answer) = oneshot::channel();
        self.asks.try_send(Ask::Question(question, reply)).ok()?;
        Some(answer.await.unwrap_or_else(|_| Err("the network is not watched any more".into())))
    }

    /// Whether the state is so new that a reader can begin with it.
    pub(crate) fn is_fresh(&self) -> bool {
        self.newest.borrow().at.is_some_and(|at| at.elapsed() < 2 * PERIOD)
    }
}

fn run(
    mut source: impl Source,
    asked: &Receiver<Ask>,
    readers: &AtomicUsize,
    publish: &watch::Sender<Arc<Published>>,
) {
    let mut press = Press::default();
    let mut next = Instant::now();
    loop {
        let has_readers = readers.load(Ordering::Relaxed) > 0;
        let ask = match has_readers {
            true => asked.recv_timeout(next.saturating_duration_since(Instant::now())),
            false => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match ask {
            Ok(Ask::Question(question, reply)) => {
                let is_command = matches!(question, Question::Command(_));
                // The reader may have gone.
                let _ = reply.send(answer(&mut source, question));
                std::thread::sleep(PAUSE);
                if is_command {
                    next = Instant::now();
                }
            }
            Ok(Ask::Look) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        if now >= next && readers.load(Ordering::Relaxed) > 0 {
            let seen = source.network();
            publish.send_replace(Arc::new(press.print(now, seen)));
            // A source that needs long is not asked all the time.
            next = now + PERIOD.max(now.elapsed() * 2);
        }
    }
}

fn answer(source: &mut impl Source, question: Question) -> Told {
    fn json(answer: Result<impl Serialize, String>) -> Told {
        serde_json::to_value(answer?).map_err(|e| e.to_string())
    }
    match question {
        Question::Ways(pair) => json(source.ways(pair)),
        Question::Routes(first) => json(source.routes(first)),
        Question::Route(address) => json(source.route(address)),
        Question::Command(command) => json(source.command(command)),
    }
}
