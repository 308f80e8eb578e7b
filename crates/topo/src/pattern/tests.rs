use super::*;
use crate::{Extent, Proto};

const HEAD: &str = "name = \"t\"\nseed = 5\n[generate]\nshape = \"torus 4x3\"\nhosts = 2\n";
const UDP: &str = "proto = \"udp\"\nrate = \"1Mbit\"\nduration = \"1ms\"\n";

fn parse(more: &str) -> Result<Topology, String> {
    Topology::parse("t.toml", &format!("{HEAD}{more}")).map_err(|e| e.to_string())
}

fn pattern(more: &str) -> String {
    format!("[[pattern]]\nname = \"p\"\n{UDP}{more}")
}

/// Senders and receivers.
fn pairs(topology: &Topology) -> Vec<[usize; 2]> {
    let pair = |f: &Flow| match f.to {
        Target::Host(to) => [f.from, to],
        Target::Address(_) => panic!("{}", f.name),
    };
    topology.traffic.iter().map(pair).collect()
}

fn made(kind: &str) -> Vec<[usize; 2]> {
    pairs(&parse(&pattern(&format!("kind = {kind}\n"))).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn each_kind_makes_the_pairs_that_it_is_known_for() {
    let permutation = made("\"permutation\"");
    assert_eq!(permutation.iter().map(|p| p[0]).collect::<Vec<_>>(), (0..24).collect::<Vec<_>>());
    let mut to: Vec<usize> = permutation.iter().map(|p| p[1]).collect();
    assert!(permutation.iter().all(|[from, to]| from != to));
    to.sort_unstable();
    assert_eq!(to, (0..24).collect::<Vec<_>>());

    let all = made("\"all-to-all\"\nhosts = [\"h3\", \"h1\", \"h24\"]");
    assert_eq!(all, [[2, 0], [2, 23], [0, 2], [0, 23], [23, 2], [23, 0]]);

    let random = made("\"random\"\nflows = 500");
    assert!(random.len() == 500 && random.iter().all(|[from, to]| from != to));
    let mut senders: Vec<usize> = random.iter().map(|p| p[0]).collect();
    senders.sort_unstable();
    senders.dedup();
    assert_eq!(senders.len(), 24);

    let incast = made("\"incast\"\nto = \"h7\"\nsenders = 5");
    assert!(incast.len() == 5 && incast.iter().all(|[from, to]| *to == 6 && *from != 6));
    assert!(incast.is_sorted() && incast.windows(2).all(|w| w[0] != w[1]));
    assert_eq!(made("\"incast\"\nto = \"h7\"").len(), 23);

    assert_eq!(made("\"stride\"\nstride = 25")[..2], [[0, 1], [1, 2]]);
    assert_eq!(made("\"stride\"\nstride = 5")[23], [23, 4]);
    // Of 16 hosts: every bit of the number turned.
    let sixteen: Vec<String> = (1..=16).map(|h| format!("\"h{h}\"")).collect();
    let complement = made(&format!("\"bit-complement\"\nhosts = [{}]", sixteen.join(", ")));
    assert!(complement.len() == 16 && complement.iter().all(|[from, to]| from ^ 15 == *to));

    // Of 4 by 3 nodes one further along either side.
    let tornado = made("\"tornado\"");
    let host = |x: usize, y: usize, i: usize| (x % 4 * 3 + y % 3) * 2 + i;
    assert_eq!(tornado[2 * 7 + 1], [host(2, 1, 1), host(3, 2, 1)]);
    assert_eq!(tornado[23], [host(3, 2, 1), host(0, 0, 1)]);
}

#[test]
fn what_is_drawn_depends_on_the_seed_and_the_patterns_name_alone() {
    let one = pattern("kind = \"permutation\"\njitter = \"1us\"\nstart = \"5ms\"\n");
    let first = parse(&one).unwrap();
    assert_eq!(parse(&one).unwrap(), first);
    let before = "[[pattern]]\nname = \"q\"\nkind = \"random\"\nflows = 9\nproto = \"icmp\"\n";
    let second = parse(&format!("{before}{one}")).unwrap();
    assert_eq!(pairs(&second)[9..], pairs(&first)[..]);
    let renamed = parse(&one.replace("\"p\"", "\"r\"")).unwrap();
    assert_ne!(pairs(&renamed), pairs(&first));
    let text = format!("{HEAD}{one}");
    let seeded = |seed| Topology::parse_seeded("t.toml", &text, Some(seed)).unwrap();
    assert_eq!(seeded(5), first);
    assert!(pairs(&seeded(6)) != pairs(&first) && seeded(6).seed == 6);
    // All begin within a microsecond of each other, and not all at once.
    let starts: Vec<_> = first.traffic.iter().map(|f| f.start).collect();
    let (start, us) = (Duration::from_millis(5), Duration::from_micros(1));
    assert!(starts.iter().all(|s| (start..=start + us).contains(s)));
    assert!(starts.iter().any(|s| *s != starts[0]), "{starts:?}");
}

#[test]
fn flows_have_what_the_pattern_says_and_others_can_speak_of_them() {
    let more = "[[pattern]]\nname = \"ring\"\nkind = \"stride\"\nstride = 1\nproto = \"tcp\"\n\
        bytes = \"1MB\"\ncongestion = \"cubic\"\nafter = \"ping\"\n\
        [[traffic]]\nname = \"ping\"\nfrom = \"h1\"\nto = \"h5\"\nproto = \"icmp\"\n\
        [[traffic]]\nname = \"last\"\nfrom = \"h1\"\nto = \"h5\"\nproto = \"icmp\"\n\
        after = \"ring-3\"\n\
        [[event]]\nat = \"1ms\"\ncut = \"s1.p3\"\n\
        [[assert]]\ntext = \"ring-*.loss == 0\"\n";
    let topology = parse(more).unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = topology.traffic.iter().map(|f| f.name.as_str()).collect();
    assert_eq!((names.len(), &names[..3]), (26, &["ping", "last", "ring-1"][..]));
    assert_eq!(topology.traffic[1].after, Some(4));
    let ring = &topology.traffic[2..];
    assert!(ring.iter().all(|f| f.after == Some(0) && f.proto == Proto::Tcp));
    assert!(ring.iter().all(|f| f.extent == Extent::Bytes(1_000_000)));
    assert_eq!(ring[23].to_address, topology.hosts[0].addresses[0].address);
    assert_eq!(topology.assertions[0].subjects.len(), 24);
    assert_eq!(topology.events.len(), 1);
    // Written out flow by flow, and read back the same.
    let text = topology.to_toml();
    assert!(!text.contains("generate") && !text.contains("pattern"));
    assert_eq!(Topology::parse("again", &text), Ok(topology));
}

#[test]
fn mistakes_are_named_with_their_place() {
    let explicit = "[[traffic]]\nname = \"p-3\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"icmp\"\n";
    let long = "a-name-of-thirty-one-characters";
    for (more, told, help) in [
        (pattern(""), "6:1: a pattern lacks \"kind\"", "permutation"),
        (pattern("kind = \"tornadoe\"\n"), "11:8: \"kind\" cannot be", "\"tornado\""),
        (pattern("kind = \"random\"\n"), "6:1: a pattern lacks \"flows\"", "flows = 100"),
        (pattern("kind = \"stride\"\nstride = 48\n"), "12:10: of 24 hosts each", "no multiple"),
        (pattern("kind = \"stride\"\nflows = 4\n"), "12:9: \"flows\" has a meaning", "remove"),
        (pattern("kind = \"incast\"\n"), "6:1: a pattern lacks \"to\"", "h1"),
        (pattern("kind = \"incast\"\nto = \"s1\"\n"), "12:6: \"s1\" is a node", "host"),
        (
            pattern("kind = \"incast\"\nto = \"h1\"\nsenders = 24\n"),
            "13:11: there are 23 other hosts",
            "fewer",
        ),
        (
            pattern("kind = \"tornado\"\nhosts = [\"h1\", \"h2\"]\n"),
            "11:8: \"tornado\" goes by the coordinates",
            "torus",
        ),
        (
            pattern("kind = \"all-to-all\"\nhosts = [\"h1\", \"h1\"]\n"),
            "12:16: \"h1\" is named twice",
            "once",
        ),
        (pattern("kind = \"all-to-all\"\nhosts = \"h99\"\n"), "12:9: there is no host", "h"),
        (pattern("kind = \"permutation\"\nhosts = \"h9\"\n"), "11:8: a pattern needs two", "host"),
        (pattern("kind = \"permutation\"\nfrom = \"h9\"\n"), "12:1: \"from\" is not a", "flows"),
        (pattern("kind = \"permutation\"\nafter = \"p-1\"\n"), "12:9: \"p-", "by itself"),
        (
            format!("{explicit}{}", pattern("kind = \"permutation\"\n")),
            "12:8: there are two",
            "name",
        ),
        (
            pattern("kind = \"permutation\"\n").replace("\"p\"", &format!("\"{long}\"")),
            "7:8: the name",
            "32",
        ),
        (
            pattern("kind = \"permutation\"\n").replace("1Mbit", "-1Mbit"),
            "9:8: \"-1Mbit\" is not a rate",
            "100Mbit",
        ),
    ] {
        let Err(error) = parse(&more) else { panic!("{more} was taken") };
        assert!(error.starts_with(&format!("t.toml:{told}")), "{error}");
        assert!(error.contains("help: ") && error.contains(help), "{error}");
    }
    let large = pattern("kind = \"all-to-all\"\n");
    let text = HEAD.replace("4x3", "20x20") + &large;
    let error = Topology::parse("t.toml", &text).unwrap_err().to_string();
    assert!(error.starts_with("t.toml:11:8: 800 hosts would have 639200 flows"), "{error}");
    let flat = "name = \"t\"\n[generate]\nshape = \"torus 2x2\"\n".to_string();
    let error = Topology::parse("t", &(flat + &pattern("kind = \"tornado\"\n"))).unwrap_err();
    assert!(error.to_string().contains("does not blow"), "{error}");
}
