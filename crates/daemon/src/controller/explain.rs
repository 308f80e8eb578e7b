//! The way of a packet in the group, for a client of the control socket.

use std::sync::mpsc::Sender;

use plexus_api::answer::explain::{
    Explained, ExplainedBox, Leaves, Next, PairRule, PairVerdict, Question,
};
use plexus_api::answer::fabric::NodeName;
use plexus_controller::{Answer, Input, Left, NextPlace, Pair, Passed, Trace, TraceStart};
use plexus_wire::{Time, hex, unhex};

use super::Daemon;

/// Where the answer to a client goes.
pub(super) type Reply = Sender<Result<Explained, String>>;

/// Clients that wait, at most: those whose question was lost with a core make room for others.
const WAITING_MAX: usize = 64;

impl Daemon {
    /// Has the core follow a frame.
    pub(super) fn explain(&mut self, now: Time, asked: &Question, reply: Reply) {
        match self.trace_start(asked) {
            Ok(start) => {
                self.explained += 1;
                while self.explaining.len() >= WAITING_MAX {
                    self.explaining.pop_first();
                }
                self.explaining.insert(self.explained, reply);
                if let Some(core) = &mut self.reign.core {
                    core.handle(now, Input::Explain { question: self.explained, start });
                }
            }
            // A client may have given up by then.
            Err(why) => drop(reply.send(Err(why))),
        }
    }

    fn trace_start(&self, asked: &Question) -> Result<TraceStart, String> {
        let core = self.view()?.core;
        let frame = unhex(&asked.frame).ok_or("the frame is not in hexadecimal digits")?;
        let at = match (&asked.node, &asked.port) {
            (None, None) => None,
            (Some(name), Some(port)) => {
                let node = core.nodes().find(|node| node.name == *name);
                let node = node.ok_or_else(|| {
                    let names: Vec<String> = core.nodes().map(|node| node.name).collect();
                    format!("there is no node '{name}': there are {}", names.join(", "))
                })?;
                let port = port.parse().map_err(|_| {
                    format!("'{port}' is no number of a port: `plexus show links` lists them")
                })?;
                Some((node.node, port))
            }
            _ => return Err("a node needs a port, and a port a node".into()),
        };
        Ok(TraceStart { at, frame, resolve: asked.resolve })
    }

    /// The core has followed a frame.
    pub(super) fn tell_explained(&mut self, question: u64, told: Result<Trace, String>) {
        if let Some(reply) = self.explaining.remove(&question) {
            let _ = reply.send(told.map(|trace| self.explanation(trace)));
        }
    }

    fn node_name(&self, id: u64) -> NodeName {
        self.view().map_or(NodeName::Number(id), |view| view.name(id))
    }

    fn explanation(&self, trace: Trace) -> Explained {
        Explained {
            pair: trace.pair.map(|pair| self.pair(pair)),
            boxes: trace.boxes.into_iter().map(|passed| self.passed(passed)).collect(),
            more: trace.more,
        }
    }

    fn pair(&self, pair: Pair) -> PairVerdict {
        PairVerdict {
            from: pair.from,
            from_groups: pair.from_groups,
            address: pair.address,
            to: pair.to,
            to_groups: pair.to_groups,
            at: pair.at.map(|(node, port)| (self.node_name(node), port)),
            refused: pair.refused,
            rule: pair.rule.map(|(allows, from, to)| PairRule { allows, from, to }),
            routed: pair.routed,
        }
    }

    fn passed(&self, passed: Passed) -> ExplainedBox {
        let mut told = ExplainedBox {
            node: self.node_name(passed.node),
            port: passed.port.into(),
            port_name: None,
            frame: hex(&passed.frame),
            silent: None,
            steps: vec![],
            leaves: vec![],
            more: 0,
        };
        let silent = match passed.answer {
            Answer::Told { port_name, steps, leaves, more } => {
                told.port_name = Some(port_name).filter(|name| !name.is_empty());
                (told.steps, told.more) = (steps, more.into());
                told.leaves = leaves.into_iter().map(left).collect();
                return told;
            }
            Answer::Down => "the controller has no session with it",
            Answer::Malformed => "its answer makes no sense",
            Answer::Silent | Answer::Awaited => {
                "it does not answer: it is down, busy, or an older version of plexus"
            }
        };
        ExplainedBox { silent: Some(silent.into()), ..told }
    }
}

fn left(left: Left) -> Leaves {
    Leaves {
        port: left.port.into(),
        port_name: Some(left.port_name).filter(|name| !name.is_empty()),
        frame: hex(&left.frame),
        next: match left.next {
            NextPlace::Box(place) => Next::Box(place),
            NextPlace::Host(mac) => Next::Host(mac),
            NextPlace::Strangers => Next::Strangers,
            NextPlace::Controller => Next::Controller,
            NextPlace::NoCable => Next::NoCable,
            NextPlace::Loop => Next::Loop,
            NextPlace::NotFollowed => Next::NotFollowed,
        },
    }
}
