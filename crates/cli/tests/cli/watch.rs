//! The alert rules and the dashboard that ship for Prometheus and Grafana, and the reference of
//! metrics. They name what daemons serve, and Prometheus' own tools accept it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use plexus_io::namespace::Namespaces;
use plexus_plane::DropReason;
use serde_json::Value;

use crate::common::{self, Daemons, Desk, Running, Said, Signal, signal, until};

const RULES: [&str; 2] = ["nodes.rules.yml", "controllers.rules.yml"];
const DASHBOARD: &str = "plexus-dashboard.json";

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(example(name)).unwrap()
}

/// Prometheus' checker, unless it is not installed.
fn promtool(arguments: &[&str]) -> Option<Command> {
    let mut command = Command::new("promtool");
    let is_there = Command::new("promtool").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: no promtool (scripts/setup watch)");
        return None;
    }
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// The queries of the dashboard's panels, with Grafana's variables filled in.
fn queries() -> Vec<String> {
    let board: Value = serde_json::from_str(&text_of(DASHBOARD)).unwrap();
    let targets =
        board["panels"].as_array().unwrap().iter().filter_map(|p| p["targets"].as_array());
    let text = |target: &Value| {
        let text = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
        text.replace("$node", "n1").replace("$controller", "c1")
    };
    targets.flatten().map(text).collect()
}

/// The names of our metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_word(c)).filter(|word| word.starts_with("plexus_")).collect()
}

fn metrics(place: &Namespaces, port: u16) -> String {
    let answer = common::http(place, port, "/metrics").unwrap_or_default();
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default()
}

/// The page of drop reasons, and of the metrics that a node and a controller serve.
fn reference(served: &[String; 2]) -> String {
    let mut page = "# Reference\n\nWritten from the code by a test, which compares it.\n\n\
                    ## Drop reasons\n\n\
                    `plexus show drops` and the label `reason` of \
                    `plexus_port_dropped_packets_total` have these names.\n\n\
                    | reason | meaning |\n|---|---|\n"
        .to_string();
    for reason in DropReason::ALL {
        page += &format!("| `{}` | {} |\n", reason.name(), reason.explain().trim());
    }
    for (who, text) in ["node", "controller"].iter().zip(served) {
        page += &format!("\n## Metrics of a {who}\n\n| name | type | meaning |\n|---|---|---|\n");
        let helps = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        for (help, kind) in helps.zip(types) {
            let (name, help) = help.split_once(' ').unwrap();
            let kind = kind.strip_prefix(name).unwrap();
            page += &format!("| `{name}` |{kind} | {help} |\n");
        }
    }
    page
}

#[test]
fn prometheus_accepts_the_rules_and_the_queries_of_the_dashboard() {
    let files = RULES.map(example);
    let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let Some(mut check) = promtool(&[&["check", "rules"], &files[..]].concat()) else { return };
    Said::of(&mut check).expect(0);
    // It reads queries as rules.
    let queries = queries();
    assert!(queries.len() > 20, "{}", queries.len());
    let rule = |query: &String| serde_json::json!({"record": "a:query", "expr": query});
    let rules: Vec<Value> = queries.iter().map(rule).collect();
    let file = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let desk = common::Desk::new("dashboard");
    let path = desk.file("dashboard.yml", &file.to_string());
    let mut check = promtool(&["check", "rules", "--lint=none", &path]).unwrap();
    Said::of(&mut check).expect(0);
}

#[test]
fn rules_and_dashboard_ask_for_metrics_that_daemons_serve_and_prometheus_accepts() {
    let Some([place]) = common::namespaces("metrics", || Ok(())) else { return };
    common::ip(&place, "link set dev lo up");
    common::cable((&place, "p1"), (&place, "far"), 2000);
    common::cable((&place, "p2"), (&place, "ctl0"), 2000);
    let mut daemons = Daemons::new("metrics", 1);
    // With a deep buffer and a fast table, which have metrics of their own.
    let more = "metrics = \"127.0.0.1:9464\"\nfast_table = \"tcx\"\n\
                deep_buffer = { bytes = \"1MiB\" }\n";
    let ports = "[[port]]\nname = \"p1\"\nqueue = \"deep\"\n[[port]]\nname = \"p2\"\n";
    let node = more.to_string() + &daemons.node_file("n1") + ports;
    daemons.start(&place, "node", "n1", &node);
    daemons.start_controller(&place, "metrics = \"127.0.0.1:9465\"\n");
    let served = |port: u16| {
        let mut text = String::new();
        let is_whole = || {
            text = metrics(&place, port);
            text.contains("plexus_")
        };
        assert!(until(is_whole), "{}{}", daemons.log("n1", &[]), daemons.log("c1", &[]));
        text
    };
    let served = [served(9464), served(9465)];
    let shipped = RULES.map(text_of).concat() + &text_of(DASHBOARD);
    let asked = names(&shipped);
    assert!(asked.len() > 20, "{asked:?}");
    for name in asked {
        let family = format!("# TYPE {name} ");
        assert!(served.iter().any(|text| text.contains(&family)), "{name} is not served");
    }
    let page = reference(&served);
    let path = example("../docs/reference.md");
    if std::env::var_os("PLEXUS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let is_same = std::fs::read_to_string(path).is_ok_and(|text| text == page);
    assert!(is_same, "docs/reference.md is old: run this test with PLEXUS_WRITE_DOCS=1");
    for text in &served {
        let Some(mut check) = promtool(&["check", "metrics"]) else { return };
        let mut check = check.stdin(Stdio::piped()).spawn().unwrap();
        check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        Said::by(check).expect(0);
    }
}

#[test]
fn a_lab_has_prometheus_watch_all_its_daemons() {
    let Some(desk) = Desk::root("prometheus") else { return };
    if promtool(&[]).is_none() {
        return;
    }
    let file = desk.file("watched", FABRIC);
    // A port that is free now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let option = format!("--prometheus=127.0.0.1:{port}");
    let up = desk.command(&["lab", "up", &file, &option]).spawn().unwrap();
    let mut up = Running(up);
    let ask = || {
        let answer = common::http_here(port, "/api/v1/query?query=up").unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string());
        let json = body.and_then(|body| serde_json::from_str::<Value>(&body).ok());
        let found = json.unwrap_or_default()["data"]["result"].as_array().cloned();
        let of = |up: &Value| {
            let name = up["metric"]["instance"].as_str().unwrap().to_string();
            (name, up["value"][1] == "1")
        };
        let mut all: Vec<_> = found.unwrap_or_default().iter().map(of).collect();
        all.sort();
        all
    };
    let all = ["c1", "n1", "n2"].map(|name| (name.to_string(), true));
    assert!(until(|| ask() == all), "{:?}", ask());
    signal(&up.0, Signal::TERM);
    assert!(until(|| up.has_ended()));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "it ends with the command");
    desk.down("watched");
}

const FABRIC: &str = "name = \"watched\"\n\
    [[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
    [[controller]]\nname = \"c1\"\non = \"n1\"\n\
    [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
    [[link]]\nends = [\"n1.a\", \"n2.a\"]\n\
    [[link]]\nends = [\"h1\", \"n2.h\"]\n";
