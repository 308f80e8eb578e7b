//! The simulator, frame by frame.

use std::fmt::Write as _;
use std::time::Instant;

use plexus_sim::Sim;
use plexus_topo::Topology;

use super::{Row, Setting};

const NODES: usize = 8;

/// Frame hops per second of real time through a fabric of nodes in a line, with two flows at
/// 400 Mbit/s in opposite directions.
pub(super) fn hops(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let ms = 2000 / setting.effort.shrink.max(1);
    let topology = Topology::parse("line", &line(ms)).map_err(|e| e.to_string())?;
    let turn = || {
        let mut sim = Sim::new(&topology, 1)?;
        if !sim.settle(|_| true) {
            return Err("the fabric has not found itself".to_string());
        }
        let (before, start) = (sim.work().hops, Instant::now());
        sim.run(|_| true);
        let seconds = start.elapsed().as_secs_f64();
        Ok(((sim.work().hops - before) as f64 / seconds / 1e6, None))
    };
    Ok(vec![Row::measure(name, "M hops/s", None, setting.effort.runs, turn)?])
}

fn line(ms: usize) -> String {
    let mut text = String::from("name = \"line\"\n");
    for n in 1..=NODES {
        let _ = writeln!(text, "[[node]]\nname = \"n{n}\"");
    }
    text += "[[controller]]\nname = \"c\"\non = \"n1\"\n\
             [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n";
    for (h, n) in [(1, 1), (2, NODES)] {
        let _ = writeln!(
            text,
            "[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\n\
             [[link]]\nends = [\"h{h}\", \"n{n}.p\"]\nrate = \"1Gbit\""
        );
    }
    for n in 1..NODES {
        let next = n + 1;
        let _ = writeln!(
            text,
            "[[link]]\nends = [\"n{n}.a\", \"n{next}.b\"]\nrate = \"1Gbit\"\nmtu = 2000"
        );
    }
    for (from, to) in [(1, 2), (2, 1)] {
        let _ = writeln!(
            text,
            "[[traffic]]\nname = \"u{from}\"\nfrom = \"h{from}\"\nto = \"h{to}\"\nproto = \"udp\"\n\
             rate = \"400Mbit\"\nduration = \"{ms}ms\"\nsize = 512"
        );
    }
    text
}
