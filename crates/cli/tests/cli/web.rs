//! The page of a lab and of a simulation, as a reader of its stream meets it. `fabric.rs` has the
//! controller's.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::common::{Desk, LIMIT, Running, Signal, ask, plexus, shipped, signal, until};

/// A reader of a page's stream.
pub(crate) struct Reader {
    at: String,
    stream: BufReader<TcpStream>,
    /// The newest of each part.
    parts: BTreeMap<String, Value>,
}

impl Reader {
    /// Reads the stream of the page at this URL.
    pub(crate) fn new(url: &str) -> Reader {
        let at = url.trim().trim_start_matches("http://").trim_end_matches('/').to_string();
        let mut stream = TcpStream::connect(&at).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET /api/stream HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
        Reader { at, stream: BufReader::new(stream), parts: BTreeMap::new() }
    }

    /// The first part of this name that is as wanted, within the limit.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, part: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let (mut line, mut name) = (String::new(), String::new());
        let found = until(|| {
            if self.parts.get(part).is_some_and(&is_wanted) {
                return true;
            }
            line.clear();
            let read = self.stream.read_line(&mut line);
            assert!(read.is_ok_and(|len| len > 0), "the page is gone");
            if let Some(of) = line.strip_prefix("event: ") {
                name = of.trim().to_string();
            } else if let Some(data) = line.strip_prefix("data: ") {
                self.parts.insert(name.clone(), serde_json::from_str(data).unwrap());
            }
            false
        });
        assert!(found, "no such {part}: {:#?}", self.parts);
        self.parts[part].clone()
    }

    /// Asks for a path, or sends it a command; the answer and whether it is a good one.
    pub(crate) fn ask(&self, path: &str, command: Option<&str>) -> (bool, String) {
        let Reader { at, .. } = self;
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let method = if command.is_some() { "POST" } else { "GET" };
        let body = command.unwrap_or("");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {at}\r\nOrigin: http://{at}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.starts_with("HTTP/1.1 200"), body.to_string())
    }
}

/// The URL in a program's line about its page.
fn url(out: &mut impl Read) -> String {
    let lines = BufReader::new(out).lines().map_while(Result::ok);
    let mut urls = lines.filter_map(|line| {
        let (_, rest) = line.split_once("the page is at ")?;
        rest.split(' ').next().map(String::from)
    });
    urls.next().expect("it says where its page is")
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().filter_map(|item| item["name"].as_str()).collect()
}

/// Whether both directions of all cables between nodes have rates.
fn has_rates(rates: &Value, cables: usize) -> bool {
    let all = rates["cables"].as_array().unwrap();
    all.iter().filter(|c| c[0].is_u64() && c[1].is_u64()).count() >= cables
}

