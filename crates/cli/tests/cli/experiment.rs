//! `plexus experiment` as people use it: the answers have the shape of the contract, the files are
//! written, and labs go as they came. What was measured is not judged here: machines that run tests
//! are busy.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::browser;
use crate::common::{self, Desk, Said, Signal, item};
use serde_json::Value;

impl Desk {
    /// Runs `plexus experiment` and gives its exit code and output.
    fn experiment(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Said { code, out, err } = self.plexus(&[&["experiment"], arguments].concat());
        (code, out, err)
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort();
    keys
}

/// Checks the shape of DESIGN ("JSON answers: experiment run"); the rows.
#[track_caller]
fn rows<'a>(result: &'a Value, name: &str) -> &'a [Value] {
    assert_eq!(keys(result), ["commit", "mode", "name", "rows", "seed"]);
    assert_eq!((&result["name"], &result["mode"]), (&name.into(), &"quick".into()));
    assert!(result["seed"].is_u64() && !result["commit"].as_str().unwrap().is_empty());
    let rows = result["rows"].as_array().unwrap();
    for row in rows {
        assert_eq!(keys(row), ["note", "ours", "paper", "quantity", "unit"]);
        assert!(row["ours"].is_number() && (row["paper"].is_number() || row["paper"].is_null()));
        assert!(["quantity", "unit", "note"].iter().all(|key| row[key].is_string()), "{row}");
    }
    rows
}

