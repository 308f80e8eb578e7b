//! TCP endpoints over a small network: two links, one there and one back, that all flows share.

mod connection;
mod delivery;
mod recovery;
mod world;
