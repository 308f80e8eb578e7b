//! Several workers in one node.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plexus_wire::ndn::{NameBuf, interest};
use serde_json::{Value, json};

use super::commands::{Client, of};
use super::{Node, bytes};
use crate::common::{Desk, Running, until};

/// An address of this machine that no other test has: the whole of 127.0.0.0/8 leads here.
pub(crate) fn own_address(n: u8) -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 * n + high, middle, low)
}

impl Node {
    /// A number of each worker, by its path in `show names`.
    fn of_workers(&self, path: &str) -> Vec<u64> {
        let names = self.show("names").unwrap();
        let workers = names["workers"].as_array().unwrap();
        workers.iter().map(|worker| worker.pointer(path).and_then(Value::as_u64).unwrap()).collect()
    }

    /// Whether all Interests have ended, none was lost between workers, and several workers had
    /// some.
    #[track_caller]
    fn accounts_for_all(&self) {
        let ended = until(|| self.show("names").unwrap()["pending"] == 0);
        let names = self.show("names").unwrap();
        assert!(ended && names["asked"]["held"] == 0, "{names}");
        let written = self.of_workers("/asked/written");
        assert_eq!(names["asked"]["written"], written.iter().sum::<u64>(), "{names}");
        assert!(written.iter().filter(|n| **n > 0).count() > 1, "{names}");
        for full in ["/given_dropped", "/returned_dropped"] {
            assert!(self.of_workers(full).iter().all(|n| *n == 0), "{names}");
        }
    }
}

impl Desk {
    /// Publishes files under prefixes that are known not to be one worker's.
    fn serve_several(&self, node: &Node) -> Vec<(String, Vec<u8>, Running)> {
        let publish = |i: usize| {
            let (prefix, content) = (format!("/several/{i}"), bytes(300_000 + i));
            let file = self.path(&format!("{}-{i}", node.name));
            fs::write(&file, &content).unwrap();
            let producer = self.serve(node, &prefix, &file);
            (prefix, content, producer)
        };
        (0..6).map(publish).collect()
    }
}

#[test]
fn files_come_whole_through_several_workers_by_unix_and_tcp() {
    let desk = Desk::new("named-workers");
    let tcp = own_address(0);
    let node = desk.node("n", &format!("workers = 3\ntcp = [\"{tcp}\"]\n"));
    for (i, (prefix, content, _producer)) in desk.serve_several(&node).iter().enumerate() {
        let uri = if i % 2 == 0 { desk.uri("n") } else { format!("tcp4://{tcp}:6363") };
        assert!(desk.fetch_by(&uri, prefix).unwrap() == *content, "{prefix} over {uri}");
        // Once more, from the content stores.
        assert!(desk.fetch_by(&uri, prefix).unwrap() == *content, "{prefix} over {uri}");
    }
    node.accounts_for_all();
    assert!(node.of_workers("/cache_hits").iter().filter(|n| **n > 0).count() > 1);
}

#[test]
fn a_prefix_of_the_dispatch_table_has_several_workers_and_another_one() {
    let desk = Desk::new("named-dispatch");
    let table = |components: u8| {
        let of = format!("prefix = \"/web\"\ncomponents = {components}\n");
        format!("workers = 4\n[[named.dispatch]]\n{of}")
    };
    let node = desk.node("n", &table(4));
    let uri = desk.uri("n");
    let ask = |site: &str, what: &str| {
        let list = desk.path(what);
        fs::write(&list, (0..60).map(|i| format!("/{what}/{i}\n")).collect::<String>()).unwrap();
        let words = ["ndn", "gen", "--window", "60", "--lifetime", "1h", "--transport", &uri];
        let more = ["--trace", list.to_str().unwrap(), "--prefix", site];
        desk.program(&[&words[..], &more].concat())
    };
    let more = |path: &str, before: &[u64]| -> Vec<u64> {
        node.of_workers(path).iter().zip(before).map(|(now, before)| now - before).collect()
    };
    for (site, workers) in [("/web/example.org", 4), ("/other/example.org", 1)] {
        // Interests of the last site's consumers go with their faces.
        assert!(until(|| node.of_workers("/pending").iter().sum::<u64>() == 0));
        let [pending, cached] = ["/pending", "/cached"].map(|path| node.of_workers(path));
        let all_in = |path: &str, before: &[u64]| {
            let is_all = || more(path, before).iter().sum::<u64>() == 60;
            assert!(until(is_all), "{site}: {:?}", more(path, before));
            let busy = more(path, before).into_iter().filter(|n| *n > 0).count();
            assert_eq!(busy, workers, "{site}: {:?}", more(path, before));
        };
        // Somebody who does not answer, and then somebody who does.
        let mut silent = Client::new(&desk.path("n.nfd"));
        assert_eq!(silent.command("rib/register", &of(site)).code, 200);
        let _asker = ask(site, "news");
        all_in("/pending", &pending);
        drop(silent);
        assert!(until(|| !node.has_route(site)));
        let produce = ["ndn", "produce", "--size", "100", "--transport", &uri, "--prefix", site];
        let _producer = desk.program(&produce);
        assert!(until(|| node.has_route(site)));
        let _asker = ask(site, "page");
        all_in("/cached", &cached);
    }
    let names = node.show("names").unwrap();
    let shown = json!([{"prefix": "/", "components": 2}, {"prefix": "/web", "components": 4}]);
    assert_eq!(names["dispatch"], shown);
    desk.write("n", &table(3));
    let refused = node.reload();
    assert!(refused["error"].to_string().contains("[[named.dispatch]] changes only"), "{refused}");
}

