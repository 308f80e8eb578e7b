//! The configuration of a daemon: what it runs, its earlier texts, a trial.

use serde::{Deserialize, Serialize};

/// The text that a daemon runs. The text in its file may be another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The daemon's name.
    pub name: String,
    /// The file that it reads.
    pub file: String,
    /// The text that it runs.
    pub text: String,
    /// Its version; `null`: no version is kept yet.
    pub version: Option<u64>,
    /// The running version is on trial.
    pub trial: Option<Trial>,
    /// A node's part of the common file of its group, which it runs besides; `null`: none.
    #[serde(default)]
    pub common: Option<CommonPart>,
}

/// A node's part of the common file of its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonPart {
    /// The version of the common file.
    pub version: u64,
    /// The part.
    pub text: String,
    /// It is on trial, and left in so many seconds.
    pub left_s: Option<u64>,
}

/// The common file of a group, as the controller that leads knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Common {
    /// The controller's name.
    pub controller: String,
    /// The version that nodes are to run; `null`: there is no common file.
    pub running: Option<u64>,
    /// That version is on trial.
    pub trial: Option<Trial>,
    /// The versions, the oldest first.
    pub versions: Vec<Version>,
    /// The nodes that the controller has had a session with, by name.
    pub nodes: Vec<CommonNode>,
}

/// A node's version of the common file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonNode {
    /// The node's name.
    pub node: String,
    /// The controller has a session with it.
    pub is_there: bool,
    /// The version that it keeps; `null`: none yet.
    pub version: Option<u64>,
    /// It has refused a later version, for this reason.
    pub refused: Option<String>,
}

/// A version that the daemon runs until it is confirmed or its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The version on trial.
    pub version: u64,
    /// The version that returns.
    pub back_to: u64,
    /// Seconds until then.
    pub left_s: u64,
}

/// The kept versions of a daemon's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The daemon's name.
    pub name: String,
    /// The folder that has them, as files `NUMBER.toml`.
    pub folder: String,
    /// The version that runs.
    pub running: Option<u64>,
    /// The running version is on trial.
    pub trial: Option<Trial>,
    /// The oldest first.
    pub versions: Vec<Version>,
}

/// A kept text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its number: larger than those of all earlier ones.
    pub number: u64,
    /// When it was kept, in seconds since 1970.
    pub kept_unix_s: u64,
    /// The comment that a person gave it.
    pub comment: String,
    /// The version of the daemon that kept it.
    pub plexus: String,
    /// It has run, and was confirmed if it was on trial. Of a common file: nodes were told to keep
    /// it.
    pub good: bool,
}

/// One kept text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Its number.
    pub version: u64,
    /// The text.
    pub text: String,
}

/// The result of applying, confirming or going back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The version that runs.
    pub version: Option<u64>,
    /// It is on trial.
    pub trial: Option<Trial>,
    /// Notes for a person, in sentences.
    pub notes: Vec<String>,
}
