//! A connection to one member of the cluster, as long as it works.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, Event, EventType, GetOptions, KeyValue, Txn, TxnOp,
    WatchOptions,
};
use plexus_controller::tenure::{Answer, Ask};
use plexus_io::secret;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::keys::{self, FORMAT, Keys};
use super::{LIMIT, requests, words};
use crate::batch::Batch;

/// The state that outlasts a connection.
pub(super) struct Worker {
    pub(super) endpoints: Vec<String>,
    pub(super) options: ConnectOptions,
    pub(super) keys: Keys,
    pub(super) name: String,
    pub(super) state: PathBuf,
    pub(super) tell: Arc<dyn Fn(Answer) + Send + Sync>,
    /// Writes that are not durable yet.
    pub(super) waiting: Batch,
    /// The revision of the last write of an epoch.
    pub(super) written: (u64, i64),
    /// Controllers whose reports were told.
    pub(super) members: BTreeSet<String>,
}

/// The end of a request.
enum Done {
    Answer(Option<Answer>),
    /// A write: its epoch, its ticket, and its revision, if it was allowed.
    Write(u64, u64, Option<i64>),
}

impl Worker {
    /// Serves requests by one member. Ok: the controller has ended.
    ///
    /// # Errors
    /// In words, why another member has to be tried.
    pub(super) async fn session(
        &mut self,
        at: usize,
        asks: &mut UnboundedReceiver<Ask>,
    ) -> Result<(), String> {
        let connect = Client::connect([&self.endpoints[at]], Some(self.options.clone()));
        let mut client = in_time(connect).await?;
        let revision = self.begin(&mut client).await?;
        let options = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        let mut news = in_time(client.watch(self.keys.now(), Some(options))).await?;
        let mut running: JoinSet<Result<Done, String>> = JoinSet::new();
        let mut writing: Option<Batch> = None;
        let result = loop {
            if writing.is_none() && !self.waiting.is_empty() {
                let batch = std::mem::take(&mut self.waiting);
                self.waiting.epoch = batch.epoch;
                let (epoch, ticket) = (batch.epoch, batch.ticket);
                let changes =
                    batch.changes.iter().map(|(key, change)| (*key, change.clone())).collect();
                if self.written.0 != epoch {
                    self.written = (epoch, epoch as i64);
                }
                let (client, keys, last) = (client.clone(), self.keys.clone(), self.written.1);
                let write = requests::write(client, keys, epoch, last, changes);
                running.spawn(async move { Ok(Done::Write(epoch, ticket, write.await?)) });
                writing = Some(batch);
            }
            tokio::select! {
                ask = asks.recv() => match ask {
                    None => {
                        // The last request gives up the lease.
                        let _ = timeout(LIMIT, running.join_all()).await;
                        return Ok(());
                    }
                    Some(Ask::Write { epoch, ticket, changes }) => {
                        self.waiting.add(epoch, ticket, changes);
                    }
                    Some(ask) => {
                        let (client, keys) = (client.clone(), self.keys.clone());
                        let serve = requests::serve(client, keys, self.name.clone(), ask);
                        running.spawn(async move { Ok(Done::Answer(serve.await?)) });
                    }
                },
                Some(done) = running.join_next() => match done.map_err(|e| e.to_string()) {
                    Ok(Ok(Done::Answer(answer))) => {
                        answer.into_iter().for_each(|answer| (self.tell)(answer));
                    }
                    Ok(Ok(Done::Write(epoch, ticket, revision))) => {
                        writing = None;
                        (self.tell)(match revision {
                            Some(revision) => {
                                self.written = (epoch, revision);
                                Answer::Written { epoch, ticket }
                            }
                            None => Answer::Fenced { epoch },
                        });
                    }
                    Ok(Err(trouble)) | Err(trouble) => break Err(trouble),
                },
                message = news.message() => {
                    let message = match message.map_err(|e| words(&e)) {
                        Ok(Some(message)) => message,
                        Ok(None) => break Err("it has ended the watch".into()),
                        Err(trouble) => break Err(trouble),
                    };
                    if message.canceled() {
                        break Err(format!("it has ended the watch: {}", message.cancel_reason()));
                    }
                    let tell = |event: &Event| match event.kv() {
                        Some(kv) => self.tell_of(kv, event.event_type() == EventType::Put),
                        None => Ok(()),
                    };
                    if let Err(trouble) = message.events().iter().try_for_each(tell) {
                        break Err(trouble);
                    }
                }
            }
        };
        // A write whose end is not known is made again.
        if let Some(mut batch) = writing {
            let later = std::mem::take(&mut self.waiting);
            if !later.is_empty() {
                batch.add(later.epoch, later.ticket, later.changes.into_values().collect());
            }
            self.waiting = batch;
        }
        result
    }

