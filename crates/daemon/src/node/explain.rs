//! The node's treatment of a frame explained, for the control socket and for the controller.

use std::net::IpAddr;

use plexus_api::answer::explain::{self as api, ExplainedBox, Leaves, Next};
use plexus_api::answer::fabric::NodeName;
use plexus_io::PortId;
use plexus_node::explain::message;
use plexus_plane::Explanation;
use plexus_wire::fabric::message::{Explain, Explained, Step};
use plexus_wire::{hex, unhex};

use super::running::RunningNode;

/// Explains a frame to a client of the control socket.
///
/// # Errors
/// When there is no such port, or the frame is none.
pub(super) fn answer(node: &RunningNode, asked: &api::Question) -> Result<api::Explained, String> {
    let file = node.file();
    let name = asked.port.as_deref().ok_or("name the port that the frame comes in by")?;
    let port = file.ports.iter().position(|p| p.name == name && !p.is_vacant());
    let Some(port) = port else {
        let names = file.ports.iter().filter(|p| !p.is_vacant()).map(|p| p.name.as_str());
        let names: Vec<&str> = names.collect();
        return Err(format!("there is no port '{name}': there are {}", names.join(", ")));
    };
    if asked.node.as_ref().is_some_and(|node| *node != file.name) || asked.resolve {
        return Err("this is a node, which knows its own ports alone: ask a controller".into());
    }
    let frame = unhex(&asked.frame).ok_or("the frame is not in hexadecimal digits")?;
    let told = explain(node, port as PortId, &frame)?;
    let leaves = told.leaves.into_iter().map(|(port, frame)| Leaves {
        port,
        port_name: Some(file.port_name(port.into()).into()),
        frame: hex(&frame),
        next: Next::Cable,
    });
    let own = ExplainedBox {
        node: NodeName::Name(file.name.clone()),
        port: port as u16,
        port_name: Some(name.into()),
        frame: hex(&frame),
        silent: None,
        steps: told.steps,
        leaves: leaves.collect(),
        more: 0,
    };
    Ok(api::Explained { pair: None, boxes: vec![own], more: 0 })
}

/// Explains a frame to the controller.
///
/// # Errors
/// When there is no such port, or a worker does not answer.
pub(super) fn for_controller(node: &RunningNode, asked: &Explain) -> Result<Explained, String> {
    let file = node.file();
    let told = explain(node, asked.port.into(), &asked.frame)?;
    Ok(message(asked, &told, |port| file.port_name(port.into()).into()))
}

fn explain(node: &RunningNode, port: PortId, frame: &[u8]) -> Result<Explanation, String> {
    let mut told = node.explain(port, frame)?;
    for step in &mut told.steps {
        if let Step::Lookup { address, prefix_len, .. } = step {
            *prefix_len = prefix_len_for(node, *address);
        }
    }
    Ok(told)
}

/// The length of the prefix by which the router sends packets to an address.
fn prefix_len_for(node: &RunningNode, address: IpAddr) -> Option<u8> {
    let found = node.ask_router(move |view| view.router.control().lookup(address));
    found.ok().flatten().map(|(prefix, _)| prefix.len())
}
