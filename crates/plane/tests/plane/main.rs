//! The pipeline and its forwarders, as frames in and frames out show them. It is one test program,
//! because many take long to build.

mod common;
mod composed;
mod explain;
mod fabric;
mod fabric_model;
mod fast;
mod fast_back;
mod fast_fabric;
mod fast_group;
mod fast_rig;
mod fast_routed;
mod fast_samples;
mod forwarders;
mod fragments;
mod group_bad;
mod group_mtu;
mod group_rig;
mod group_router;
mod lanes;
mod model;
mod net;
mod queues;
mod router;
mod router_model;
mod router_rig;
mod switch;
mod trees;
