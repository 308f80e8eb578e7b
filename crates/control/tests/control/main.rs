//! Channels between two ends, their identities, and pinned ports. It is one test program, because
//! many take long to build.

mod cable;
mod common;
mod liar;
mod pinned;
mod refused;
mod vectors;