    /// Forgets the requests that came while there was no connection, except writes. False: the
    /// controller has ended.
    pub(super) fn forget(&mut self, asks: &mut UnboundedReceiver<Ask>) -> bool {
        loop {
            match asks.try_recv() {
                Ok(Ask::Write { epoch, ticket, changes }) => {
                    self.waiting.add(epoch, ticket, changes);
                }
                Ok(_) => {}
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Checks that it is the right cluster, and tells what is there. Gives the revision of that.
    async fn begin(&mut self, client: &mut Client) -> Result<i64, String> {
        let format = self.keys.format();
        let found = in_time(client.get(&*format, None)).await?;
        check_cluster(&self.state, found.header().map_or(0, |h| h.cluster_id()))?;
        match found.kvs().first().map(|kv| String::from_utf8_lossy(kv.value())) {
            Some(found) if found == FORMAT => {}
            Some(found) => {
                return Err(format!("{format} is {found}, this program reads {FORMAT}: update it"));
            }
            None => {
                let is_new = Compare::create_revision(&*format, CompareOp::Equal, 0);
                let put = TxnOp::put(&*format, FORMAT, None);
                let made = in_time(client.txn(Txn::new().when([is_new]).and_then([put]))).await?;
                if !made.succeeded() {
                    return Err("another controller has just begun there".into());
                }
            }
        }
        let options = GetOptions::new().with_prefix();
        let all = in_time(client.get(self.keys.now(), Some(options))).await?;
        let leader = self.keys.leader();
        let (leaders, members): (Vec<_>, Vec<_>) =
            all.kvs().iter().partition(|kv| kv.key() == leader.as_bytes());
        let before = std::mem::take(&mut self.members);
        members.into_iter().try_for_each(|kv| self.tell_of(kv, true))?;
        for name in before.difference(&self.members) {
            (self.tell)(Answer::Member(name.clone(), None));
        }
        // It comes last: a leader is judged by its reports.
        match leaders.first() {
            Some(kv) => self.tell_of(kv, true)?,
            None => (self.tell)(Answer::Leader(None)),
        }
        Ok(all.header().map_or(0, |header| header.revision()))
    }

    /// Tells of a key that is there, or is no more.
    fn tell_of(&mut self, kv: &KeyValue, is_there: bool) -> Result<(), String> {
        if kv.key() == self.keys.leader().as_bytes() {
            let leader = if is_there { Some(keys::leader(kv)?) } else { None };
            (self.tell)(Answer::Leader(leader));
        } else if let Some(name) = self.keys.member_of(kv.key()) {
            // One that cannot be read is as good as none.
            let member = if is_there { keys::member(kv).ok() } else { None };
            match member {
                Some(_) => self.members.insert(name.clone()),
                None => self.members.remove(&name),
            };
            (self.tell)(Answer::Member(name, member));
        }
        Ok(())
    }
}

/// Remembers the cluster in a file, and refuses another one: it would have no leases, and its
/// epochs would begin anew.
fn check_cluster(state: &Path, cluster: u64) -> Result<(), String> {
    let path = state.display();
    match fs::read_to_string(state) {
        // A crash may have left an empty one.
        Ok(text) if !text.is_empty() => {
            match text.trim().strip_prefix("etcd cluster ").map(str::parse::<u64>) {
                Some(Ok(known)) if known == cluster => Ok(()),
                Some(Ok(known)) => Err(format!(
                    "it is of cluster {cluster:x}, this controller's is {known:x}: correct \
                 `endpoints`; or remove {path} and restart the nodes, if the cluster was made anew \
                 on purpose"
                )),
                _ => Err(format!("{path} names no cluster: move it away")),
            }
        }
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(format!("reading {path}: {e}")),
        _ => secret::put(state, &format!("etcd cluster {cluster}\n"))
            .map_err(|e| format!("writing {path}: {e}")),
    }
}

/// Waits for a call of the client, in words if it fails.
pub(super) async fn in_time<T>(
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, String> {
    limited(LIMIT, async { call.await.map_err(|e| words(&e)) }).await
}

/// Waits for a call no longer than `limit`.
pub(super) async fn limited<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = |_| format!("no answer within {} s", limit.as_secs());
    timeout(limit, call).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_cluster_is_refused_and_a_file_that_a_crash_left_empty_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("cluster");
        fs::write(&state, "").unwrap();
        for _ in 0..2 {
            assert_eq!(check_cluster(&state, 7), Ok(()));
        }
        assert_eq!(fs::read_to_string(&state).unwrap(), "etcd cluster 7\n");
        assert!(check_cluster(&state, 8).unwrap_err().contains("it is of cluster 8"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::write(&state, "something else").unwrap();
        assert!(check_cluster(&state, 7).unwrap_err().contains("names no cluster"));
    }
}
