//! A function on the router, in `labs/router-function.toml`: a host whose kernel forwards.

use crate::common::{self, Desk, until};

const LAB: &str = "router-function";

#[test]
fn packets_of_a_class_pass_the_kernel_of_a_host() {
    let Some(desk) = Desk::root("function") else { return };
    desk.plexus(&["lab", "up", &common::shipped(LAB)]).expect(0);
    let pings = |what: &str| desk.pings(LAB, "h1", what);
    assert!(until(|| pings("10.2.0.1").0), "{}", pings("10.2.0.1").1);
    // The group, the function, the group again.
    assert!(pings("-t 4 10.2.0.1").0);
    for (ttl, router) in [(1, "10.1.0.254"), (2, "10.9.0.1"), (3, "10.9.0.254")] {
        let (passed, said) = pings(&format!("-t {ttl} 10.2.0.1"));
        assert!(!passed, "{said}");
        // The group's second error goes to the function, whose packet it is about.
        assert!(ttl == 3 || said.contains(&format!("From {router} ")), "{said}");
    }
    // A packet that the kernel there does not forward does not arrive.
    desk.exec(LAB, "fw", "ip route add prohibit 10.2.0.1").expect(0);
    let (passed, said) = pings("10.2.0.1");
    assert!(!passed && said.contains("From 10.9.0.1 "), "{said}");
    desk.exec(LAB, "fw", "ip route del prohibit 10.2.0.1").expect(0);
    assert!(until(|| pings("10.2.0.1").0));
    // In both directions, in the lab; the simulator refuses it.
    desk.plexus(&["lab", "run", &common::shipped(LAB)]).expect(0);
    let said = desk.plexus(&["sim", "run", &common::shipped(LAB)]).expect(2);
    assert!(said.err.contains("simulated hosts forward nothing"), "{}", said.err);
}
