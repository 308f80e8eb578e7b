//! Shared by the gateway's tests: threads, a proxy, and a client.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plexus_ndn_apps::endpoint::publish;
use plexus_ndn_apps::publisher::{Library, Publisher};
use plexus_ndn_apps::segments::Settings;
use plexus_ndn_web::desk;
use plexus_ndn_web::proxy::Proxy;
use plexus_ndn_web::server;
use plexus_ndn_web::upstream::{Config, site};
use plexus_wire::ndn::NameBuf;
use tokio::sync::Semaphore;

use crate::relay::Relay;

/// Threads that end with the test.
pub(crate) struct Threads {
    stop: Arc<AtomicBool>,
    all: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn new() -> Threads {
        Threads { stop: Arc::default(), all: Vec::new() }
    }

    pub(crate) fn spawn(&mut self, run: impl FnOnce(&AtomicBool) + Send + 'static) {
        let stop = self.stop.clone();
        self.all.push(thread::spawn(move || run(&stop)));
    }

    pub(crate) fn publish<L: Library + Send + 'static>(
        &mut self,
        relay: &Relay,
        library: L,
        mut ready: impl FnMut(&plexus_io::wake::Waker) + Send + 'static,
    ) {
        let (sender, is_ready) = mpsc::channel();
        let uri = relay.uri.clone();
        self.spawn(move |stop| {
            let prefix = prefix();
            let mut publisher = Publisher::new(prefix.clone(), library, 8 << 20);
            let all_is_well = |waker: &_| {
                ready(waker);
                let _ = sender.send(());
            };
            publish(&uri, &[prefix], None, &mut publisher, stop, all_is_well).unwrap();
        });
        is_ready.recv_timeout(Duration::from_secs(30)).expect("the prefix is registered");
    }

    /// Publishes an upstream site until the end; returns the reports of its fetcher.
    pub(crate) fn publish_site(&mut self, relay: &Relay, config: Config) -> mpsc::Receiver<String> {
        let (site, fetcher) = site(config, prefix());
        let waker = fetcher.waker.clone();
        self.publish(relay, site, move |own| {
            *waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(own.clone());
        });
        let (sender, told) = mpsc::channel();
        self.spawn(move |stop| {
            let tell = move |why: &str| drop(sender.send(why.to_string()));
            fetcher.run(stop, tell).unwrap();
        });
        told
    }

    /// A proxy for the site `h`.
    pub(crate) fn proxy(&mut self, relay: &Relay, patience: Duration) -> SocketAddr {
        let settings = Settings { window_max: 64, ahead_max: 64, ..Settings::default() };
        let (uri, stop) = (relay.uri.clone(), self.stop.clone());
        let desk = desk::open(uri, settings, patience, stop, || {}, |e| panic!("{e}")).unwrap();
        let places = Arc::new(Semaphore::new(8));
        let proxy = Proxy { prefix: prefix(), site: "h".into(), desk, places, patience };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        self.spawn(move |stop| server::run(listener, proxy, 16, stop).unwrap());
        at
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.all.drain(..).for_each(|thread| drop(thread.join()));
    }
}

pub(crate) fn prefix() -> NameBuf {
    "/web".parse().unwrap()
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 5 + i / 777) as u8).collect()
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A connection with successive requests.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn new(at: SocketAddr) -> Client {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client(BufReader::new(stream))
    }

    pub(crate) fn ask(&mut self, request: &str) -> Answer {
        self.0.get_mut().write_all(format!("{request}\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "cut off after {head:?}");
        }
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        let has_body = !request.starts_with("HEAD") && status != 304;
        let len = answer.header("content-length").map_or(0, |len| len.parse().unwrap());
        answer.body.resize(if has_body { len } else { 0 }, 0);
        self.0.read_exact(&mut answer.body).unwrap();
        answer
    }
}
