//! TCP endpoints over a small network: two links, one there and one back, that all flows share.

mod connection;
mod delivery;
mod formulas;
mod recovery;
mod sharing;
mod world;
