//! Where a group's things are in etcd, and how they are written.

use etcd_client::KeyValue;
use plexus_controller::tenure::{Leader, Member};
use plexus_controller::{CommonVersion, Lease, RecordKey};
use plexus_wire::hex;
use serde::{Deserialize, Serialize};

/// The version of the layout.
pub(super) const FORMAT: &str = "1";

/// The keys of a group.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    root: String,
}

/// The value of the leader record.
#[derive(Serialize, Deserialize)]
struct Holder {
    name: String,
}

impl Keys {
    pub(super) fn new(group: &[u8; 16]) -> Keys {
        Keys { root: format!("/plexus/{}", hex(group)) }
    }

    pub(super) fn format(&self) -> String {
        format!("{}/format", self.root)
    }

    /// The prefix of all that is watched.
    pub(super) fn now(&self) -> String {
        format!("{}/now/", self.root)
    }

    pub(super) fn leader(&self) -> String {
        format!("{}/now/leader", self.root)
    }

    pub(super) fn member(&self, name: &str) -> String {
        format!("{}/now/member/{name}", self.root)
    }

    /// The name of the controller that a member's key is about.
    pub(super) fn member_of(&self, key: &[u8]) -> Option<String> {
        let name = key.strip_prefix(self.member("").as_bytes())?;
        String::from_utf8(name.to_vec()).ok()
    }

    /// Changes with every write: it puts them in order.
    pub(super) fn written(&self) -> String {
        format!("{}/written", self.root)
    }

    pub(super) fn leases(&self) -> String {
        format!("{}/lease/", self.root)
    }

    pub(super) fn common(&self) -> String {
        format!("{}/common/", self.root)
    }

    pub(super) fn record(&self, key: RecordKey) -> String {
        match key {
            RecordKey::Lease(ip) => format!("{}{ip}", self.leases()),
            RecordKey::Common(version) => format!("{}{version}", self.common()),
        }
    }
}

/// The value of a leader record.
pub(super) fn holder(name: &str) -> Vec<u8> {
    serde_json::to_vec(&Holder { name: name.to_string() }).unwrap_or_default()
}

/// Reads a leader record.
///
/// # Errors
/// Naming the key, if something else is there.
pub(super) fn leader(kv: &KeyValue) -> Result<Leader, String> {
    let holder: Holder = parse(kv)?;
    Ok(Leader { name: holder.name, lease: kv.lease() as u64, epoch: kv.mod_revision() as u64 })
}

/// Reads a controller's report.
///
/// # Errors
/// As of [`leader`].
pub(super) fn member(kv: &KeyValue) -> Result<Member, String> {
    parse(kv)
}

/// Reads a leased address.
///
/// # Errors
/// As of [`leader`].
pub(super) fn lease(kv: &KeyValue) -> Result<Lease, String> {
    parse(kv)
}

/// Reads a version of the common file.
///
/// # Errors
/// As of [`leader`].
pub(super) fn common(kv: &KeyValue) -> Result<CommonVersion, String> {
    parse(kv)
}

fn parse<'a, T: Deserialize<'a>>(kv: &'a KeyValue) -> Result<T, String> {
    serde_json::from_slice(kv.value()).map_err(|e| {
        let key = String::from_utf8_lossy(kv.key());
        format!("{key} is not what a controller writes ({e}): remove it (etcdctl del {key})")
    })
}
