//! The forwarder of names, as packets in and packets out show it. It is one test program,
//! because many take long to build.

mod kill;
mod left;
mod model;
mod pipelines;
mod rig;
mod store;
mod strategies;
