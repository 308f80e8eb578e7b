//! `plexus top`, of a switch between two hosts.

use serde_json::Value;

use crate::common::{Desk, item, until};

const FILE: &str = "name = \"top\"\n\
    [[node]]\nname = \"s1\"\n\
    [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
    [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
    [[link]]\nends = [\"h1\", \"s1.p1\"]\n\
    [[link]]\nends = [\"h2\", \"s1.p2\"]\n";

#[test]
fn the_rates_of_ports_hosts_and_flows_are_those_of_the_traffic() {
    let Some(desk) = Desk::root("rates") else { return };
    let file = desk.file("top", FILE);
    desk.plexus(&["lab", "up", &file]).expect(0);
    // 100 packets of 1,042 bytes a second, and their answers.
    let ping = ["lab", "exec", "top", "h1", "--", "ping", "-q", "-i0.01", "-s1000", "10.0.0.2"];
    let mut ping = desk.command(&ping).spawn().unwrap();
    let rate = |of: &Value, key: &str| of[key].as_f64().unwrap_or_default();
    let mut last = Value::Null;
    // A sample of a busy machine may miss the rate; half of it and twice it are none of a mistake.
    let is_right = |bits: f64| (400e3..1700e3).contains(&bits);
    let found = until(|| {
        last = desk.json(&["top", "--node", "top/s1", "--once"], 0);
        let (p1, h2) =
            (item(&last["ports"], "name", "p1"), item(&last["hosts"], "address", "10.0.0.2"));
        is_right(rate(&p1, "rx_bits_per_s"))
            && is_right(rate(&p1, "tx_bits_per_s"))
            && (40.0..200.0).contains(&rate(&p1, "rx_packets_per_s"))
            && is_right(rate(&h2, "sends_bits_per_s"))
            && is_right(rate(&h2, "receives_bits_per_s"))
    });
    assert!(found, "{last:#}");
    let text = desk.plexus(&["top", "--node", "top/s1", "--once"]).expect(0).out;
    // Columns are as wide as the addresses in them, and hosts send of their own too.
    let words: Vec<&str> = text.split_whitespace().collect();
    for part in [&["s1:"][..], &["PORT", "LINK"], &["HOST", "SENDS"], &["10.0.0.1"], &["icmp"]] {
        assert!(words.windows(part.len()).any(|found| found == part), "no {part:?}:\n{text}");
    }
    ping.kill().unwrap();
    ping.wait().unwrap();
    desk.down("top");
}
