//! `plexus node` with named data, under clients that others wrote (tools/ndn-clients): NDNts,
//! python-ndn and ndn-app register, publish and fetch, and the former two manage the forwarder, as
//! they would with NFD.
//!
//! Every test has a network namespace, a daemon and a directory of its own, which end with it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::common::{self, LIMIT, Running, Said, until};
use plexus_io::namespace::Namespaces;
use serde_json::Value;

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/ndn-clients");
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/ndn-clients");
const NDNTS: &str = "ndnts";
const PYTHON_NDN: &str = "python-ndn";
const NDN_APP: &str = "ndn-app";
/// In segments of 8,000 bytes, 250 of them.
const FILE_LEN: usize = 2_000_000;
const SEGMENT_LEN: usize = 8_000;
const MULTICAST: &str = "/localhost/nfd/strategy/multicast";

/// A forwarder, and the network in which it and its clients are.
struct Net {
    inside: Namespaces,
    dir: PathBuf,
    daemon: Running,
}

impl Net {
    /// `None`, said aloud, where the test cannot run.
    fn up() -> Option<Net> {
        Net::up_with("")
    }

    /// With these lines more in `[named]`.
    fn up_with(more: &str) -> Option<Net> {
        Net::up_for(&[NDNTS, PYTHON_NDN], more)
    }

