//! Tables that refuse, lose and delay operations, and out of which ports drop.

use plexus_io::fast::RuleId;
use plexus_io::fast::chaos::Faults;
use plexus_io::fast::memory::Fate;

use super::{Bench, Hook, InKernel, InMemory, OUT, frame, key, net};

const FAULTS: Faults = Faults { refuse: 0.3, lose: 0.3, drop_out: 0.2, lie: 0.0, delay: 3 };

/// Each frame goes by the rule or to the back-end, whatever becomes of the rule meanwhile.
fn frames_go_one_way_or_the_other(bench: &mut dyn Bench) {
    let mut rule: Option<RuleId> = None;
    let (mut sent, mut passed) = (0, 0);
    for step in 0..300 {
        let table = bench.table();
        // Some operations for each frame, as late ones are carried out then.
        for _ in 0..=FAULTS.delay {
            if let Some(id) = rule {
                table.settle(id, table.passed(id));
            }
        }
        match rule {
            None => rule = table.insert(&key(None), &OUT).ok(),
            Some(id) if step % 11 == 0 => {
                table.remove(&key(None), id);
                table.forget(id);
                rule = None;
            }
            Some(_) => {}
        }
        match bench.pass(0, &frame(None)) {
            Fate::Sent(out, bytes) => {
                assert_eq!((out, bytes), (1, frame(None)));
                assert!(rule.is_some(), "by a rule that has been removed");
                sent += 1;
            }
            Fate::Passed => passed += 1,
            Fate::Dropped => panic!("nobody told a rule to hold"),
        }
        for port in 0..2 {
            if step % 5 == 0 && !bench.table().is_open(port) {
                bench.close_and_open(port);
            }
        }
    }
    assert!(sent > 20 && passed > 20, "{sent} by rules, {passed} passed");
}

#[test]
fn frames_outlive_the_faults_of_a_table_in_memory() {
    frames_go_one_way_or_the_other(&mut InMemory::new(FAULTS));
}

#[test]
fn frames_outlive_the_faults_of_a_table_in_the_kernel() {
    for hook in [Hook::Tcx, Hook::Xdp] {
        net::in_quiet_namespace("fast_chaos", move || {
            let mut bench = InKernel::new(hook);
            // The frames' ports are opened by the table that fails.
            bench.table = hook.failing(FAULTS);
            (0..2).for_each(|port| bench.close_and_open(port));
            frames_go_one_way_or_the_other(&mut bench);
        });
    }
}
