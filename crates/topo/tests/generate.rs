//! `[generate]` in a topology file: the same network as `generate` makes, and what is added to it.

use std::time::Duration;

use plexus_topo::{End, Options, Shape, Topology, generate};

fn parse(text: &str) -> Result<Topology, String> {
    Topology::parse("t.toml", text).map_err(|e| e.to_string())
}

fn read(text: &str) -> Topology {
    let topology = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let written = topology.to_toml();
    assert_eq!(parse(&written).as_ref(), Ok(&topology), "{written}");
    topology
}

#[test]
fn each_shape_is_the_one_that_is_made_from_its_name() {
    let random = |seed| Shape::Random { nodes: 20, degree: 4, seed };
    let seed = 9;
    for (words, shape, hosts_per_node) in [
        ("line 4", Shape::Line { nodes: 4 }, 1),
        ("ring 5", Shape::Ring { nodes: 5 }, 1),
        ("star 3", Shape::Star { leaves: 3 }, 1),
        ("torus 3x4x2", Shape::Torus { sides: vec![3, 4, 2] }, 1),
        ("fat-tree 4", Shape::FatTree { ports: 4 }, 2),
        (
            "butterfly 2 4\"\nrate = \"1Gbit\"\ndilation = 2\nfast = 2 #",
            Shape::Butterfly { ary: 2, flat: 4, dilation: 2, fast: 2 },
            2,
        ),
        ("clos 3 2", Shape::Clos { leaves: 3, spines: 2 }, 2),
        ("clos 3 2\"\nunfolded = true #", Shape::UnfoldedClos { outer: 3, middle: 2 }, 2),
        ("random-low 20", random(9), 10),
        ("random-low 20\"\nseed = 4 #", random(4), 10),
        ("random-high 3 3", Shape::Random { nodes: 9, degree: 4, seed }, 3),
        ("jellyfish 8 3", Shape::Jellyfish { nodes: 8, degree: 3, seed }, 1),
        ("dragonfly 2 1", Shape::Dragonfly { routers: 2, global: 1, groups: 3 }, 1),
        ("two-stage 3 2", Shape::TwoStage { fronts: 3, backs: 2 }, 1),
    ] {
        let text = format!("name = \"t\"\nseed = {seed}\n[generate]\nshape = \"{words}\"\n");
        let rate = words.contains("1Gbit").then_some(1_000_000_000);
        let options = Options {
            hosts_per_node,
            host_rate_bits_per_s: rate,
            link_rate_bits_per_s: rate,
            ..Options::default()
        };
        let made = generate(&shape, options).unwrap();
        let (name, description) = ("t".to_string(), String::new());
        assert_eq!(read(&text), Topology { name, description, seed, ..made }, "{words}");
    }
}

#[test]
fn a_fabric_with_settings_is_generated_and_more_is_cabled_to_it() {
    let topology = read(
        "name = \"t\"\n\
         [generate]\nshape = \"star 2\"\nhosts = 2\nrate = \"1Gbit\"\nhost_rate = \"100Mbit\"\n\
         lanes = 2\ndelay = \"3us\"\n\
         [generate.node]\nnative = true\nworkers = 2\n\
         [generate.port]\nqueue = { packets = 50 }\n\
         [[controller]]\nname = \"c\"\non = \"s1\"\n\
         [[controller.subnet]]\nprefix = \"10.0.0.0/8\"\ngateway = \"10.255.0.1\"\n\
         [[node]]\nname = \"extra\"\n\
         [[host]]\nname = \"server\"\naddress = \"10.1.0.1/8\"\n\
         [[link]]\nends = [\"server\", \"extra.p\"]\n\
         [[link]]\nends = [\"extra.up\", \"s1.down\"]\nmtu = 2000\n",
    );
    let names: Vec<&str> = topology.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["s1", "s2", "s3", "extra"]);
    assert_eq!((topology.hosts.len(), topology.links.len()), (5, 8));
    for node in &topology.nodes[..3] {
        assert!(node.native && node.workers == 2, "{node:?}");
        let generated = node.ports.iter().filter(|p| p.name != "down");
        assert!(generated.clone().count() >= 4);
        assert!(generated.into_iter().all(|p| p.settings.queue.packets == 50), "{node:?}");
    }
    for link in &topology.links[..6] {
        let is_hosts = matches!(link.cables[0][0], End::Host { .. });
        assert_eq!(link.delay, Duration::from_micros(3));
        let expected = if is_hosts { (100, 1500, 1) } else { (1000, 2000, 2) };
        let rate = link.rate_bits_per_s.unwrap() / 1_000_000;
        assert_eq!((rate, link.mtu, link.cables.len()), expected);
    }
    assert_eq!(topology.nodes[0].ports.last().unwrap().name, "down");
}

