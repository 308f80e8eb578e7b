//! The `plexus` program as people use it: every command, the daemons, labs, and the files that ship.
//! One program for all of it: to build twenty takes long, and so does running one after the other.

mod bad_input;
mod browser;
mod churn;
mod common;
mod defaults;
mod dissector;
mod examples;
mod experiment;
mod fabric;
mod identity;
mod lab;
mod lanes;
mod loads;
mod memory;
mod named;
mod ndn;
mod ndn_interop;
mod node;
mod router;
mod routing;
mod sim;
mod sims;
mod tidy;
mod traffic;
mod tunnel;
mod twin;
