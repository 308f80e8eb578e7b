//! One file on this machine, for one controller.

mod store;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_controller::tenure::{Answer, Ask};

use self::store::{Store, StoreError};
use crate::Keeper;
use crate::batch::Batch;

/// The only lease.
const LEASE: u64 = 1;
/// How long after a write that failed the next try is.
const AGAIN: Duration = Duration::from_secs(1);

/// The store of one controller. No other controller can open it meanwhile, so its lease has no end.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    /// Absent after a failure: it is opened again for the next try.
    store: Option<Store>,
    answers: VecDeque<Answer>,
    /// Writes that are not made yet: those of a moment are one transaction.
    waiting: Batch,
    again_at: Instant,
}

impl File {
    /// Opens the file, and creates it if there is none.
    ///
    /// # Errors
    /// When it cannot be read or written, is not a store, is damaged or of a newer version, or is
    /// open in another process.
    pub fn open(path: &Path) -> Result<File, String> {
        let store = Store::open(path).map_err(|e| e.to_string())?;
        let answers = VecDeque::from([Answer::Leader(None)]);
        let (path, store) = (path.to_path_buf(), Some(store));
        Ok(File { path, store, answers, waiting: Batch::default(), again_at: Instant::now() })
    }

    fn store(&mut self) -> Result<&Store, StoreError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.path)?,
        };
        Ok(self.store.insert(store))
    }

    fn campaign(&mut self) -> Result<Answer, StoreError> {
        let store = self.store()?;
        Ok(Answer::Won { lease: LEASE, epoch: store.next_epoch()?, stored: store.load()? })
    }

    fn write(&mut self) {
        let changes: Vec<_> = self.waiting.changes.values().cloned().collect();
        match self.store().and_then(|store| store.apply(&changes)) {
            Ok(()) => {
                self.waiting.changes.clear();
                self.answers.push_back(Answer::Written {
                    epoch: self.waiting.epoch,
                    ticket: self.waiting.ticket,
                });
            }
            Err(error) => {
                // After an error of the disk it takes nothing more until it is opened again.
                self.store = None;
                self.again_at = Instant::now() + AGAIN;
                self.answers.push_back(Answer::Trouble(format!("not stored: {error}")));
            }
        }
    }
}

impl Keeper for File {
    fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Lease { asked, .. } => {
                self.answers.push_back(Answer::Leased { lease: LEASE, time: None, asked });
            }
            Ask::Campaign { .. } => {
                let answer = self.campaign().unwrap_or_else(|e| Answer::Trouble(e.to_string()));
                self.answers.push_back(answer);
            }
            Ask::Write { epoch, ticket, changes } => self.waiting.add(epoch, ticket, changes),
            // Nobody else leads, and nobody waits for the end of the lease.
            Ask::Keep { .. } | Ask::Report { .. } | Ask::Release { .. } => {}
        }
    }

    fn poll(&mut self) -> Option<Answer> {
        if !self.waiting.is_empty() && self.again_at <= Instant::now() {
            self.write();
        }
        self.answers.pop_front()
    }

    fn raise_epoch(&mut self, above: u64) -> Result<bool, String> {
        let raised = self.store().and_then(|store| store.raise_epoch(above));
        raised.map(|()| true).map_err(|e| e.to_string())
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }
}
