//! A neighbour that sends link messages and does not authenticate: a node of another group, a
//! second node at the same port, or a cable that leads back. Its port is a host port or in
//! conflict. The operator is told why: once, and again when the reason changes. A host can forge
//! all of these messages, so the rate is limited.

use std::fmt;
use std::time::Duration;

use plexus_wire::Time;
use serde::{Deserialize, Serialize};

use crate::session::Refused;
use crate::session::frame::Message;

/// After this time, Hellos that no authentication has followed are reported.
const UNPROVED_AFTER: Duration = Duration::from_secs(5);
/// Least time from one report to the next one, if the reason is another, or the carrier was lost.
const OTHER_AFTER: Duration = Duration::from_secs(10);
/// Least time from one report to the next one with the same reason.
const SAME_AFTER: Duration = Duration::from_secs(3600);

/// Why a neighbour is not authenticated. Serialised in recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stranger {
    /// A message was refused.
    Refused(Refused),
    /// The neighbour begins handshakes and does not complete them.
    Unproved,
}

impl Stranger {
    /// What the operator can do.
    pub const fn advice(self) -> &'static str {
        match self {
            Stranger::Refused(Refused::OwnIdentity) => {
                "remove the cable if it leads back to this node; otherwise issue another number to \
                 one of the two boxes (`plexus identity issue --number`)"
            }
            Stranger::Refused(Refused::OtherPeer) => {
                "a fabric link joins two nodes: remove the other nodes, or the hub between them"
            }
            Stranger::Refused(Refused::Pinned) => {
                "remove `role = \"host\"` from the port if a node belongs there"
            }
            Stranger::Refused(Refused::Role) => {
                "connect the controller to a port with a device: a tunnel joins two nodes"
            }
            Stranger::Refused(Refused::Revoked) => {
                "unplug the box if it was taken out of the group; if it has a new key, have its \
                 node read it (`systemctl reload plexus-node@NAME`)"
            }
            Stranger::Refused(Refused::Version) => "run the same version of Plexus at both ends",
            _ => {
                "compare the groups of both nodes (`plexus identity show FILE`) and issue one of \
                 them an identity of the other's group, or pin the port with `role = \"host\"`"
            }
        }
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Both sides hash the group first, so nothing from another group can be decrypted.
            Stranger::Refused(Refused::Authentication | Refused::Group) => {
                f.write_str("the neighbour is a node of another group")
            }
            Stranger::Refused(Refused::Pinned) => {
                f.write_str("the neighbour is a node, and the port is pinned to hosts")
            }
            Stranger::Refused(refused) => {
                write!(f, "the neighbour is a node that did not authenticate: {refused}")
            }
            Stranger::Unproved => f.write_str(
                "the neighbour is a node that does not complete the handshake: it is of another \
                 group, or does not receive this node's messages",
            ),
        }
    }
}

/// The unauthenticated neighbour of one port.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    is_there: Option<Stranger>,
    /// When the first Hello arrived that no authentication has followed.
    since: Option<Time>,
    told: Option<(Stranger, Time)>,
    /// The carrier was lost after the last report.
    is_moved: bool,
}

impl Strangers {
    pub(super) fn is_there(&self) -> Option<Stranger> {
        self.is_there
    }

    /// A message was refused. Returns what to report.
    pub(super) fn refused(&mut self, now: Time, why: Refused) -> Option<Stranger> {
        let shows_one = match why {
            Refused::Authentication
            | Refused::Credential
            | Refused::Facts
            | Refused::Group
            | Refused::KeyMismatch
            | Refused::OtherPeer
            | Refused::OwnIdentity
            | Refused::Pinned
            | Refused::Revoked
            | Refused::Role
            | Refused::Signature
            | Refused::Version => true,
            // These happen between nodes that authenticate, too.
            _ => false,
        };
        if shows_one { self.note(now, Stranger::Refused(why)) } else { None }
    }

    /// A Hello was answered, and the neighbour is not authenticated. Returns what to report.
    pub(super) fn unproved(&mut self, now: Time) -> Option<Stranger> {
        let since = *self.since.get_or_insert(now);
        let is_known = matches!(self.is_there, Some(Stranger::Refused(_)));
        if is_known || now.since(since) < UNPROVED_AFTER {
            return None;
        }
        self.note(now, Stranger::Unproved)
    }

    /// The neighbour has authenticated.
    pub(super) fn proved(&mut self) {
        (self.is_there, self.since) = (None, None);
    }

    /// The carrier was lost.
    pub(super) fn down(&mut self) {
        self.proved();
        self.is_moved = true;
    }

    fn note(&mut self, now: Time, stranger: Stranger) -> Option<Stranger> {
        self.is_there = Some(stranger);
        let is_same = |told| told == stranger && !self.is_moved;
        let is_news = self.told.is_none_or(|(told, at)| {
            now.since(at) >= if is_same(told) { SAME_AFTER } else { OTHER_AFTER }
        });
        if !is_news {
            return None;
        }
        (self.told, self.is_moved) = (Some((stranger, now)), false);
        Some(stranger)
    }
}

/// Whether it is a step of a handshake, or of an unknown version.
pub(super) fn is_hello(message: &[u8]) -> bool {
    matches!(Message::decode(message), Ok(Message::Hello(_)) | Err(Refused::Version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_another_one_soon_and_none_too_often() {
        let mut strangers = Strangers::default();
        let (group, key) = (Refused::Authentication, Refused::Signature);
        let at = Time::from_secs;
        assert_eq!(strangers.refused(at(1), group), Some(Stranger::Refused(group)));
        for s in 2..12 {
            assert_eq!(strangers.refused(at(s), group), None);
        }
        assert_eq!(strangers.refused(at(12), key), Some(Stranger::Refused(key)));
        assert_eq!(strangers.refused(at(13), group), None);
        assert_eq!(strangers.is_there(), Some(Stranger::Refused(group)));
        assert_eq!(strangers.refused(at(22), group), Some(Stranger::Refused(group)));
        // Not a reason: it happens between nodes that authenticate.
        assert_eq!(strangers.refused(at(60), Refused::Duplicate), None);
        strangers.proved();
        assert_eq!(strangers.is_there(), None);
        assert_eq!(strangers.refused(at(61), group), None);
        // Another cable may lead to another node.
        strangers.down();
        assert_eq!(strangers.refused(at(62), group), Some(Stranger::Refused(group)));
        strangers.down();
        assert_eq!(strangers.refused(at(63), group), None);
    }

    #[test]
    fn hellos_that_lead_nowhere_show_a_stranger() {
        let mut strangers = Strangers::default();
        assert_eq!(strangers.unproved(Time::from_secs(1)), None);
        assert_eq!(strangers.unproved(Time::from_secs(2)), None);
        strangers.proved();
        assert_eq!(strangers.unproved(Time::from_secs(5)), None);
        assert_eq!(strangers.unproved(Time::from_secs(9)), None);
        assert_eq!(strangers.unproved(Time::from_secs(10)), Some(Stranger::Unproved));
        // A refusal says more.
        let (now, why) = (Time::from_secs(11), Refused::Authentication);
        assert_eq!(strangers.refused(now, why), None);
        assert_eq!(strangers.unproved(now), None);
        assert_eq!(strangers.is_there(), Some(Stranger::Refused(why)));
    }
}
