//! The fabric's document, its test vectors and its code agree.

mod messages;
mod spec;
mod tables;
mod vectors;