#[test]
fn a_lab_is_shown_and_stays_when_its_page_ends() {
    let Some(desk) = Desk::root("web") else { return };
    let file = desk.file(
        "shown",
        "name = \"shown\"\n\
         [[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
         [[controller]]\nname = \"c1\"\non = \"n1\"\n\
         [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n\
         [[controller.group]]\nname = \"blue\"\nprefixes = [\"10.0.0.0/24\"]\n\
         [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
         [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
         [[link]]\nends = [\"n1.f\", \"n2.f\"]\nrate = \"100Mbit\"\n\
         [[link]]\nends = [\"h1\", \"n1.p\"]\n[[link]]\nends = [\"h2\", \"n2.p\"]\n",
    );
    let mut up = desk.command(&["lab", "up", &file, "--web=127.0.0.1:0"]);
    let mut up = Running(up.spawn().unwrap());
    let mut out = up.0.stdout.take().unwrap();
    let mut reader = Reader::new(&url(&mut out));
    let map = reader.wait_for("map", |map| map["cables"].as_array().unwrap().len() == 2);
    let mut boxes = names(&map["boxes"]);
    boxes.sort_unstable();
    assert_eq!((&map["title"], boxes), (&"shown".into(), vec!["c1", "n1", "n2"]));
    assert_eq!(map["tenants"], serde_json::json!(["blue"]));
    assert_eq!(map["cables"][0]["rate_mbit_per_s"], 100);
    desk.exec("shown", "h1", "ping -c3 -i0.2 -W5 10.0.0.2").expect(0);
    let hosts = reader.wait_for("hosts", |hosts| names(hosts) == ["h1", "h2"]);
    let mac = |n: usize| hosts[n]["mac"].as_str().unwrap().to_string();
    reader.wait_for("rates", |rates| has_rates(rates, 1));
    reader.wait_for("events", |events| events.to_string().contains("at port 1 of node n1"));
    let (is_good, ways) = reader.ask(&format!("/api/ways/{}/{}", mac(0), mac(1)), None);
    let ways: Value = serde_json::from_str(&ways).unwrap();
    let boxes = ways["ways"][0]["boxes"].as_array().unwrap();
    assert!(is_good && boxes.len() == 2, "{ways}");
    let (is_good, told) = reader.ask("/api/command", Some("{\"pause\":true}"));
    assert!(!is_good && told.contains("changes nothing"), "{told}");

    signal(&up.0, Signal::INT);
    assert!(up.0.wait().unwrap().success());
    desk.plexus(&["lab", "status", "shown"]).expect(0);
    desk.down("shown");
}

#[test]
fn a_controllers_page_has_the_prefixes_to_which_its_nodes_have_routes() {
    let Some(desk) = Desk::root("web-names") else { return };
    let said = desk.plexus(&["lab", "up", &shipped("all-in-one")]);
    if said.lacks_dhclient() {
        return;
    }
    said.expect(0);
    let socket = desk.dir.join("labs/all-in-one/c1.sock");
    let mut network = Value::Null;
    // The answer asks the nodes, and the next one has what they said.
    let has_names = || {
        network = ask(&socket, &serde_json::json!({"network": true})).unwrap_or_default();
        let all = network["counters"].as_array().cloned().unwrap_or_default();
        let prefixes = |of: &Value| of["named"]["prefixes"].as_array().cloned();
        all.iter().filter_map(prefixes).flatten().any(|prefix| prefix == "/video")
    };
    assert!(until(has_names), "{network:#}");
    desk.down("all-in-one");
}

#[test]
fn a_page_without_token_listens_on_this_machine_alone() {
    let file = shipped("demo");
    for command in [["lab", "up"], ["sim", "run"]] {
        let arguments = [command[0], command[1], &file, "--web=0.0.0.0:0"];
        let said = crate::common::Said::of(&mut plexus(&arguments)).expect(2);
        assert!(said.err.contains("neither TLS nor a token"), "{said:?}");
    }
}

#[test]
fn a_simulation_is_paused_and_its_cable_broken_from_its_page() {
    let mut sim = plexus(&["sim", "run", &shipped("ring"), "--web=127.0.0.1:0"]);
    let mut sim = Running(sim.spawn().unwrap());
    let mut told = sim.0.stderr.take().unwrap();
    let mut reader = Reader::new(&url(&mut told));
    let map = reader.wait_for("map", |map| map["cables"].as_array().unwrap().len() > 2);
    let cables = map["cables"].as_array().unwrap().len();
    reader.wait_for("clock", |clock| clock["done"].as_f64().is_some_and(|done| done > 0.0));
    reader.wait_for("rates", |rates| has_rates(rates, cables));
    assert!(reader.ask("/api/command", Some("{\"speed\":0.5}")).0);
    let bad = reader.ask("/api/command", Some("{\"speed\":0}"));
    assert!(!bad.0 && bad.1.contains("between 0.001 and 1000"), "{bad:?}");
    let named = |end: usize| {
        let [place, port] = [0, 1].map(|i| map["cables"][0]["ends"][end][i].as_u64().unwrap());
        serde_json::json!([map["boxes"][place as usize]["name"], port])
    };
    let cut = |ends: [Value; 2]| serde_json::json!({"break": ends}).to_string();
    assert!(!reader.ask("/api/command", Some(&cut([named(0), named(0)]))).0);
    assert!(reader.ask("/api/command", Some(&cut([named(0), named(1)]))).0);
    let fewer = |map: &Value| map["cables"].as_array().unwrap().len() == cables - 1;
    reader.wait_for("map", fewer);
    reader.wait_for("events", |events| events.to_string().contains("lost"));
    assert!(reader.ask("/api/command", Some("{\"pause\":true}")).0);
    reader.wait_for("clock", |clock| clock["paused"] == true);
    signal(&sim.0, Signal::INT);
    sim.0.wait().unwrap();
}
