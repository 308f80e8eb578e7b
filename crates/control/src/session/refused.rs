//! Why a message was refused, and counters of the reasons.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! refused {
    ($($(#[doc = $doc:literal])+ $name:ident $word:literal $sentence:literal)+) => {
        /// Why a message was refused. A refused message only changes a counter; but a peer that
        /// turns out to be the wrong one ends its handshake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Refused {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Refused {
            /// Every reason.
            pub const ALL: &[Refused] = &[$(Refused::$name),+];

            /// The reason's name in counters.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Refused::$name => $word,)+
                }
            }
        }

        impl fmt::Display for Refused {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Refused::$name => $sentence,)+
                })
            }
        }
    };
}

refused! {
    /// Fewer bytes than the message says it has, or than its kind needs.
    Truncated "truncated" "the message is cut short"
    /// More bytes than any message has.
    Oversized "oversized" "the message is longer than any may be"
    /// Not version 1.
    Version "version" "the message is of another version"
    /// A kind that is unknown, or not accepted by this receiver.
    Kind "kind" "the message is of a kind that is not accepted here"
    /// A field has an invalid value.
    Malformed "malformed" "a field of the message has a value that it cannot have"
    /// No session or pending handshake has that number.
    UnknownSession "unknown_session" "the message names a session that is not there"
    /// A Hello that was answered already, or belongs to a finished handshake.
    Duplicate "duplicate" "the Hello was already answered"
    /// A step of a handshake that lost against our own, begun at the same time.
    Crossed "crossed" "the Hello belongs to a handshake that lost against our own"
    /// The counter was seen before.
    Replayed "replayed" "the counter of the message was seen before"
    /// The counter is older than the replay window.
    TooOld "too_old" "the counter of the message is older than the replay window"
    /// The counter exceeds the limit of a key.
    Exhausted "exhausted" "the counter of the message is beyond the life of a key"
    /// The bytes were altered or sealed with another key.
    Authentication "authentication" "the message is not authentic"
    /// Not a credential.
    Credential "credential" "the credential is malformed"
    /// The credential is not signed by our authority.
    Signature "signature" "the credential is not signed by this group's authority"
    /// The credential is of another group.
    Group "group" "the credential is of another group"
    /// The credential's key is not the one that the peer proved to hold.
    KeyMismatch "key_mismatch" "the credential's key is not the one that was proved"
    /// The peer's key was revoked.
    Revoked "revoked" "the peer's key was revoked: its box was taken out of the group, or has a \
                       new key"
    /// The peer has another role than the one wanted.
    Role "role" "the peer has another role than the one wanted"
    /// The peer is this very box, or another one with its number.
    OwnIdentity "own_identity" "our own identity came back: a loop, or a number given twice"
    /// An authenticated peer, but not the one of the existing session.
    OtherPeer "other_peer" "a second identity on the port of a live peer"
    /// More facts than a Hello may carry.
    Facts "facts" "the peer states more facts than a Hello may carry"
    /// A link message on a port that is pinned to hosts.
    Pinned "pinned" "a link message on a port that is pinned to hosts"
    /// Too many Hellos that cost public-key operations.
    Busy "busy" "more Hellos than are answered in that time"
}

/// How many messages were refused, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refused::ALL.len()]);

impl Refusals {
    /// Counts one.
    pub fn count(&mut self, reason: Refused) {
        self.0[reason as usize] += 1;
    }

    /// Messages refused for this reason.
    pub fn get(&self, reason: Refused) -> u64 {
        self.0[reason as usize]
    }

    /// Messages refused for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Every reason that occurred, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Refused, u64)> + '_ {
        Refused::ALL.iter().map(|r| (*r, self.get(*r))).filter(|(_, n)| *n > 0)
    }
}
