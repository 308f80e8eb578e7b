//! Questions to a thread that alone owns its state. A question runs there; its answer comes back.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

/// How long a thread may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A question to the thread that owns a `State`.
pub(crate) type Question<State> = Box<dyn FnOnce(&State) + Send>;

/// Sends a question, and waits for the answer.
///
/// # Errors
/// When there is no answer; `whose` names the thread.
pub(crate) fn ask<State, T: Send + 'static>(
    whose: &str,
    question: impl FnOnce(&State) -> T + Send + 'static,
    send: impl FnOnce(Question<State>),
) -> Result<T, String> {
    answer(whose, |reply| {
        // A client may have given up by then.
        send(Box::new(move |state| drop(reply.send(question(state)))));
    })
}

/// Sends something that a thread answers, and waits for the answer.
///
/// # Errors
/// As of [`ask`].
pub(crate) fn answer<T>(whose: &str, send: impl FnOnce(Sender<T>)) -> Result<T, String> {
    answer_within(ANSWER_LIMIT, whose, send)
}

/// The same, for an answer that takes its time.
///
/// # Errors
/// As of [`ask`].
pub(crate) fn answer_within<T>(
    limit: Duration,
    whose: &str,
    send: impl FnOnce(Sender<T>),
) -> Result<T, String> {
    let (reply, answer) = mpsc::channel();
    send(reply);
    answer.recv_timeout(limit).map_err(|_| format!("{whose} does not answer"))
}