#[test]
fn tokens_lead_data_between_boxes_back_to_the_worker_that_asked() {
    let desk = Desk::new("named-tokens");
    let [near, far] = [own_address(1), own_address(2)];
    let up = format!(
        "workers = 4\nudp = [\"{near}\"]\n[[named.face]]\nname = \"up\"\n\
         remote = \"udp4://{far}:6363\"\n[[named.route]]\nprefix = \"/several\"\nface = \"up\"\n"
    );
    let far = desk.node("far", &format!("workers = 3\nudp = [\"{far}\"]\n"));
    let near = desk.node("near", &up);
    for (prefix, content, _producer) in desk.serve_several(&far) {
        assert!(desk.fetch("near", &prefix).unwrap() == content, "{prefix}");
    }
    near.accounts_for_all();
    far.accounts_for_all();
    let faces = near.show("faces").unwrap();
    let faces = faces["faces"].as_array().unwrap();
    let up = faces.iter().find(|face| face["remote"].as_str().unwrap().starts_with("udp4"));
    let up = up.unwrap_or_else(|| panic!("{faces:?}"));
    assert_eq!(up["fates"].as_object().unwrap().len(), 1, "all was delivered: {up}");
    assert_eq!(up["fates"]["Data sent to who asked for it"], up["received"]["data"], "{up}");
}

#[test]
fn workers_without_work_sleep() {
    let desk = Desk::new("named-idle");
    let node = desk.node("n", "workers = 4\n");
    for (prefix, content, _producer) in desk.serve_several(&node) {
        assert!(desk.fetch("n", &prefix).unwrap() == content, "{prefix}");
    }
    let is_idle = || node.show("faces").unwrap()["faces"] == serde_json::json!([]);
    assert!(until(is_idle), "{}", node.show("faces").unwrap());
    assert!(until(|| node.show("names").unwrap()["pending"] == 0));
    let before = node.of_workers("/turns");
    // Whoever turned without being asked would do so many times.
    std::thread::sleep(Duration::from_millis(300));
    let after = node.of_workers("/turns");
    let turned = |(before, after): (&u64, &u64)| after - before;
    // To be asked is to be woken: a turn for that, and one to see that there is nothing more.
    let turns: Vec<u64> = before.iter().zip(&after).map(turned).collect();
    assert!(turns.iter().all(|n| *n <= 4), "{turns:?}");
}

#[test]
fn what_a_client_asked_for_is_given_back_once_it_has_gone() {
    let desk = Desk::new("named-gone");
    // Where the route leads, nobody answers.
    let sink = UdpSocket::bind((own_address(3), 0)).unwrap();
    let more = format!(
        "workers = 2\nudp = [\"{}:7004\"]\n\
         [[named.face]]\nname = \"sink\"\nremote = \"udp4://{}\"\n\
         [[named.route]]\nprefix = \"/\"\nface = \"sink\"\n",
        own_address(3),
        sink.local_addr().unwrap()
    );
    let node = desk.node("n", &more);
    let asked = |number: u32, nonce: u32| {
        let name: NameBuf = format!("/asked/{number}").parse().unwrap();
        let mut repr = interest::Repr::new(name.as_name());
        (repr.nonce, repr.lifetime_ms) = (Some(nonce.to_be_bytes()), Some(3_600_000));
        repr.to_bytes().unwrap()
    };
    let client = || UnixStream::connect(desk.path("n.nfd")).unwrap();
    let (mut goes, mut stays) = (client(), client());
    let many = 20_000;
    let all: Vec<u8> = (0..many).flat_map(|i| asked(i, i)).collect();
    goes.write_all(&all).unwrap();
    let names = || node.show("names").unwrap();
    // What the ring to the second worker has no room for is dropped.
    let taken = || {
        let number = |worker: &Value, key: &str| worker[key].as_u64().unwrap();
        let workers = names()["workers"].as_array().unwrap().clone();
        let dropped: u64 = workers.iter().map(|w| number(w, "given_dropped")).sum();
        let written = names()["asked"]["written"].as_u64().unwrap();
        (written + dropped == u64::from(many)).then_some(written)
    };
    assert!(until(|| taken().is_some()), "{}", names());
    let written = taken().unwrap();
    assert!(names()["pending"] == written && written > 5000, "{}", names());
    // Another client waits for some of it, too.
    let few: Vec<u8> = (0..100).flat_map(|i| asked(i * 7, many + i)).collect();
    stays.write_all(&few).unwrap();
    assert!(until(|| names()["asked"]["written"] == written + 100), "{}", names());
    drop(goes);
    assert!(until(|| names()["pending"] == 100), "{}", names());
    let now = names();
    assert_eq!((&now["asked"]["held"], &now["asked"]["withdrawn"]), (&json!(100), &json!(written)));
    drop(stays);
    assert!(until(|| names()["pending"] == 0), "{}", names());
    assert_eq!(names()["asked"]["held"], 0);
}

