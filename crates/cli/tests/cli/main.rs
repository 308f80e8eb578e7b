//! The `plexus` program as people use it: commands, daemons, labs, and the files that ship. It is
//! one test program, because twenty take long to build and run one after the other.

mod bad_input;
mod browser;
mod churn;
mod common;
mod controllers;
mod defaults;
mod dissector;
mod examples;
mod experiment;
mod fabric;
mod functions;
mod group;
mod group_daemons;
mod identity;
mod lab;
mod lanes;
mod loads;
mod memory;
mod named;
mod ndn;
mod ndn_interop;
mod node;
mod quota;
mod routed;
mod router;
mod routing;
mod sim;
mod sims;
mod tidy;
mod traffic;
mod tunnel;
mod twin;
mod two_stage;
