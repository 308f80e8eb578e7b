//! Stage 3, output-port lookup: each packet gets its verdict.
//!
//! - In: packets with `in_port`.
//! - Out: the same packets with `verdict`, `vlan`, `priority` and `flags`.
//! - Drops: none here; a verdict may be to drop, with the forwarder's reason.
//!
//! This stage picks the forwarder. The only one so far is the switch, for every port.

use plexus_io::Batch;

use crate::pipeline::Context;
use crate::switch::Switch;

/// The forwarders.
pub(crate) struct Lookup {
    pub(crate) switch: Switch,
}

impl Lookup {
    pub(crate) fn new(switch: Switch) -> Lookup {
        Lookup { switch }
    }

    /// Decides for every packet of the batch.
    pub(crate) fn run(&mut self, context: &mut Context<'_>, batch: &mut Batch) {
        self.switch.run(context, batch);
    }
}
