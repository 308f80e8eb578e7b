//! The files people write: units, settings, and errors that name file and line.

mod settings;

pub use settings::{
    PortSettings, QueueSettings, StaticMac, StormSettings, SwitchSettings, Trust, VlanMode,
};
