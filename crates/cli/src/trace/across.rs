//! `plexus trace --across`: packets through several nodes.

use std::io::Write;
use std::path::{Path, PathBuf};

use plexus_view::{Follow, Journey, Watch};

use crate::ask::{PATIENCE, SOCKETS};
use crate::exit::{Failure, Outcome};

/// The sockets of the nodes that a name means: of the node, or of all nodes of the lab.
fn sockets(name: &str) -> Vec<(String, PathBuf)> {
    let of_lab = format!("{name}/");
    let mut all: Vec<(String, PathBuf)> = plexus_lab::node_sockets()
        .into_iter()
        .filter(|(node, _)| node == name || node.starts_with(&of_lab))
        .collect();
    if all.is_empty() {
        all.push((name.to_string(), Path::new(SOCKETS).join(format!("{name}.sock"))));
    }
    all
}

/// Follows packets across the nodes of these names, and prints each one's way.
pub(super) fn run(names: &[String], what: &Follow<'_>, json: bool) -> Outcome {
    let sockets: Vec<_> = names.iter().flat_map(|name| sockets(name)).collect();
    let watch = Watch::new(&sockets, PATIENCE)?;
    eprintln!("following packets across {} nodes", watch.nodes());
    let mut tell = |journey: &Journey| {
        let text = match json {
            true => serde_json::to_string(journey).map_err(Failure::unusable)? + "\n",
            false => journey.to_string(),
        };
        // A reader that has had enough (`| head`) ends it.
        let mut out = std::io::stdout().lock();
        Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok())
    };
    watch.follow(what, &mut tell)
}
