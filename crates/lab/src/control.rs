//! The supervisor's control socket: one JSON object per line each way.
//!
//! ```text
//! {"ask":"status"}              → {"say":"status", …}
//! {"ask":"run","flows":["f"]}   → {"say":"progress","text":…} … {"say":"report", …}
//! {"ask":"cut_short"}           → {"say":"done"}: the run that is under way ends and reports
//! {"ask":"enter","place":"h1"}  → {"say":"entered"} with five descriptors (SCM_RIGHTS, unix(7)):
//!                                 user, PID, network, mount and UTS namespace
//! {"ask":"down"}                → {"say":"done"}, then the lab is gone
//! anything that cannot be done  → {"say":"refused","why":…}
//! ```

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::PidfdFlags;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error};
use crate::status::LabStatus;
use plexus_report::RunReport;

/// How many descriptors come with [`Answer::Entered`].
pub(crate) const WORLD: usize = 5;
/// Longest line that is read, in bytes.
const LINE_MAX: usize = 16 << 20;

/// Requests to a supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Request {
    /// The lab's contents and state.
    Status,
    /// Run traffic of the file.
    Run {
        /// Names of its flows; empty: all of them.
        #[serde(default)]
        flows: Option<Vec<String>>,
    },
    /// End the current run, which reports its results so far.
    CutShort,
    /// The namespaces of a host or node.
    Enter {
        /// Its name.
        place: String,
    },
    /// End.
    Down,
}

/// Answers of a supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Progress; more answers follow.
    Progress {
        /// For a person.
        text: String,
    },
    /// The lab is up: the last line of a supervisor's standard output.
    Ready,
    /// To [`Request::Status`].
    Status(LabStatus),
    /// To [`Request::Run`].
    Report(RunReport),
    /// To [`Request::Enter`].
    Entered,
    /// To [`Request::CutShort`] and [`Request::Down`].
    Done,
    /// It cannot be done.
    Refused {
        /// For a person.
        why: String,
        /// Whether the file is at fault.
        #[serde(default)]
        file: bool,
    },
}

/// Writes one line.
pub(crate) fn send(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads one line; `None` at the end.
///
/// # Errors
/// `InvalidData` for a line that is malformed or too long.
pub(crate) fn receive<T: for<'de> Deserialize<'de>>(
    from: &mut impl BufRead,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    io::Read::take(from, LINE_MAX as u64).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

/// Answers [`Request::Enter`].
pub(crate) fn send_world(to: &UnixStream, world: [BorrowedFd<'_>; WORLD]) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Answer::Entered)?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(WORLD))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(&world));
    rustix::net::sendmsg(to, &[IoSlice::new(&line)], &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A conversation with a supervisor.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Result<Client, Error> {
        let stream = UnixStream::connect(socket)
            .doing(|| format!("asking the lab at {}", socket.display()))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Sets the timeout for an answer.
    pub(crate) fn wait_at_most(&self, limit: Duration) -> Result<(), Error> {
        let set = self.stream.get_ref().set_read_timeout(Some(limit));
        set.doing(|| "asking the lab".into())
    }

    /// A handle of the supervisor, which created the socket: the kernel reports its process
    /// (SO_PEERCRED, unix(7)). `None` if it belongs to another user or has ended.
    pub(crate) fn supervisor(&self) -> Option<OwnedFd> {
        let stream = self.stream.get_ref();
        let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
        if peer.uid != rustix::process::geteuid() {
            return None;
        }
        let handle = rustix::process::pidfd_open(peer.pid, PidfdFlags::empty()).ok()?;
        // While the other end is open its process lives, so the number was not another's yet.
        let mut fds = [PollFd::new(stream, PollFlags::empty())];
        rustix::event::poll(&mut fds, Some(&Timespec::default())).ok()?;
        let gone = PollFlags::HUP | PollFlags::ERR;
        (!fds[0].revents().intersects(gone)).then_some(handle)
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Result<(), Error> {
        send(self.stream.get_ref(), request).doing(|| "asking the lab".into())
    }

    /// The next answer; a refusal is an error.
    pub(crate) fn answer(&mut self) -> Result<Answer, Error> {
        understand(receive(&mut self.stream))
    }

    /// Requests the namespaces of a place.
    pub(crate) fn enter(&mut self, place: &str) -> Result<[OwnedFd; WORLD], Error> {
        self.ask(&Request::Enter { place: place.to_string() })?;
        let mut line = vec![0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(WORLD))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(
            self.stream.get_ref(),
            &mut [IoSliceMut::new(&mut line)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
        .doing(|| "asking the lab".into())?;
        let fds: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        understand(receive(&mut &line[..got.bytes]))?;
        fds.try_into().map_err(|_| Error::Refused("the lab sent no namespaces".into()))
    }
}

/// Converts an answer for the client.
pub(crate) fn understand(answer: io::Result<Option<Answer>>) -> Result<Answer, Error> {
    match answer.doing(|| "reading the lab's answer".into())? {
        Some(Answer::Refused { why, file: true }) => Err(Error::File(why)),
        Some(Answer::Refused { why, file: false }) => Err(Error::Refused(why)),
        Some(answer) => Ok(answer),
        None => Err(Error::Refused("the lab ended without an answer".into())),
    }
}