#[test]
fn the_list_names_every_experiment_and_the_others_are_refused() {
    let desk = Desk::new("experiment");
    let (code, out, _) = desk.experiment(&["list"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("axon-table1 ") && out.contains("axon-header "), "{out}");
    let (_, json, _) = desk.experiment(&["list", "--json"]);
    let list: Value = serde_json::from_str(&json).unwrap();
    for experiment in list.as_array().unwrap() {
        assert_eq!(keys(experiment), ["about", "input", "kind", "name", "paper"]);
        let paper = experiment["paper"].as_str().unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(paper);
        let about = fs::read_to_string(folder.join("README.md")).unwrap();
        let name = experiment["name"].as_str().unwrap();
        assert!(about.contains(&format!("\n## {name}\n")), "{name} is not in {paper}");
    }
    let (code, out, err) = desk.experiment(&["run", "axon-tabel1"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("axon-tabel1") && err.contains("axon-table1"), "{err}");
}

#[test]
fn the_cost_of_headers_comes_with_its_files() {
    let desk = Desk::new("experiment");
    let out = desk.dir.join("new/results").display().to_string();
    let (code, json, err) =
        desk.experiment(&["run", "axon-header", "--quick", "--json", "--out", &out]);
    assert_eq!(code, Some(0), "{err}");
    let result: Value = serde_json::from_str(&json).unwrap();
    let rows = rows(&result, "axon-header");
    let row = |quantity: &str| rows.iter().find(|r| r["quantity"] == quantity).unwrap();
    let paper = row("lost to 100 hops, 9000-byte frames, computed");
    assert_eq!((&paper["paper"], &paper["unit"]), (&3.0.into(), &"%".into()));
    assert!((paper["ours"].as_f64().unwrap() - 1.16).abs() < 0.01, "{paper}");
    let counted = row("lost to 100 hops, 1500-byte frames, counted");
    // 106 bytes in 1626.
    assert!((counted["ours"].as_f64().unwrap() - 6.52).abs() < 0.01, "{counted}");
    let read = |end: &str| fs::read_to_string(format!("{out}/axon-header{end}")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&read(".json")).unwrap(), result);
    assert_eq!(read(".csv").lines().count(), 1 + 24);
    // Nothing leads to an index that is not there.
    assert_stands_alone(Path::new(&format!("{out}/axon-header.html")));
    // A place that cannot be is said before anything runs.
    let (code, _, err) = desk.experiment(&["run", "axon-header", "--out", "/proc/none"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("/proc/none"), "{err}");
}

/// Debian has another `click`: whoever names that is told, and not left without a column.
#[test]
fn what_is_not_the_click_modular_router_is_refused_before_anything_runs() {
    for (program, why) in [("/bin/true", "not the Click modular router"), ("/none/click", "")] {
        let words = ["experiment", "run", "router-linux-click", "--quick"];
        let said = Said::of(common::plexus(&words).env("CLICK", program)).expect(2);
        let told = said.err.contains(&format!("CLICK: {program}")) && said.err.contains(why);
        assert!(said.out.is_empty() && told, "{said:?}");
    }
}

/// A row by its quantity: unit, paper's figure, ours.
type Row<'a> = &'a dyn Fn(&str) -> (String, Option<f64>, f64);

type Check = fn(Row);

/// Checks of figures that the quick forms of these experiments must have on any machine.
const FIGURES: [(&str, Check); 9] = [
    ("aurora-link", assert_link),
    ("aurora-load", assert_load),
    ("aurora-throughput", assert_throughput),
    ("axon-latency", assert_latency),
    ("axon-vm", assert_real_hosts),
    ("butterfly-16", assert_sixteen_ports),
    ("butterfly-scale", assert_scale),
    ("ndn-linerate", assert_latency_of_names),
    ("router-double", assert_hops),
];

/// Two boards lose on the link what is stated, and the rest by assumption.
fn assert_throughput(row: Row) {
    let (unit, paper, ours) = row("loss, set 2 C");
    assert_eq!((unit.as_str(), paper), ("%", Some(0.89)));
    assert!((0.2..0.6).contains(&ours), "{ours}");
    assert_eq!(row("loss, set 1 A"), ("%".into(), Some(0.0), 0.0));
    assert!(row("loss, set 3 C").2 < 0.6);
    assert!(row("loss, set 3 C, if memory takes turns as in the reference design").2 > 3.0);
}

fn assert_load(row: Row) {
    assert_eq!(row("highest load without loss, set 2 C").1, Some(900.0));
    assert!(row("highest load without loss, set 3 C").2 >= 800.0);
}

fn assert_link(row: Row) {
    assert_eq!(row("raw rate of a link"), ("Gbit/s".into(), Some(2.0), 2.0));
    assert!(row("lost of two full cables on a link, 64-byte frames").2 > 4.0);
}

/// Eight boards are a switch of sixteen ports that does not block.
fn assert_sixteen_ports(row: Row) {
    assert_eq!(row("boards, dilated butterfly"), ("boards".into(), Some(8.0), 8.0));
    assert_eq!(row("boards, Clos as the paper counts"), ("boards".into(), Some(12.0), 12.0));
    assert_eq!(row("rearrangeably non-blocking").2, 1.0);
    assert_eq!(row("rearrangeably non-blocking, undilated").2, 0.0);
    let lost = |policy| row(&format!("lost with all 16 ports busy, routes by {policy}")).2;
    assert!(lost("shortest") > lost("spain"));
}

fn assert_scale(row: Row) {
    assert_eq!(row("sizes that are rearrangeably non-blocking, by proof").2, 100.0);
    assert_eq!(row("the same of undilated butterflies").2, 0.0);
}

/// Checks a page: whole, of no file but those beside it, and for those who do not see it as well.
#[track_caller]
fn assert_stands_alone(page: &Path) {
    let text = fs::read_to_string(page).unwrap();
    let xml = text.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let document = roxmltree::Document::parse(xml).unwrap_or_else(|e| panic!("{page:?}: {e}"));
    let loading = ["script", "link", "iframe", "object", "embed", "img", "image", "use"];
    for node in document.descendants().filter(|n| n.is_element()) {
        let name = node.tag_name().name();
        assert!(!loading.contains(&name), "{page:?}: <{name}>");
        match name {
            "style" => {
                let style = node.text().unwrap();
                assert!(!style.contains("url(") && !style.contains("@import"), "{page:?}");
            }
            "svg" => assert!(node.attribute("aria-label").is_some_and(|alt| alt.len() > 20)),
            "th" => assert!(node.attribute("scope").is_some(), "{page:?}"),
            _ => {}
        }
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on") && !value.contains("://"), "{page:?}: {name}");
            if name == "href" || name == "src" {
                let there = page.parent().unwrap().join(value).is_file();
                assert!(there && !value.contains('/'), "{page:?} leads to {value}");
            }
        }
    }
}

/// The table of six flows in a line and in a ring, all of which carried something.
fn assert_table1(result: &Value, csv: &str) {
    let papers: Vec<f64> =
        rows(result, "axon-table1").iter().filter_map(|r| r["paper"].as_f64()).collect();
    assert_eq!(papers[..6], [2906.0, 5690.0, 96.0, 2425.0, 3951.0, 63.0]);
    // The least and the greatest flow, which a total hides.
    assert_eq!(papers[6..], [476.0, 509.0, 243.0, 598.0, 930.0, 952.0, 493.0, 815.0]);
    let (mut flows, mut nodes) = (0, std::collections::BTreeSet::new());
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, lab, proto, _, from, to, _, received] = fields[..] else { panic!("{line}") };
        assert!(received.parse::<f64>().unwrap() > 0.0, "{line}");
        // Two hosts at each node: h1 and h2 at the first.
        let node = |host: &str| host[1..].parse::<u32>().unwrap().div_ceil(2);
        nodes.insert((lab.to_string(), proto.to_string(), node(from), node(to)));
        flows += 1;
    }
    // Six flows in either lab by either protocol: each pair of nodes, each way.
    assert_eq!((flows, nodes.len()), (24, 24));
}

