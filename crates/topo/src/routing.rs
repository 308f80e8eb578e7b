//! Routing daemons beside a node's router, in a lab: `[[node.daemon]]`. A simulator has no kernel
//! for them to run on.

use plexus_config::document::{Lines, Section};
use plexus_config::error::Span;
use plexus_config::{parse_prefix, words};
use plexus_wire::Prefix;

/// Longest configuration of a daemon, in bytes.
const CONFIG_MAX: usize = 1 << 20;

/// A routing suite of others, unchanged, and its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingDaemon {
    /// Which.
    pub suite: RoutingSuite,
    /// Its configuration, in its own language.
    pub config: String,
    /// The lab is up once the node has routes to these prefixes.
    pub until: Vec<Prefix>,
}

/// A routing suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingSuite {
    /// FRRouting: zebra, and the daemons that the configuration has sections of.
    Frr,
    /// BIRD 2.
    Bird,
}

words!(RoutingSuite { Frr = "frr", Bird = "bird" });

impl RoutingDaemon {
    /// Reads every `[[node.daemon]]` of a node; the last one's place goes into `last`.
    pub(crate) fn read(node: &Section<'_>, last: &mut Option<Span>) -> Vec<RoutingDaemon> {
        let mut daemons: Vec<RoutingDaemon> = Vec::new();
        for section in node.sections("daemon", "a routing daemon") {
            let problems = section.problems();
            let suite = section.require("run", "\"frr\"").choice("run", &RoutingSuite::NAMES);
            let config = section.required_text("config", "\"\"\"…\"\"\"");
            let until = section.list("until", parse_prefix).unwrap_or_default();
            *last = Some(section.span());
            if let (Some(suite), Some(config)) = (suite, config) {
                if daemons.iter().any(|d| d.suite == suite.value) {
                    let message = "a node runs a routing suite once";
                    problems.add(suite.span, message, "put its configuration into one text");
                }
                if config.value.len() > CONFIG_MAX {
                    let message = format!("the configuration has more than {CONFIG_MAX} bytes");
                    problems.add(config.span, message, "load routes from the node's file instead");
                }
                let (suite, config) = (suite.value, config.value.to_string());
                daemons.push(RoutingDaemon { suite, config, until });
            }
        }
        daemons
    }

    /// Writes what [`read`](Self::read) reads.
    pub(crate) fn write(&self, lines: &mut Lines) {
        lines.heading("[[node.daemon]]");
        lines.value("run", &self.suite);
        lines.text("config", &self.config);
        lines.list("until", &self.until);
    }
}
