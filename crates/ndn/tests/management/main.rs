//! Management as clients see it: Interests in, Data out.
#![allow(unreachable_pub)] // a crate of its own without dependents

mod budget;
mod chains;
mod clients;
mod commands;
mod datasets;
mod events;
mod hostile;
mod lists;
mod node;
mod reload;
mod rib;
mod trust;