/// Numbers of a CSV's columns, line by line.
fn columns<const N: usize>(csv: &str, names: [&str; N]) -> Vec<[f64; N]> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let at = names.map(|name| heads.iter().position(|head| *head == name).unwrap());
    lines.map(|line| at.map(|i| line[i].parse().unwrap())).collect()
}

/// Both caches answered, and with the producer all that the consumer got, but for the Interests
/// that are on their way when it leaves.
fn assert_linerate(csv: &str) {
    let names = ["disks", "memory_hits", "disk_hits", "misses", "data"];
    let runs = columns(csv, names);
    assert_eq!(runs.iter().map(|run| run[0]).collect::<Vec<_>>(), [1.0, 2.0]);
    // Where other tests keep the processors busy, one short run may find nothing on its disk.
    assert!(runs.iter().map(|run| run[2]).sum::<f64>() > 0.0, "{csv}");
    for [_, memory, disk, misses, data] in runs {
        assert!(misses > 0.0 && memory >= 0.0, "{csv}");
        assert!((memory + disk + misses - data).abs() <= 64.0, "{csv}");
    }
}

/// Nothing is read ahead unless it is asked for, and nothing is missed.
fn assert_batch(csv: &str) {
    let runs = columns(csv, ["batch", "misses", "reads_ahead"]);
    let (without, with) = runs.split_at(runs.len() / 2);
    for (without, with) in without.iter().zip(with) {
        let ([batch, _, none], [_, misses, ahead]) = (without, with);
        assert_eq!((*none, *ahead > 0.0, *misses), (0.0, *batch > 1.0, 0.0), "{csv}");
    }
}

/// Latency is measured by window, and apart from that in the router. Which of them is the greater
/// is not judged: probes find the router asleep, and a busy machine wakes it late.
fn assert_latency_of_names(row: Row) {
    for (window, paper) in [(1, None), (16, Some(96.0))] {
        let ends = row(&format!("window {window}: end to end, mean"));
        let router = row(&format!("window {window}: a packet in the router, mean"));
        for (unit, beside, ours) in [&ends, &router] {
            assert_eq!((unit.as_str(), *beside), ("us", paper), "window {window}");
            assert!(ours.is_finite() && *ours > 0.0, "window {window}: {ours}");
        }
        // The one is not taken from the other.
        assert!((ends.2 / router.2 - 1.0).abs() > 1e-4, "window {window}: {}", ends.2);
    }
}

