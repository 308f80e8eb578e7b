//! The recorded inputs of a node, replayed, give the same outputs.

use crate::world::{End, Faults, World, control_plane, node_identity, usual_config};

#[test]
fn recorded_inputs_replay_to_the_same_outputs() {
    let pairs = [(0, 1), (1, 2), (2, 3), (3, 0)];
    let mut world = World::cabled(4, &pairs, 3, usual_config());
    // From the first instant of a node that has just been powered on.
    for n in 0..4 {
        world.crash_node(n);
        world.start_recorded(n);
    }
    world.faults = Faults { lost: 5, repeated: 10, late: 10 };
    world.run(3000);
    (0..4).for_each(|h| world.announce(h));
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 5000), []);
    world.silence(End::Node(1, 0), true);
    world.unreached(&all, 1000);
    world.crash_controller(0);
    world.run(1000);
    for n in 0..4 {
        let seed = world.node(n).seed;
        let steps = world.node(n).recording.take().unwrap();
        // All of the above takes each node some 200 inputs; faults are drawn anew by every change.
        assert!(steps.len() > 150, "node {n}: {}", steps.len());
        let mut again = control_plane(node_identity(n), seed);
        for (i, step) in steps.iter().enumerate() {
            again.handle(step.now, serde_json::from_str(&step.input).unwrap());
            let outputs: Vec<_> = std::iter::from_fn(|| again.poll_output()).collect();
            let outputs = serde_json::to_string(&outputs).unwrap();
            assert_eq!(outputs, step.outputs, "node {n}, step {i}: {}", step.input);
        }
    }
}
