//! Daemons' answers as a person reads them. Everything here is a function from an answer of the
//! [control socket](plexus_api) to text or to facts for JSON, except [`Watch`], which asks several
//! daemons itself, and [`ndn`], which has the text for applications of named data.
//!
//! - [`answer`] and [`route`]: what `plexus show` prints
//! - [`config`]: the versions of a file, for `plexus config`
//! - [`Second`]: a second of `plexus top`
//! - [`explain`]: the way of a packet that is only described, with the reasons
//! - [`Watch`] and [`Journey`]: a real packet's way across several boxes

pub mod config;
mod explain;
mod fabric;
mod follow;
mod journey;
mod named;
pub mod ndn;
mod node;
mod packet;
mod router;
mod table;
mod top;

use plexus_api::Answer;
use plexus_api::answer::{fabric as of_fabric, router as of_router};
use plexus_api::question::Of;

pub use explain::{arrivals, explain};
pub use follow::{Follow, Watch};
pub use journey::Journey;
pub use top::{LINES, Second};

/// Flows that fit a screen.
pub const FLOWS_SHOWN: usize = 20;

/// An answer as tables and lines, of flows no more than `top`.
pub fn answer(answer: &Answer, top: usize) -> String {
    match answer {
        Answer::Ports(ports) => node::ports(ports),
        Answer::Macs(macs) => node::macs(macs),
        Answer::Drops(Of::Node(drops)) => node::drops(drops),
        Answer::Drops(Of::Controller(unserved)) => fabric::unserved(unserved),
        Answer::Node(state) => node::about(state),
        Answer::FastTable(table) => node::fast_table(table),
        Answer::Buffers(buffers) => node::buffers(buffers),
        Answer::Suspects(suspects) => node::suspects(suspects),
        Answer::Links(Of::Node(links)) => fabric::links(links),
        Answer::Links(Of::Controller(topology)) | Answer::Topology(topology) => {
            fabric::topology(topology)
        }
        Answer::Hosts(Of::Node(stations)) => fabric::stations(stations),
        Answer::Hosts(Of::Controller(hosts)) => fabric::hosts(hosts),
        Answer::Groups(Of::Node(joined)) => fabric::joined(joined),
        Answer::Groups(Of::Controller(groups)) => fabric::groups(groups),
        Answer::SourceRoutes(routes) => fabric::source_routes(routes),
        Answer::Flows(Of::Node(flows)) => node::flows(flows, top),
        Answer::Flows(Of::Controller(flows)) => fabric::flows(flows),
        Answer::Router(Of::Node(copy)) => fabric::router_copy(copy),
        Answer::Router(Of::Controller(router)) => fabric::group_router(router),
        Answer::Leases(leases) => fabric::leases(leases),
        Answer::Controllers(controllers) => fabric::controllers(controllers),
        Answer::Fib(fib) => router::fib(fib),
        Answer::Neighbours(neighbours) => router::neighbours(neighbours),
        Answer::Faces(faces) => named::faces(faces),
        Answer::Names(names) => named::names(names),
        Answer::Cache(cache) => named::cache(cache),
    }
}

/// The decision of a router, or of a group's router, on an address, and why.
pub fn route(route: &Of<of_router::Route, of_fabric::GroupRoute>) -> String {
    match route {
        Of::Node(route) => router::route(route),
        Of::Controller(route) => fabric::route(route),
    }
}