/// The hop is half of what three boxes take more than one. On a busy machine the one may be the
/// slower, so its sign is not judged; that something was measured is.
fn assert_latency(row: Row) {
    for what in ["our fabric node", "our switch"] {
        // A frame's time on a cable of 1 Gbit/s, preamble included, and what the paper's switch
        // takes.
        for (size, frame_us, paper) in [(64, 0.576, 7.0), (1518, 12.208, 28.0)] {
            let (unit, beside, hop) = row(&format!("{what}, a hop, {size}-byte frames"));
            assert_eq!((unit.as_str(), beside), ("us", None));
            assert!(hop.is_finite() && hop != 0.0, "{what}, {size}: {hop}");
            let on_cables = |how| row(&format!("{what} on 1 Gbit/s, {how}, {size}-byte frames"));
            let (_, beside, early) = on_cables("early forwarding");
            assert_eq!((beside, early), (None, hop), "{what}, {size}");
            let (_, beside, whole) = on_cables("store and forward");
            assert_eq!(beside, Some(paper));
            // Rows are rounded to six digits.
            let rounding = f64::max(0.002, whole * 1e-5);
            assert!((whole - hop - frame_us).abs() < rounding, "{what}, {size}: {whole} {hop}");
        }
    }
    assert_eq!(row("Axon, from fabric to fabric, 64-byte frames").1, Some(520.0));
}

/// Real hosts talk through simulated networks. Cables of 1 ms: nothing is there sooner, however
/// busy the machine is.
fn assert_real_hosts(row: Row) {
    let ours = |quantity: &str| row(quantity).2;
    for (network, cables) in [("ring of 3", 3.0), ("torus of 25", 6.0)] {
        assert!(ours(&format!("{network}: round trip, median")) > 2.0 * cables);
        assert!(ours(&format!("{network}: pings answered")) > 0.0);
        assert!(ours(&format!("{network}: TCP, all pairs together")) > 0.0);
    }
}

/// Two boxes that route are two hops, and a group is one.
fn assert_hops(row: Row) {
    assert_eq!(row("routers on the way, routed twice").2, 2.0);
    assert_eq!(row("routers on the way, routed once").2, 1.0);
    assert!(row("routed once, 10 routes, 64 bytes, many flows").2 > 0.0);
}

