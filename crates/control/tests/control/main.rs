//! Cables, sessions and identities of nodes. It is one test program,
//! because many take long to build.

mod cable;
mod common;
mod fabric;
mod identities;
mod pinned;
mod refused;
mod vectors;
mod world;
