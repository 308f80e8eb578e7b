//! A discrete-event simulator that drives the same data plane, control plane and controller as the
//! daemons do.
//!
//! Time is a whole number of picoseconds ([`SimTime`]), and an [`EventQueue`] holds the events. All
//! randomness comes from the seed: a scenario and a seed always give the same run, event by event.
//! A [`Sim`] reads the topology file that `plexus lab` reads, and its report has the same form.
//! [`once`] and [`seeds`] are what `plexus sim run` does.
//!
//! Only [`real_time`] keeps a simulation at wall time, for hosts that are real. Elsewhere a clock
//! is read to tell a person how fast a run goes.

mod asker;
mod attach;
mod build;
mod cable;
mod clock;
mod controller;
mod core;
mod dhcp;
mod early;
mod faults;
mod faulty;
mod flow;
mod forward;
mod host;
mod kernel;
mod memory;
mod named;
mod nic;
mod node;
mod noise;
pub mod once;
mod outside;
mod page;
mod portland;
mod queue;
pub mod real_time;
mod routing;
mod run;
pub mod seeds;
mod sim;
mod store;
pub mod tcp;
mod time;
mod tree;

pub use asker::Resolutions;
pub use attach::attach;
pub use build::RATE_USUAL;
pub use cable::Traffic;
pub use flow::Connected;
pub use memory::{memory_estimate, quiet_memory_estimate};
pub use outside::Leaving;
pub use portland::PortLand;
pub use queue::EventQueue;
pub use sim::{Sim, Work};
pub use time::SimTime;
