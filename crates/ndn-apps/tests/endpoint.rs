//! Consumers and producers over real sockets, with a relay between them.

mod relay;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plexus_ndn_apps::Failure;
use plexus_ndn_apps::app::Application;
use plexus_ndn_apps::consume::{self, Consumer, Names, Pace, Share};
use plexus_ndn_apps::endpoint::{Endpoint, EndpointError, publish};
use plexus_ndn_apps::fetch::{Discovery, Fetch};
use plexus_ndn_apps::files::{Files, Plain};
use plexus_ndn_apps::produce::{self, Producer, Signing};
use plexus_ndn_apps::publisher::Publisher;
use plexus_ndn_apps::segments::Settings;
use plexus_wire::ndn::face_uri::FaceUri;
use relay::Relay;

/// A producer in a thread, until it is dropped.
struct Running {
    stop: Arc<AtomicBool>,
    ready: mpsc::Receiver<()>,
    thread: Option<JoinHandle<Result<(), EndpointError>>>,
}

impl Running {
    fn new<A: Application + Send + 'static>(uri: &FaceUri, prefix: &str, mut app: A) -> Running {
        let (sender, ready) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (uri, prefix, flag) = (uri.clone(), prefix.parse().unwrap(), stop.clone());
        let run = move || {
            publish(&uri, &[prefix], None, &mut app, &flag, |_| {
                let _ = sender.send(());
            })
        };
        let running = Running { stop, ready, thread: Some(thread::spawn(run)) };
        running.wait();
        running
    }

    fn wait(&self) {
        self.ready.recv_timeout(Duration::from_secs(30)).expect("the prefix is registered");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn fetch(uri: &FaceUri, name: &str, discovery: Discovery) -> Result<Vec<u8>, Failure> {
    let mut endpoint = Endpoint::connect(uri).unwrap();
    let mut fetch = Fetch::new(name.parse().unwrap(), discovery, Settings::default(), 7);
    let mut body = Vec::new();
    let never = AtomicBool::new(false);
    let each = |_, fetch: &mut Fetch| {
        while let Some(content) = fetch.take() {
            body.extend_from_slice(&content);
        }
    };
    endpoint.run_with(&mut fetch, &never, each).unwrap();
    match fetch.failure() {
        Some(failure) => Err(failure.clone()),
        None => Ok(body),
    }
}

fn library(relay: &Relay) -> Publisher<Files<Plain>> {
    let folder = relay.folder.join("files");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("large"), pattern(3_000_000)).unwrap();
    std::fs::write(folder.join("empty"), b"").unwrap();
    let plain = Plain::open(&folder, 8000, Duration::ZERO).unwrap();
    Publisher::new("/files".parse().unwrap(), Files::new(plain), 1 << 20)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 3 + i / 1000) as u8).collect()
}

#[test]
fn files_are_fetched_as_they_are_however_their_version_is_found() {
    let relay = Relay::new("fetch");
    let _serve = Running::new(&relay.uri, "/files", library(&relay));
    for discovery in [Discovery::Auto, Discovery::Metadata, Discovery::Prefix] {
        assert!(fetch(&relay.uri, "/files/large", discovery) == Ok(pattern(3_000_000)));
    }
    assert_eq!(fetch(&relay.uri, "/files/empty", Discovery::Auto), Ok(Vec::new()));
    let absent = fetch(&relay.uri, "/files/none", Discovery::Auto);
    assert!(matches!(absent, Err(Failure::Absent(_))), "{absent:?}");
    let nowhere = fetch(&relay.uri, "/nowhere", Discovery::Auto);
    assert!(matches!(nowhere, Err(Failure::NoRoute(_))), "{nowhere:?}");
}

#[test]
fn a_producer_comes_back_when_its_forwarder_does() {
    let mut relay = Relay::new("back");
    let serve = Running::new(&relay.uri, "/files", library(&relay));
    relay.stop();
    relay.start();
    serve.wait();
    assert_eq!(fetch(&relay.uri, "/files/empty", Discovery::Auto), Ok(Vec::new()));
}

#[test]
fn a_missing_forwarder_is_reported() {
    let uri: FaceUri = "unix:///nonexistent/nfd.sock".parse().unwrap();
    let error = Endpoint::connect(&uri).err().unwrap().to_string();
    assert!(error.starts_with("cannot reach a forwarder at unix:///nonexistent/nfd.sock: No such"));
    // Port 1 is closed.
    let uri: FaceUri = "tcp4://127.0.0.1:1".parse().unwrap();
    let mut nothing = Producer::new(production(1));
    let stop = AtomicBool::new(false);
    let error = publish(&uri, &["/p".parse().unwrap()], None, &mut nothing, &stop, |_| {});
    assert!(matches!(error, Err(EndpointError::Unreachable { .. })), "{error:?}");
}

fn production(size: usize) -> produce::Config {
    produce::Config {
        prefix: "/p".parse().unwrap(),
        size,
        freshness: Duration::ZERO,
        signing: Signing::Digest,
        last: None,
        seed: 1,
    }
}

#[test]
fn consumers_and_producer_count_the_same() {
    let relay = Relay::new("traffic");
    let _produce = Running::new(&relay.uri, "/p", Producer::new(production(1000)));
    let list: Vec<_> = (0..3000).map(|i| format!("/{i}").parse().unwrap()).collect();
    let list: Arc<[_]> = list.into();
    let consumer = |nth| {
        let (uri, list) = (relay.uri.clone(), list.clone());
        thread::spawn(move || {
            let config = consume::Config {
                prefix: "/p".parse().unwrap(),
                names: Names::List(list),
                share: Share { nth, of: 2 },
                pace: Pace::Window(32),
                lifetime: Duration::from_secs(30),
                warm_up: Duration::ZERO,
                count: None,
                duration: None,
                seed: 1,
                verify: true,
            };
            let mut consumer = Consumer::new(config).unwrap();
            let mut endpoint = Endpoint::connect(&uri).unwrap();
            endpoint.run(&mut consumer, &AtomicBool::new(false)).unwrap();
            consumer.counts().clone()
        })
    };
    let threads = [consumer(0), consumer(1)];
    let mut sum = consume::Counts::default();
    threads.into_iter().for_each(|thread| sum.add(&thread.join().unwrap()));
    assert_eq!((sum.interests, sum.satisfied, sum.bytes), (3000, 3000, 3_000_000));
    assert_eq!((sum.timed_out, sum.damaged, sum.latency_ns.len()), (0, 0, 3000));
}