#[test]
fn every_worker_finds_its_disk_again() {
    let desk = Desk::new("named-warm");
    let disk = desk.path("cache");
    let more = format!(
        "workers = 2\ncache = \"2MiB\"\n[[named.disk]]\nfile = \"{}\"\nsize = \"64MiB\"\n",
        disk.display()
    );
    let list: String = (0..1500).map(|i| format!("/{}/{i}\n", i % 30)).collect();
    let (trace, uri) = (desk.path("list"), desk.uri("n"));
    fs::write(&trace, list).unwrap();
    let ask = |more: &[&str]| {
        let mut words = vec!["ndn", "gen", "--prefix", "/warm", "--json", "--transport", &uri];
        words.extend(["--trace", trace.to_str().unwrap()]);
        words.extend(more);
        desk.plexus(&words).json()
    };
    let disks = |node: &Node, what: &str| -> Vec<u64> {
        let cache = node.show("cache").unwrap();
        let disks = cache["disks"].as_array().unwrap();
        assert_eq!(disks.len(), 2, "{cache}");
        disks.iter().map(|disk| disk[what].as_u64().unwrap()).collect()
    };
    let node = desk.node("n", &more);
    let produce = "ndn produce --prefix /warm --size 4000 --signature none --freshness 1h";
    let words: Vec<&str> = produce.split(' ').chain(["--transport", &uri]).collect();
    let producer = desk.program(&words);
    assert!(until(|| node.has_route("/warm")));
    // What was asked for more than once goes to a disk.
    (0..3).for_each(|_| drop(ask(&[])));
    drop(producer);
    node.stop();
    assert!(desk.path("cache.1").exists());
    let node = desk.node("n", &more);
    assert!(until(|| disks(&node, "recovered").iter().all(|n| *n > 100)));
    // Nobody else can answer.
    ask(&["--lifetime", "200ms"]);
    assert!(disks(&node, "hits").iter().all(|n| *n > 100), "{:?}", disks(&node, "hits"));
    assert_eq!(disks(&node, "mismatches"), [0, 0]);
}

#[test]
fn workers_run_on_the_processors_that_the_file_names() {
    let desk = Desk::new("named-cpus");
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpus: Vec<usize> = (0..1024).filter(|cpu| allowed.is_set(*cpu)).take(2).collect();
    let node = desk.node("n", &format!("workers = {}\ncpus = {cpus:?}\n", cpus.len()));
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{}/task", node.process.0.id())).unwrap() {
        let said = |what: &str| fs::read_to_string(task.as_ref().unwrap().path().join(what));
        // Some threads last only for a moment.
        let Ok(name) = said("comm") else { continue };
        if let Some(worker) = name.trim().strip_prefix("named-data") {
            let status = said("status").unwrap();
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            let worker: usize = worker.trim_start_matches('-').parse().unwrap_or(0);
            found.push((worker, list.unwrap().trim().parse().unwrap()));
        }
    }
    found.sort();
    assert_eq!(found, cpus.into_iter().enumerate().collect::<Vec<_>>());
    // A FIB for each NUMA node that they are of, however many this machine has.
    let fib = &node.show("names").unwrap()["fib"];
    let read: BTreeSet<_> =
        fib["of_worker"].as_array().unwrap().iter().map(Value::as_u64).collect();
    assert_eq!(fib["replicas"], read.len(), "{fib}");
    assert!(fib["memory_bytes"].as_u64().unwrap() > 22_000_000, "{fib}");
    drop(node);

    let file = desk.write("n", "cpus = [1023]\n");
    let said = desk.plexus(&["node", "run", "--config", file.to_str().unwrap()]);
    assert!(said.err.contains("worker 0 cannot run on processor 1023"), "{said:?}");
}
