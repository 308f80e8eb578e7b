//! Packet formats: one file per protocol, one shape (view, repr, emit, tests).

mod mac;
mod time;

pub use mac::{MacAddr, MacAddrError};
pub use time::Time;
