//! The page that shows a network: an HTTP server, server-sent events, and the page's files.
//!
//! The controller's daemon, the lab and the simulator each serve it from a [`Source`], which knows
//! the network. The server has two threads of its own: one talks to readers, the other asks the
//! source, once a second while there are readers. A reader that is slow delays nobody: all share
//! the newest state, and it misses those between. Questions besides cost the source time, so the
//! second thread pauses after each.
//!
//! [`serve_metrics`] is the other server: what Prometheus reads, of a daemon or of a lab.
//!
//! Readers are not trusted: see [`gate`] for who may read, and [`readers`] for how many.

mod answer;
mod desk;
mod files;
mod gate;
mod metrics;
mod published;
mod rates;
mod readers;
mod server;
mod stream;
mod tls;

use std::net::{IpAddr, SocketAddr};

use plexus_api::answer::fabric::GroupRoute;
use plexus_api::answer::network::{Network, Pair, Ways};
use plexus_api::answer::router::Routes;
use plexus_wire::Prefix;
use serde::Deserialize;

pub use metrics::serve_metrics;
pub use server::serve;

/// A network that a page shows. All calls come from one thread, which waits for the answers.
pub trait Source: Send + 'static {
    /// The network now.
    ///
    /// # Errors
    /// In words for the page.
    fn network(&mut self) -> Result<Network, String>;

    /// The ways of a host's flows, or of those from one host to another.
    ///
    /// # Errors
    /// In words for the page.
    fn ways(&mut self, pair: Pair) -> Result<Ways, String>;

    /// Routes of the group's router, from a prefix on.
    ///
    /// # Errors
    /// In words for the page.
    fn routes(&mut self, first: Prefix) -> Result<Routes, String>;

    /// The group's router's action on packets to an address.
    ///
    /// # Errors
    /// In words for the page.
    fn route(&mut self, address: IpAddr) -> Result<GroupRoute, String>;

    /// Carries a command out. Only a simulation takes some.
    ///
    /// # Errors
    /// In words for the page.
    fn command(&mut self, _command: Command) -> Result<(), String> {
        Err("this page shows the network and changes nothing".into())
    }
}

/// A reader's command to a simulation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Stop its clock, or let it go on.
    Pause(bool),
    /// Let it go so many times as fast as a person's clock.
    Speed(f64),
    /// Pull the cable with these ends out, for good: the names of the boxes, and their ports. Its
    /// place on the map would not do, because that changes with other cables.
    Break([(String, u8); 2]),
}

/// A page that is served until the process ends.
#[derive(Clone, Debug)]
pub struct Page {
    /// Where it is.
    pub address: SocketAddr,
    /// Its URL, for a browser on this machine.
    pub url: String,
}