#[test]
fn all_of_them_leave_pages_that_stand_alone_and_nothing_else() {
    let desk = Desk::new("experiment");
    let out = desk.dir.join("results");
    let place = out.display().to_string();
    let (code, json, err) = desk.experiment(&["run", "all", "--quick", "--json", "--out", &place]);
    let results: Vec<Value> = serde_json::from_str(&json).unwrap();
    let list: Vec<Value> = serde_json::from_str(&desk.experiment(&["list", "--json"]).1).unwrap();
    // One that cannot run does not keep the others from it.
    assert_eq!(code, Some(if results.len() == list.len() { 0 } else { 2 }), "{err}");
    let index = fs::read_to_string(out.join("index.html")).unwrap();
    let is_root = common::is_root("experiments");
    for experiment in &list {
        let name = experiment["name"].as_str().unwrap();
        let link = index.contains(&format!("<a href=\"{name}.html\">{name}</a>"));
        let result = results.iter().find(|r| r["name"] == name);
        assert_eq!(link, result.is_some(), "{name}");
        let Some(result) = result else {
            assert!(experiment["kind"] == "lab" && !is_root, "{name}: {err}");
            eprintln!("SKIPPED: {name} needs a lab, which cannot be made without root here");
            assert!(index.contains(&format!("<th scope=\"row\">{name}</th><td>")), "{name}");
            continue;
        };
        let rows = rows(result, name);
        assert!(!rows.is_empty());
        if let Some((_, check)) = FIGURES.iter().find(|(of, _)| *of == name) {
            check(&|quantity| {
                let row = rows.iter().find(|row| row["quantity"] == quantity);
                let row = row.unwrap_or_else(|| panic!("{quantity} is not in {rows:?}"));
                let unit = row["unit"].as_str().unwrap().to_string();
                (unit, row["paper"].as_f64(), row["ours"].as_f64().unwrap())
            });
        }
        let read = |end: &str| fs::read_to_string(out.join(format!("{name}{end}"))).unwrap();
        assert_eq!(&serde_json::from_str::<Value>(&read(".json")).unwrap(), result);
        assert!(read(".csv").lines().count() > 1 && read("-fig1.csv").lines().count() > 1);
        let page = read(".html");
        let figures = page.matches("<figure id=").count();
        // Each is drawn for wide screens and for narrow ones.
        assert!(figures > 0 && page.matches("<svg ").count() == 2 * figures);
        assert_eq!(page.matches("<p class=\"verdict ").count(), 1, "{name}");
        assert!(page.contains("<p><strong>Claim"), "{name}");
        assert!(page.contains(&format!("plexus experiment run {name} --quick --out")));
    }
    if let Some(result) = results.iter().find(|r| r["name"] == "axon-table1") {
        assert_table1(result, &fs::read_to_string(out.join("axon-table1.csv")).unwrap());
    }
    for (name, check) in
        [("ndn-linerate", assert_linerate as fn(&str)), ("ndn-batch", assert_batch)]
    {
        if results.iter().any(|r| r["name"] == name) {
            check(&fs::read_to_string(out.join(format!("{name}.csv"))).unwrap());
        }
    }
    for file in fs::read_dir(&out).unwrap() {
        let path = file.unwrap().path();
        match path.extension().and_then(|e| e.to_str()) {
            Some("html") => assert_stands_alone(&path),
            Some("png") => {
                let picture = tiny_skia::Pixmap::load_png(&path).unwrap();
                assert!(picture.width() > 1000 && picture.height() > 500);
                // Something is drawn, title and all.
                let mut drawn = picture.pixels().iter().filter(|p| p.red() < 128);
                assert!(drawn.nth(2000).is_some(), "{path:?} is empty");
            }
            Some("svg") => {
                let text = fs::read_to_string(&path).unwrap();
                assert!(roxmltree::Document::parse(&text).is_ok(), "{path:?}");
            }
            Some("json" | "csv") => {}
            _ => panic!("{path:?}"),
        }
    }
    assert_fit(&desk, &out);
    desk.assert_nothing_left();
}

/// Checks that a browser shows every text of the pages in a folder whole and by itself.
#[track_caller]
fn assert_fit(desk: &Desk, folder: &Path) {
    let pages = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|e| e == "html"));
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        (name, fs::read_to_string(path).unwrap())
    };
    let pages: Vec<_> = pages.map(read).collect();
    let Some(seen) = browser::measure(&desk.dir.join("browser"), &pages) else { return };
    // A drawing at least on each, at both widths.
    assert!(seen.drawings as usize >= 2 * pages.len(), "{}", seen.drawings);
    assert!(seen.problems.is_empty(), "{}", seen.problems.join("\n"));
}

