//! What a simulation will take is known before it is built.

use crate::common::{Desk, Said};
use plexus_sim::memory_estimate;
use plexus_topo::Topology;

fn run(name: &str, text: &str) -> Said {
    let desk = Desk::new("memory");
    desk.plexus(&["sim", "run", &desk.file(name, text)])
}

const CONTROLLER: &str = "[[controller]]\nname = \"c\"\non = \"s1\"\n\
    [[controller.subnet]]\nprefix = \"10.0.0.0/8\"\ngateway = \"10.255.255.254\"\n";

#[test]
fn the_estimate_is_near_what_a_run_takes() {
    let file = |shape: &str, more: &str, table: u32, flows: u32| {
        format!(
            "name = \"m\"\n[generate]\nshape = \"{shape}\"\nhosts = 4\nrate = \"1Gbit\"\n\
             [generate.node]\nswitch = {{ mac_table = {table} }}\n{more}\
             [[pattern]]\nname = \"u\"\nkind = \"random\"\nflows = {flows}\nproto = \"udp\"\n\
             rate = \"1Mbit\"\nsize = 100\ncount = 3\njitter = \"50ms\"\n"
        )
    };
    let forwarder = |n: usize| {
        let ethernet = |port: &str| {
            format!("[[node.named.ethernet]]\nname = \"{port}\"\ndevice = \"{port}\"\n")
        };
        format!(
            "[[node]]\nname = \"n{n}\"\n[node.named]\ncache = \"16MiB\"\n{}{}\
             [[node.named.route]]\nprefix = \"/v\"\nface = \"u\"\n\
             [[link]]\nends = [\"n{n}.u\", \"{}\"]\nrate = \"1Gbit\"\n",
            ethernet("d"),
            ethernet("u"),
            if n == 0 { "b".into() } else { format!("n{}.d", n - 1) }
        )
    };
    let named = format!(
        "name = \"m\"\n{}[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nends = [\"n39.d\", \"a\"]\n[[traffic]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
         proto = \"named\"\nprefix = \"/v\"\nitems = 2000\ncount = 500\n",
        (0..40).map(forwarder).collect::<String>()
    );
    let vain = "name = \"m\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
                ends = [\"a\", \"b\"]\nloss = 0.9\n[[traffic]]\nname = \"f\"\nfrom = \"a\"\n\
                to = \"b\"\nproto = \"named\"\nprefix = \"/v\"\nitems = 1000000\n\
                interests = 50000\nlifetime = \"10s\"\nduration = \"6s\"\n";
    for (what, text) in [
        ("named data", named),
        ("names asked for in vain", vain.into()),
        ("a fabric", file("torus 8x8", CONTROLLER, 1024, 200)),
        ("switches with tables", file("line 40", "", 65_536, 20)),
        ("flows", file("line 4", "", 1024, 20_000)),
    ] {
        let said = run("estimate", &text).expect(0);
        let line = said.out.lines().last().unwrap();
        let held = line.rsplit(", ").next().unwrap().strip_suffix(" MiB").unwrap();
        let held: f64 = held.parse().unwrap();
        let estimate = memory_estimate(&Topology::parse("m", &text).unwrap()) as f64 / 1048576.0;
        let ratio = estimate / held;
        assert!((0.4..2.5).contains(&ratio), "{what}: {estimate:.0} MiB for {held} MiB");
    }
}
