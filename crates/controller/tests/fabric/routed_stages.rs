//! Two stages: hosts' packets are routed by another node than theirs.

use plexus_config::Forwarder;
use plexus_controller::Config;

use crate::routed::{ring, two_subnets};
use crate::world::World;

fn stages(seed: u64) -> World {
    let forwarders = vec![Forwarder { node: "node2".into(), weight: 1 }];
    ring(seed, Config { forwarders, ..two_subnets() })
}

/// A host that did not answer for a while was forgotten. It knows its gateway, and goes on sending:
/// nothing that it sends says which address it has.
#[test]
fn a_host_that_was_silent_is_asked_for_its_address() {
    for seed in 0..3 {
        let mut world = stages(seed);
        let pair = [(0, 3)];
        assert_eq!(world.unreached(&pair, 400), []);
        world.hosts[0].is_mute = true;
        world.run(60_000);
        // Its node has it back, and asks in vain.
        assert_eq!(world.unreached(&pair, 3000), pair);
        world.hosts[0].is_mute = false;
        assert_eq!(world.unreached(&pair, 2000), [], "seed {seed}");
        world.finish();
    }
}
