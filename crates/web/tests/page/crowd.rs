//! Many readers, and slow ones.

use std::io::Write;
use std::sync::atomic::Ordering;

use crate::rig::{Made, Reader, connect, get, serve, settings};

#[test]
fn nobody_looks_at_the_network_while_nobody_reads() {
    let made = Made::new(4, 2, 10);
    let looks = made.looks.clone();
    let page = serve(&settings(), made);
    assert_eq!(get(page.address, "/", &[]).status, 200);
    assert_eq!(looks.load(Ordering::Relaxed), 0);
    let mut reader = Reader::new(page.address);
    reader.event("map").unwrap();
    assert!(looks.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_thousand_readers_that_read_nothing_keep_nobody_out() {
    // Some 2 MB at once: more than the kernel takes for a reader.
    let made = Made::new(100, 10, 20_000);
    let looks = made.looks.clone();
    let mut settings = settings();
    settings.readers = 64;
    let page = serve(&settings, made);
    let mut slow = Vec::new();
    for _ in 0..1000 {
        let mut stream = connect(page.address);
        // The server may have ended it meanwhile.
        let _ = write!(stream, "GET /api/stream HTTP/1.1\r\nHost: {}\r\n\r\n", page.address);
        slow.push(stream);
    }
    // Their number is limited, and one more gets in.
    let mut reader = Reader::new(page.address);
    let hosts = reader.event("hosts").expect("a reader that reads is served");
    assert_eq!(hosts.as_array().unwrap().len(), 20_000);
    let before = looks.load(Ordering::Relaxed);
    while looks.load(Ordering::Relaxed) < before + 2 {
        reader.event("rates").expect("it goes on");
    }
    let ended = slow.iter_mut().filter_map(|stream| {
        stream.set_nonblocking(true).ok()?;
        let mut byte = [0; 1 << 16];
        loop {
            match std::io::Read::read(stream, &mut byte) {
                Ok(0) => return Some(()),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return None,
                Err(_) => return Some(()),
                Ok(_) => {}
            }
        }
    });
    assert!(ended.count() >= 1000 - 64);
}

#[test]
fn heads_that_never_end_give_way_to_readers() {
    let mut settings = settings();
    settings.readers = 8;
    let page = serve(&settings, Made::new(4, 2, 10));
    let mut kept = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(page.address);
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nX: ");
        kept.push(stream);
    }
    assert_eq!(get(page.address, "/", &[]).status, 200);
}
