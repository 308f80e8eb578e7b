//! The lab of two nodes and two lanes, as a user runs it: what each choice of lanes costs, and that
//! none of them reorders a flow.

use crate::common::{self, Desk, item};
use serde_json::Value;

/// Frames that a node has sent by its port `name`, of all that `show ports` knows.
fn sent(ports: &Value, name: &str) -> u64 {
    item(&ports["ports"], "name", name)["tx_packets"].as_u64().unwrap()
}

#[test]
fn a_lane_for_each_of_two_flows_or_one_for_both() {
    common::turn();
    let Some(desk) = Desk::root("lanes") else { return };
    let lab = &common::shipped("eight-port-narrow");
    for choice in ["least_loaded", "static"] {
        desk.plexus(&["lab", "up", lab, "--lanes", choice]).expect(0);
        let report = desk.json(&["lab", "run", lab, "--lanes", choice], 0);
        let flows = report["flows"].as_array().unwrap();
        assert!(flows.len() == 4 && flows.iter().all(|f| f["reordered"] == 0), "{report}");
        let loss = |pattern: &str| -> Vec<f64> {
            let of = flows.iter().filter(|f| f["name"].as_str().unwrap().starts_with(pattern));
            of.map(|f| f["loss"].as_f64().unwrap()).collect()
        };
        let ports = desk.json(&["show", "ports", "--node", "eight-port-narrow/a"], 0);
        let lanes = [sent(&ports, "lane"), sent(&ports, "lane-2")];
        // Judged by what the lanes carried: what is lost on the way depends on the machine, too.
        let least = *lanes.iter().min().unwrap() as f64 / lanes.iter().sum::<u64>() as f64;
        match choice {
            "static" => {
                let lost: f64 = loss("set2-c").iter().sum();
                assert!(lost > 0.6, "two flows share what carries one: {report}");
                assert!(least < 0.42, "one has a flow of four, the other three: {lanes:?}");
            }
            _ => assert!(least > 0.42, "two flows each: {lanes:?} {report}"),
        }
        desk.down("eight-port-narrow");
    }
}

/// The lab for it, as it ships.
#[test]
fn a_new_flow_avoids_the_lane_of_one_that_the_kernel_forwards() {
    common::turn();
    let Some(desk) = Desk::root("lanes") else { return };
    let lab = &common::shipped("fast-lanes");
    desk.plexus(&["lab", "up", lab]).expect(0);
    let report = desk.json(&["lab", "run", lab], 0);
    assert_eq!(report["passed"], true, "{report}");
    let ports = desk.json(&["show", "ports", "--node", "fast-lanes/a"], 0);
    let mut lanes = [sent(&ports, "lane"), sent(&ports, "lane-2")];
    lanes.sort_unstable();
    // 3,750 packets of the small flow, 20,000 of the large one, and some 200 of the nodes'.
    let are_apart = (3750..4250).contains(&lanes[0]) && (20_000..20_500).contains(&lanes[1]);
    assert!(are_apart, "{lanes:?} {report}");
    desk.down("fast-lanes");
}