    /// For clients by these libraries.
    fn up_for(clients: &[&str], more: &str) -> Option<Net> {
        for client in clients {
            if !Path::new(INSTALLED).join(client).join("installed").exists() {
                eprintln!("SKIPPED: {client} is not installed (scripts/setup ndn)");
                return None;
            }
        }
        let [inside] = common::namespaces("named data", common::quiet)?;
        common::ip(&inside, "link set lo up");
        // UDP by loopback addresses is told apart from UDP by others: see `udp`.
        common::ip(&inside, "address add 192.0.2.1/32 dev lo");
        let dir = common::directory("ndn");
        let config = dir.join("ndn.toml");
        let text = format!(
            "name = \"ndn\"\ncontrol = \"{0}/control.sock\"\n[named]\nunix = [\"{0}/nfd.sock\"]\n\
             tcp = [\"127.0.0.1:6363\"]\nudp = [\"192.0.2.1:6363\"]\n\
             websocket = [\"127.0.0.1:9696\"]\nopen = {1}\n{more}",
            dir.display(),
            !more.contains("signed"),
        );
        fs::write(&config, text).unwrap();
        let mut daemon =
            common::plexus_in(&inside, &["node", "run", "--config", config.to_str().unwrap()]);
        daemon.stdout(Stdio::null()).stderr(File::create(dir.join("log")).unwrap());
        let mut net = Net { inside, dir, daemon: Running(daemon.spawn().unwrap()) };
        let socket = net.dir.join("nfd.sock");
        let is_up = until(|| UnixStream::connect(&socket).is_ok() || net.daemon.has_ended());
        assert!(is_up && !net.daemon.has_ended(), "{}", net.log());
        Some(net)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    fn unix(&self) -> String {
        format!("unix://{}/nfd.sock", self.dir.display())
    }

    fn tcp(&self) -> String {
        "tcp://127.0.0.1:6363".into()
    }

    /// Not a loopback address, where python-ndn takes UDP for local, as NFD does not: it would send
    /// `/localhost` commands, which are not for such faces.
    fn udp(&self) -> String {
        "udp://192.0.2.1:6363".into()
    }

    fn websocket(&self) -> String {
        "ws://127.0.0.1:9696".into()
    }

    /// A client, which ends with the test's thread, however that ends.
    fn client(&self, library: &str, uri: &str, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(format!("{TOOLS}/run")).arg(library).arg(uri);
        // Nobody's own settings.
        command.args(words).env("HOME", &self.dir).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.inside.apply(&mut command).unwrap();
        command
    }

    /// Publishes a file; the prefix is registered when this returns.
    #[track_caller]
    fn serve(&self, library: &str, uri: &str, prefix: &str, file: &Path) -> Running {
        let path = |what: &str| self.dir.join(format!("{library}.{what}"));
        let (out, err) = (path("out"), path("err"));
        let mut command = self.client(library, uri, &["serve", prefix, file.to_str().unwrap()]);
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let mut producer = Running(command.spawn().unwrap());
        let says_ready = || fs::read_to_string(&out).unwrap().starts_with("ready");
        let ready = until(|| says_ready() || producer.has_ended());
        let why = || format!("{}{}", fs::read_to_string(&err).unwrap(), self.log());
        assert!(ready && says_ready(), "{library} over {uri}: {}", why());
        producer
    }

    /// What a client says that fetches, and the file that it writes.
    fn try_fetch(&self, library: &str, uri: &str, prefix: &str) -> (Said, PathBuf) {
        let copy = self.dir.join("copy");
        let words = ["fetch", prefix, copy.to_str().unwrap()];
        (Said::of(&mut self.client(library, uri, &words)), copy)
    }

    /// Fetches what was published, which is `expected`.
    #[track_caller]
    fn fetch(&self, library: &str, uri: &str, prefix: &str, expected: &[u8]) {
        let (said, copy) = self.try_fetch(library, uri, prefix);
        assert_eq!(said.code, Some(0), "{library} over {uri}: {said:?}\n{}", self.log());
        assert_eq!(said.json()["segments"], expected.len().div_ceil(SEGMENT_LEN));
        // Not assert_eq: nobody reads two million numbers.
        assert!(fs::read(&copy).unwrap() == expected, "{library} over {uri} got other bytes");
        fs::remove_file(copy).unwrap();
    }

    /// Tries to fetch what nobody can answer for.
    #[track_caller]
    fn fetch_nothing(&self, library: &str, uri: &str, prefix: &str) {
        let (said, _) = self.try_fetch(library, uri, prefix);
        assert_eq!(said.code, Some(1), "{library} over {uri}: {said:?}");
        assert!(said.err.contains("Nack"), "{library} over {uri} is told at once: {said:?}");
    }

    /// A file, and what is in it: the same every time.
    fn file(&self, len: usize) -> (PathBuf, Vec<u8>) {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut content = Vec::with_capacity(len + 8);
        while content.len() < len {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            content.extend_from_slice(&state.to_le_bytes());
        }
        content.truncate(len);
        let path = self.dir.join("file");
        fs::write(&path, &content).unwrap();
        (path, content)
    }

    /// Each library publishes a file, and the other fetches it.
    #[track_caller]
    fn exchange(&self, uri: &str) {
        let (file, content) = self.file(FILE_LEN);
        let scheme = uri.split(':').next().unwrap();
        for (producer, consumer) in [(NDNTS, PYTHON_NDN), (PYTHON_NDN, NDNTS)] {
            // The content store has the segments that were fetched by another transport.
            let prefix = format!("/interop/{scheme}/{producer}");
            let _producer = self.serve(producer, uri, &prefix, &file);
            self.fetch(consumer, uri, &prefix, &content);
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.daemon.0.kill();
        let _ = self.daemon.0.wait();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A client that is told one operation after the other, over one connection.
struct Session {
    client: Running,
    to: ChildStdin,
    from: Receiver<String>,
}

impl Session {
    fn new(net: &Net, library: &str) -> Session {
        Session::by(net, library, &net.unix())
    }

    fn by(net: &Net, library: &str, uri: &str) -> Session {
        let mut command = net.client(library, uri, &["-"]);
        let mut client = command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let to = client.stdin.take().unwrap();
        let lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let (sender, from) = channel();
        // Ends with the client.
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .take_while(|l| sender.send(l.clone()).is_ok())
                .for_each(drop)
        });
        Session { client: Running(client), to, from }
    }

    #[track_caller]
    fn ask(&mut self, operation: &str) -> Value {
        writeln!(self.to, "{operation}").unwrap();
        let line = self.from.recv_timeout(LIMIT);
        let line = line.unwrap_or_else(|e| panic!("{operation}: {e}"));
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{operation}: {line}: {e}"))
    }

    #[track_caller]
    fn command(&mut self, code: u64, operation: &str) -> Value {
        let answer = self.ask(operation);
        assert_eq!(answer["code"], code, "{operation}: {answer}");
        answer["parameters"].clone()
    }

    #[track_caller]
    fn find(&mut self, dataset: &str, field: &str, value: &Value) -> Option<Value> {
        let all = self.ask(&format!("show {dataset}"));
        let all = all.as_array().unwrap_or_else(|| panic!("{dataset}: {all}"));
        all.iter().find(|item| item[field] == *value).cloned()
    }

    /// Until there is no such item: datasets may be a second old, as NFD's.
    #[track_caller]
    fn lose(&mut self, dataset: &str, field: &str, value: &Value) {
        let lost = until(|| self.find(dataset, field, value).is_none());
        assert!(lost, "{dataset} keeps {field} {value}");
    }
}

#[test]
fn files_are_published_and_fetched_over_unix_sockets_tcp_and_udp() {
    let Some(net) = Net::up() else { return };
    for uri in [Net::unix, Net::tcp, Net::udp] {
        net.exchange(&uri(&net));
    }
}

#[test]
fn files_are_published_and_fetched_over_websockets() {
    let Some(net) = Net::up() else { return };
    let (file, content) = net.file(100 * SEGMENT_LEN);
    // python-ndn has none.
    let _producer = net.serve(NDNTS, &net.websocket(), "/interop", &file);
    net.fetch(NDNTS, &net.websocket(), "/interop", &content);
}

#[test]
fn files_are_published_and_fetched_by_a_library_that_writes_no_nonce() {
    let Some(net) = Net::up_for(&[NDN_APP, NDNTS, PYTHON_NDN], "") else { return };
    // Not more than it takes in at once.
    let (file, content) = net.file(50 * SEGMENT_LEN + 1);
    for (producer, consumer) in
        [(NDN_APP, NDN_APP), (NDN_APP, NDNTS), (NDN_APP, PYTHON_NDN), (NDNTS, NDN_APP)]
    {
        let prefix = format!("/interop/{producer}/{consumer}");
        let mut producer = net.serve(producer, &net.unix(), &prefix, &file);
        net.fetch(consumer, &net.unix(), &prefix, &content);
        assert!(!producer.has_ended(), "the producer has ended");
    }
    net.fetch_nothing(NDN_APP, &net.unix(), "/interop/nothing");
}

#[test]
fn only_who_an_anchor_has_certified_commands_where_the_file_says_so() {
    let keys = common::directory("ndn-keys");
    let path = keys.to_str().unwrap();
    let made = Command::new(format!("{TOOLS}/run"))
        .args([PYTHON_NDN, "none", "certify", path])
        .env("HOME", &keys)
        .status();
    let file = format!(
        "signed = true\nanchors = [\"{path}/root.ndncert\"]\ncertificates = [\"{path}\"]\n"
    );
    // First, as it says aloud what is missing.
    let Some(net) = Net::up_for(&[PYTHON_NDN], &file) else { return };
    assert!(made.unwrap().success());
    let mut session = Session::new(&net, PYTHON_NDN);
    session.command(403, "register /interop/digest");
    session.command(200, &format!("register-by {path} /interop/signed"));
    assert!(session.find("rib", "name", &"/interop/signed".into()).is_some(), "{}", net.log());
    assert!(session.find("rib", "name", &"/interop/digest".into()).is_none());
    // A neighbour, whom nothing but that key lets in.
    let mut neighbour = Session::by(&net, PYTHON_NDN, &net.udp());
    neighbour.command(403, "register /interop/digest");
    neighbour.command(200, &format!("register-by {path} /interop/neighbour"));
    assert!(session.find("rib", "name", &"/interop/neighbour".into()).is_some(), "{}", net.log());
    // Our own, by the key as the library keeps it.
    let (key, certificate) = (format!("{path}/operator.key"), format!("{path}/operator.ndncert"));
    let words = ["ndn", "serve", "/interop/plexus", &certificate, "--transport", &net.unix()];
    let mut serve = common::plexus_in(&net.inside, &words);
    serve.args(["--key", &key, "--certificate", &certificate]);
    let serve = Running(serve.spawn().unwrap());
    assert!(until(|| session.find("rib", "name", &"/interop/plexus".into()).is_some()));
    drop(serve);
    drop(net);
    // Without its certificate the operator is nobody.
    let file = format!("signed = true\nanchors = [\"{path}/root.ndncert\"]\n");
    let Some(net) = Net::up_for(&[PYTHON_NDN], &file) else { return };
    let mut session = Session::new(&net, PYTHON_NDN);
    session.command(403, &format!("register-by {path} /interop/signed"));
    fs::remove_dir_all(keys).unwrap();
}

#[test]
fn keys_and_certificates_that_plexus_makes_are_read_by_others_who_command_by_them() {
    for kind in ["p256", "ed25519"] {
        let keys = common::directory("ndn-made");
        let path = keys.to_str().unwrap();
        let file = format!(
            "signed = true\nanchors = [\"{path}/root.ndncert\"]\ncertificates = [\"{path}\"]\n"
        );
        let make = |words: &str| {
            let mut plexus = common::plexus(&["ndn", "key"]);
            Said::of(plexus.args(words.split(' ')).current_dir(&keys)).expect(0);
        };
        make("make /interop --out root");
        make(&format!("make /interop/operator --type {kind} --out operator"));
        make(
            "sign operator.ndncert --key root.key --certificate root.ndncert --out issued.ndncert",
        );
        fs::rename(keys.join("issued.ndncert"), keys.join("operator.ndncert")).unwrap();
        let Some(net) = Net::up_for(&[PYTHON_NDN, NDNTS], &file) else { return };
        for library in [PYTHON_NDN, NDNTS] {
            let mut session = Session::new(&net, library);
            let name = format!("/interop/{library}");
            session.command(200, &format!("register-by {path} {name}"));
            assert!(session.find("rib", "name", &name.into()).is_some(), "{}", net.log());
        }
        drop(net);
        fs::remove_dir_all(keys).unwrap();
    }
}

#[test]
fn a_producer_that_ends_takes_its_routes_along() {
    let Some(net) = Net::up() else { return };
    let (file, content) = net.file(1000);
    let mut session = Session::new(&net, NDNTS);
    for (uri, prefix) in [(net.unix(), "/interop/unix"), (net.tcp(), "/interop/tcp")] {
        let producer = net.serve(PYTHON_NDN, &uri, prefix, &file);
        net.fetch(PYTHON_NDN, &net.unix(), prefix, &content);
        assert!(until(|| session.find("rib", "name", &prefix.into()).is_some()), "{}", net.log());
        drop(producer);
        session.lose("rib", "name", &prefix.into());
        session.lose("fib", "name", &prefix.into());
    }
}

#[test]
fn the_caches_of_several_workers_answer_for_a_producer_that_is_gone_as_long_as_they_may() {
    let Some(net) = Net::up_with("workers = 3\n") else { return };
    let (file, content) = net.file(20 * SEGMENT_LEN);
    let mut session = Session::new(&net, NDNTS);
    let publish_and_fetch = |prefix: &str| {
        let _producer = net.serve(PYTHON_NDN, &net.unix(), prefix, &file);
        net.fetch(PYTHON_NDN, &net.unix(), prefix, &content);
    };
    publish_and_fetch("/interop/kept");
    net.fetch(PYTHON_NDN, &net.tcp(), "/interop/kept", &content);
    session.command(200, "set-cache serve=0");
    net.fetch_nothing(PYTHON_NDN, &net.tcp(), "/interop/kept");
    session.command(200, "set-cache serve=1");
    net.fetch(PYTHON_NDN, &net.tcp(), "/interop/kept", &content);
    // The segments, and what names their version.
    assert_eq!(session.ask("erase-cache /interop")["erased"], 21);
    net.fetch_nothing(PYTHON_NDN, &net.tcp(), "/interop/kept");
    session.command(200, "set-cache admit=0");
    publish_and_fetch("/interop/refused");
    net.fetch_nothing(PYTHON_NDN, &net.tcp(), "/interop/refused");
}

#[test]
fn ndnts_manages_the_forwarder() {
    manage(NDNTS);
}

#[test]
fn python_ndn_manages_the_forwarder() {
    manage(PYTHON_NDN);
}

/// So many that their lists take the forwarder several turns.
#[test]
fn many_prefixes_are_listed() {
    let route = |n| format!("[[named.route]]\nprefix = \"/many/{n}\"\nface = \"far\"\n");
    let face = "[[named.face]]\nname = \"far\"\nremote = \"udp4://192.0.2.1:9\"\n".to_string();
    let more: String = [face].into_iter().chain((0..2000).map(route)).collect();
    let Some(net) = Net::up_for(&[NDNTS], &more) else { return };
    let mut session = Session::new(&net, NDNTS);
    for dataset in ["rib", "fib"] {
        let count = |all: Value| {
            let names = all.as_array().unwrap().iter().filter_map(|item| item["name"].as_str());
            names.filter(|name| name.starts_with("/many/")).count()
        };
        assert!(until(|| count(session.ask(&format!("show {dataset}"))) == 2000), "{dataset}");
    }
}

/// Every module of the management, by one library.
fn manage(library: &str) {
    let Some(net) = Net::up() else { return };
    let mut session = Session::new(&net, library);
    let uri = "udp4://192.0.2.1:7000";

    let route = session.command(200, "register /interop/route");
    assert_eq!(route["name"], "/interop/route");
    let chosen = session.command(200, &format!("set-strategy /interop {MULTICAST}"));
    let full = chosen["strategy"].as_str().unwrap();
    assert!(full.starts_with(&format!("{MULTICAST}/v=")), "{chosen}");
    session.command(404, "set-strategy /interop /localhost/nfd/strategy/none-such");
    let cache = session.command(200, "set-cache capacity=4000 serve=0");
    assert_eq!(cache["flags"], 1, "admits, and does not serve: {cache}");
    let made = session.command(200, &format!("create-face {uri}"));
    assert_eq!(made["uri"], uri);
    let again = session.command(409, &format!("create-face {uri}"));
    assert_eq!(again["faceId"], made["faceId"]);

    let status = session.ask("show status");
    assert!(status["nfdVersion"].as_str().is_some_and(|v| !v.is_empty()), "{status}");
    assert!(status["startTimestamp"].as_u64() <= status["currentTimestamp"].as_u64(), "{status}");
    assert!(status["nInInterests"].as_u64() >= Some(6), "{status}");
    let own = &route["faceId"];
    let face = session.find("faces", "faceId", own).expect("the client's own face");
    assert_eq!(face["localUri"], net.unix(), "{face}");
    assert_eq!(face["faceScope"], 1, "a Unix socket is local: {face}");
    let face = session.find("faces", "faceId", &made["faceId"]).expect("what was made");
    assert_eq!((&face["uri"], &face["faceScope"]), (&made["uri"], &0.into()), "{face}");
    let entry = session.find("rib", "name", &route["name"]).expect("what was registered");
    assert_eq!(entry["route"][0]["faceId"], *own, "{entry}");
    let entry = session.find("fib", "name", &route["name"]).expect("the way there");
    assert_eq!(entry["nextHops"][0]["faceId"], *own, "{entry}");
    let listed = session.find("strategy", "name", &"/interop".into()).expect("what was chosen");
    assert_eq!(listed["strategy"], full);
    let info = session.ask("show cs");
    assert_eq!((&info["capacity"], &info["flags"]), (&cache["capacity"], &cache["flags"]));

    session.command(200, "unregister /interop/route");
    session.command(200, "unset-strategy /interop");
    session.command(200, &format!("destroy-face {}", made["faceId"]));
    session.ask("erase-cache /interop");
    session.lose("rib", "name", &route["name"]);
    session.lose("fib", "name", &route["name"]);
    session.lose("strategy", "name", &"/interop".into());
    assert!(session.find("strategy", "name", &"/".into()).is_some(), "that of all names");
    session.lose("faces", "faceId", &made["faceId"]);
    assert!(!session.client.has_ended(), "the client has ended");
}