#[test]
fn a_files_quota_is_that_of_every_node_without_its_own() {
    let more = "[[node]]\nname = \"fast\"\ncpu = 1.5\n[[node]]\nname = \"usual\"\n";
    let shape = "[generate]\nshape = \"ring 3\"\n";
    let quotas = |topology: &Topology| topology.nodes.iter().map(|n| n.cpu).collect::<Vec<_>>();
    let usual = Some(0.25);
    let topology = read(&format!("name = \"t\"\ncpu = 0.25\n{shape}{more}"));
    assert_eq!(quotas(&topology), [usual, usual, usual, Some(1.5), usual]);
    assert_eq!(read(&topology.to_toml()), topology);
    let node = "[generate.node]\ncpu = 2\n";
    let topology = read(&format!("name = \"t\"\n{shape}{node}{more}"));
    assert_eq!(quotas(&topology), [Some(2.0), Some(2.0), Some(2.0), Some(1.5), None]);
}

#[test]
fn mistakes_are_named_with_their_place() {
    let shape = |text: &str| format!("name = \"t\"\n[generate]\nshape = {text}\n");
    for (text, told, help) in [
        (shape("\"fat-tre 4\""), "3:9: there is no shape \"fat-tre\"", "\"fat-tree\""),
        (shape("\"fat-tree\""), "3:9: \"fat-tree\" is not a fat-tree and its size", "fat-tree 4"),
        (shape("\"fat-tree -4\""), "3:9: \"fat-tree -4\" is not a fat-tree", "fat-tree 4"),
        (shape("\"fat-tree 5\""), "3:9: a fat tree's boxes have an even number", "topo make"),
        (shape("\"torus 4xx4\""), "3:9: \"torus 4xx4\" is not a torus", "4x4"),
        (shape("\"ring 4\"\nseed = 3"), "4:8: \"seed\" has no meaning for a ring", "remove"),
        (shape("\"ring 4\"\nhosts = 1\ntotal_hosts = 9"), "5:15: \"hosts\" says", "remove one"),
        (shape("\"ring 4\"\nrate = \"-1Mbit\""), "4:8: \"-1Mbit\" is not a rate", "100Mbit"),
        (shape("\"ring 4\"\nhots = 1"), "4:1: \"hots\" is not a setting", "\"hosts\""),
        (shape("\"ring 4\"\nhosts = 1000000"), "3:9: that is more than", "smaller"),
        (shape("\"torus 1000x1000\""), "3:9: that is more than", "smaller"),
        (shape("\"clos 9999 9999\""), "3:9: that is more than", "smaller"),
        (shape("\"torus 4000000000x4000000000x4000000000\""), "3:9: at most", "topo make"),
        (shape("\"ring 4\"\ndelay = \"2min\""), "4:9: a delay of more than a minute", "60s"),
        (shape("\"ring 4\"\n[generate.node]\nnative = true"), "5:10: \"native\" is", "controller"),
        (shape("\"ring 4\"\n[[node]]\nname = \"s3\""), "5:8: there are two devices \"s3\"", ""),
        (shape("\"ring 4\"\n[[host]]\nname = \"h3\""), "5:8: there are two devices \"h3\"", ""),
        (
            shape("\"ring 4\"\n[[link]]\nends = [\"s1.p1\", \"s2.x\"]"),
            "5:9: \"s1.p1\" already has a cable",
            "another port",
        ),
        (
            "name = \"t\"\n[generate]\nhosts = 4\n".into(),
            "2:1: what is generated lacks",
            "fat-tree",
        ),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.starts_with(&format!("t.toml:{told}")), "{error}");
        assert!(error.contains("help: ") && error.contains(help), "{error}");
    }
}
