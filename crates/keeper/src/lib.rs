//! The part of the world that a controller needs: a lease on leadership with a number that only
//! grows, and a durable store whose writes name that number.
//!
//! There are two [`Keeper`]s. [`File`] is one file on this machine for one controller: there is
//! nothing to install, and it always leads. [`Etcd`] is a cluster that several controllers share;
//! [`Tenure`](plexus_controller::tenure::Tenure) decides which of them leads.
//!
//! A write that fails is tried again until it is durable or refused, and later ones wait for it:
//! [`Answer::Written`] says that all writes before are durable too.

mod batch;
mod etcd;
mod file;

pub use etcd::Etcd;
pub use file::File;
use plexus_controller::EPOCH_MAX;
use plexus_controller::tenure::{Answer, Ask};

/// An epoch to lead with. Versions of routes have no room for a higher one than the last, and nodes
/// would take them for old ones.
fn checked(epoch: u64) -> Result<u64, String> {
    match epoch {
        0..=EPOCH_MAX => Ok(epoch),
        _ => Err(format!(
            "its epochs are used up: {epoch} is above the last one, {EPOCH_MAX}. Begin with a new \
             store, and restart every node"
        )),
    }
}

/// A lease on leadership, and a store.
pub trait Keeper: Send {
    /// Passes a request on. Its answer comes later.
    fn ask(&mut self, ask: Ask);

    /// The next answer or news, if there is any by now.
    fn poll(&mut self) -> Option<Answer>;

    /// Makes all later epochs higher than this one. False: the store cannot, because etcd's
    /// revisions only grow by its own writes.
    ///
    /// # Errors
    /// In words, when that cannot be stored.
    fn raise_epoch(&mut self, _above: u64) -> Result<bool, String> {
        Ok(false)
    }

    /// Names it, for people.
    fn describe(&self) -> String;
}
