//! A discrete-event simulator that drives the same data plane, control plane and controller as the
//! daemons do.
//!
//! Time is a whole number of picoseconds ([`SimTime`]); what happens next comes out of an
//! [`EventQueue`]. Nothing here reads a clock or draws a number that the seed does not give: a
//! scenario and a seed always make the same run, event by event.

mod queue;
pub mod tcp;
mod time;

pub use queue::EventQueue;
pub use time::SimTime;
