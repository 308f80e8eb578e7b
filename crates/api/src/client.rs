//! A client of the control socket: one connection, one answer at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Request;

/// Longest answer, in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket.
    #[error("the daemon does not answer: {0}")]
    Socket(#[from] io::Error),
    /// It ended, or closed the connection.
    #[error("the daemon hung up")]
    HungUp,
    /// It says something else than was asked for.
    #[error("the daemon's answer is none: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It says why not.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to a daemon that may take so long for an answer.
    ///
    /// # Errors
    /// When no daemon listens there, or this user may not ask it.
    pub fn connect(socket: &Path, patience: Duration) -> io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Asks, and reads the answer as JSON.
    ///
    /// # Errors
    /// When there is none, or the daemon refuses.
    pub fn ask(&mut self, request: &Request) -> Result<Value, ClientError> {
        self.stream.get_mut().write_all(request.to_line().as_bytes())?;
        self.next_answer()
    }

    /// Asks, and reads the answer as the type that belongs to the request.
    ///
    /// # Errors
    /// As [`Client::ask`], or when the answer is of another type.
    pub fn get<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        Ok(serde_json::from_value(self.ask(request)?)?)
    }

    /// Reads one more answer, where a request has several.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn next_answer(&mut self) -> Result<Value, ClientError> {
        let mut line = Vec::new();
        if self.stream.by_ref().take(ANSWER_MAX).read_until(b'\n', &mut line)? == 0 {
            return Err(ClientError::HungUp);
        }
        let answer: Value = serde_json::from_slice(&line)?;
        match answer.get("error").and_then(Value::as_str) {
            Some(why) => Err(ClientError::Refused(why.into())),
            None => Ok(answer),
        }
    }
}
