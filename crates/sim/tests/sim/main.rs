//! Whole networks in the simulator. It is one test program,
//! because many take long to build.

mod controllers;
mod crossing;
mod crowd;
mod faults;
mod fidelity;
mod forwarding;
mod hosts;
mod ipv6;
mod labs;
mod named;
mod odd;
mod outside;
mod portland;
mod run;
mod trees;
