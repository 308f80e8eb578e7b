//! The list of revoked keys, which every node has: a box that was taken out of the group is a
//! stranger to its neighbours too.

use plexus_wire::fabric::message::Revoked;

use crate::Controller;

/// Keys in one message: they and the rest of it fit a body.
const KEYS: usize = 42;

impl Controller {
    /// The list has changed: every node is told.
    pub(crate) fn revoked_changed(&mut self) {
        self.revoked_version += 1;
        (0..self.topology.nodes.len() as u32).for_each(|node| self.tell_revoked(node));
    }

    /// Tells a node the list, also an empty one: it may have another one from before.
    pub(crate) fn tell_revoked(&mut self, node: u32) {
        let keys: Vec<[u8; 32]> = self.config.revoked.iter().map(|revoked| revoked.key).collect();
        let version = self.epoch << 32 | self.revoked_version;
        let parts = keys.len().div_ceil(KEYS).max(1) as u16;
        for part in 0..parts {
            let from = usize::from(part) * KEYS;
            let keys = keys[from..keys.len().min(from + KEYS)].to_vec();
            self.send_reliably(node, 0, Revoked { version, part, parts, keys });
        }
    }
}