#[test]
fn a_browser_sees_what_is_cut_off_and_what_lies_over_each_other() {
    let desk = Desk::new("experiment");
    let text = |x: u32, y: u32, text: &str| {
        format!("<text x=\"{x}\" y=\"{y}\" font-size=\"12\">{text}</text>")
    };
    let svg = |width: u32, texts: &[String]| {
        let texts = texts.concat();
        format!("<svg viewBox=\"0 0 {width} 100\" width=\"300\">{texts}</svg>")
    };
    let page = |name: &str, body: String| {
        (name.to_string(), format!("<body style=\"margin:0\">{body}</body>"))
    };
    let pages = [
        page("good", svg(300, &[text(0, 20, "one"), text(0, 40, "two"), text(100, 20, "three")])),
        page("cut", svg(300, &[text(290, 20, "eternity")])),
        page("over", svg(300, &[text(0, 20, "legend"), text(20, 22, "other")])),
        page("small", svg(900, &[text(0, 20, "tiny")])),
        page("wide", "<div style=\"width:2000px\">x</div>".into()),
    ];
    let Some(seen) = browser::measure(&desk.dir.join("browser"), &pages) else { return };
    let told = |page: &str, what: &str| {
        let is_it = |p: &&String| p.starts_with(&format!("{page} at")) && p.contains(what);
        seen.problems.iter().filter(is_it).count()
    };
    let counts = [("cut", "cut off"), ("over", "over each"), ("small", "high"), ("wide", "wide")];
    for (page, what) in counts {
        assert_eq!(told(page, what), 2, "{page}: {:?}", seen.problems);
    }
    assert_eq!((seen.problems.len(), seen.drawings), (8, 8), "{:?}", seen.problems);
}

/// A capture of frames of 34 bytes, cut after the IPv4 header, to 192.0.2.X.
fn capture(to: &[u8]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 96, 1]);
    for last in to {
        file.extend(words(&[0, 0, 34, 1514]));
        file.extend([2; 12]);
        file.extend([0x08, 0x00, 0x45, 0, 0x05, 0xdc]);
        file.extend([0; 12]);
        file.extend([192, 0, 2, *last]);
    }
    file
}

#[test]
fn a_capture_is_looked_at_up_to_where_it_is_broken() {
    let desk = Desk::new("experiment");
    let path = desk.dir.join("trace.pcap");
    let file = path.display().to_string();
    let run = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        desk.experiment(&["run", "axon-cam", "--quick", "--json", "--input", &file])
    };
    let ours = |json: &str, quantity: &str| {
        let result: Value = serde_json::from_str(json).unwrap();
        rows(&result, "axon-cam");
        item(&result["rows"], "quantity", quantity)["ours"].as_f64().unwrap()
    };
    // Two of five are sent to again: one packet later, and after another destination.
    let whole = capture(&[1, 1, 2, 1, 3]);
    let (code, json, err) = run(&whole);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(ours(&json, "capture: hits of an endless table"), 40.0);
    assert_eq!(ours(&json, "capture: sufficient, LRU"), 2.0);
    let (code, json, _) = run(&whole[..whole.len() - 60]);
    assert_eq!((code, ours(&json, "capture: hits of an endless table")), (Some(0), 33.3333));
    for (bytes, wanted) in [
        (&b"no capture at all"[..], "neither a pcap nor a pcapng file (at byte 0)"),
        (&capture(&[])[..], "0 frames, none of IP"),
    ] {
        let (code, _, err) = run(bytes);
        assert_eq!(code, Some(2));
        assert!(err.contains(&file) && err.contains(wanted), "{err}");
    }
    for arguments in [["axon-header", &file], ["all", &file], ["axon-cam", "/none"]] {
        let [name, input] = arguments;
        let (code, out, err) = desk.experiment(&["run", name, "--quick", "--input", input]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.contains("axon-cam") || err.contains("/none"), "{err}");
    }
}

#[test]
fn a_signal_takes_the_labs_down() {
    let Some(desk) = Desk::root("experiments") else { return };
    let run = ["experiment", "run", "axon-table1", "--quick"];
    let mut child = desk.command(&run).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first lab is up, the second about to be built.
    let building = lines.find(|l| l.as_ref().is_ok_and(|l| l.contains("ring")));
    assert!(building.is_some(), "the experiment ended");
    assert!(!desk.labs().is_empty());
    common::signal(&child, Signal::TERM);
    assert!(!child.wait().unwrap().success());
    desk.assert_nothing_left();
}
