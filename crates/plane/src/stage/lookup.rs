//! Stage 3, output-port lookup: each packet gets its verdict.
//!
//! - In: packets with `in_port`.
//! - Out: the same packets with `verdict`, `vlan`, `priority` and `flags`.
//! - Drops: none here; a verdict may be to drop, with the forwarder's reason.
//!
//! This stage picks the forwarder, by the plan: a box whose plan has a fabric is a fabric node, any
//! other a switch.

use plexus_io::Batch;

use crate::fabric::Fabric;
use crate::pipeline::Context;
use crate::stage::output::OutputQueues;
use crate::switch::Switch;

/// The forwarders.
pub(crate) struct Lookup {
    pub(crate) switch: Switch,
    pub(crate) fabric: Fabric,
    pub(crate) is_fabric: bool,
}

impl Lookup {
    pub(crate) fn new(switch: Switch, fabric: Fabric, is_fabric: bool) -> Lookup {
        Lookup { switch, fabric, is_fabric }
    }

    /// Decides for every packet of the batch. What waits in `queues` may be asked for.
    pub(crate) fn run(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        batch: &mut Batch,
    ) {
        if self.is_fabric {
            self.fabric.run(context, queues, batch);
        } else {
            self.switch.run(context, batch);
        }
    }
}
