//! Lookup structures of the packet path.
//!
//! They know nothing of packets or ports: keys and small integers go in, and every structure takes
//! its randomness and its time stamps from the caller.

mod mac;
mod prefetch;

pub use mac::{Full, Hashed, MacKey, MacTable, Slot, Station};
