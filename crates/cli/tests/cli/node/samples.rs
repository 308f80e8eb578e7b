//! `plexus trace --sample`: frames that the kernel forwards are shown, and it goes on to forward.

use super::fast_table::fast_stations;
use super::*;

const TCX: &str = "fast_table = \"tcx\"\nbackend = \"af_packet\"";

impl Node<'_> {
    fn trace(&self, options: &[&str]) -> Command {
        let socket = self.socket();
        let mut command = self.net.command(&["trace", "--control", socket.to_str().unwrap()]);
        command.args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

#[test]
fn a_trace_of_samples_leaves_flows_in_the_kernel() {
    let Some(net) = Net::new(2) else { return };
    let node = net.node("a", TCX, &ports(2));
    let [mut one, mut two] = fast_stations(&net, &node);
    // One goes on until it is ended, so that the port is traced all the time.
    let mut endless = Running(node.trace(&["p1", "--sample", "1000000"]).spawn().unwrap());
    let file = net.path("samples");
    let options = ["p1", "--sample", "4", "--count", "5", "--filter", " sample "];
    let mut trace = node.trace(&options);
    let mut trace = trace.args(["--write", file.to_str().unwrap()]).spawn().unwrap();
    let sent = frame(mac(2), mac(1), 7);
    assert!(until(|| {
        one.send(&sent);
        assert_eq!(two.receive(), sent);
        trace.try_wait().unwrap().is_some()
    }));
    let said = Said::by(trace).expect(0);
    assert_eq!(said.out.lines().count(), 5, "{said:?}");
    for line in said.out.lines() {
        let frame = "in  sample 02:00:00:00:00:01 > 02:00:00:00:00:02 ethertype 0x88b5, length 60";
        assert!(line.contains(frame), "{line}");
    }
    // The file has the bytes that there are, and the length.
    let mut reader = pcap::Reader::new(BufReader::new(File::open(file).unwrap())).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..5 {
        let record = reader.next(&mut bytes).unwrap().unwrap();
        assert_eq!((&bytes[..], record.original_len), (&sent[..59], 60));
    }
    assert!(reader.next(&mut bytes).unwrap().is_none());
    // The kernel has the flow, while the port is still traced.
    assert!(!endless.has_ended());
    node.until_fast(&mut one, &mut two, (1, 2));
    assert_eq!(item(&node.facts("fast-table")["ports"], "name", "p1")["forwards"], true);
    // No sample counts as a packet.
    let count = one.port.stats().tx_packets;
    assert_eq!(node.port("p1")["rx_packets"], count);
    assert_eq!(node.port("p2")["tx_packets"], count);
    node.assert_balances();
    // A full trace still shows every frame.
    let mut whole = node.trace(&["p1", "--count", "50"]).spawn().unwrap();
    assert!(until(|| {
        one.send(&sent);
        assert_eq!(two.receive(), sent);
        whole.try_wait().unwrap().is_some()
    }));
    let said = Said::by(whole).expect(0);
    assert!(said.out.lines().all(|line| !line.contains("sample")), "{said:?}");
    node.until_fast(&mut one, &mut two, (1, 2));
    drop(endless);
    node.assert_balances();
    node.assert_ends_well();
}

#[test]
fn the_answer_says_which_frames_are_samples() {
    let Some(net) = Net::new(2) else { return };
    let node = net.node("a", TCX, &ports(2));
    let [mut one, mut two] = fast_stations(&net, &node);
    let stream = UnixStream::connect(node.socket()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    writeln!(&stream, "{{\"trace\":{{\"port\":\"p1\",\"sample\":1}}}}").unwrap();
    let mut lines = BufReader::new(&stream).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "{}");
    let mut long = frame(mac(2), mac(1), 7);
    long.resize(1000, 0x5A);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (mut samples, mut frames) = (0, 0);
    // Frames that pass the pipeline are whole: the flow's rule may be a new one.
    while samples < 20 {
        frames += 1;
        assert!(frames < 1000, "{samples} samples of {frames} frames");
        one.send(&long);
        assert_eq!(two.receive(), long);
        let line = lines.next().unwrap().unwrap();
        let seen: Value = serde_json::from_str(&line).unwrap();
        if seen["sample"].is_null() {
            continue;
        }
        let is_sample = seen["sample"] == true;
        let bytes = if is_sample { &long[..128] } else { &long[..] };
        assert_eq!((&seen["len"], &seen["frame"]), (&1000.into(), &hex(bytes).into()));
        assert_eq!((&seen["out"], &seen["missed"]), (&false.into(), &0.into()));
        samples += usize::from(is_sample);
    }
    node.assert_balances();
}

#[test]
fn a_trace_of_samples_needs_a_table_that_takes_some() {
    let Some(net) = Net::new(2) else { return };
    let cases = [
        ("fast_table = \"off\"\nbackend = \"af_packet\"", "there is no fast table to sample"),
        ("fast_table = \"xdp\"\nbackend = \"af_xdp\"", "only a fast table of tcx takes samples"),
        ("fast_table = \"tcx\"\nbackend = \"af_xdp\"", "has no part in port p1 (af_xdp)"),
    ];
    for (rest, why) in cases {
        let node = net.node("a", rest, &ports(2));
        let said = Said::of(&mut node.trace(&["p1", "--sample", "8"])).expect(2);
        let advice = "a trace without a sample shows every frame";
        assert!(said.err.contains(why) && said.err.contains(advice), "{said:?}");
        node.assert_ends_well();
    }
    let said = net.plexus(&["trace", "p1", "--sample", "0"]).expect(2);
    assert!(said.err.contains("--sample"), "{said:?}");
}
