//! The room that callers from the network leave to others.

use super::*;

#[test]
fn callers_from_the_network_leave_room_for_unix_sockets_and_commands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let all = Bounds { faces: 16, connections: 16, ..Bounds::default() };
    for bounds in [all, Bounds { faces: 100, ..all }] {
        let mut rig = Rig::new(bounds);
        let tcp = rig.listen(&Listen::Tcp(ANY.parse().unwrap())).unwrap();
        let web = rig.listen(&Listen::WebSocket(ANY.parse().unwrap())).unwrap();
        rig.listen(&Listen::Unix(path.clone()));
        let call = |n, at: SocketAddr| -> Vec<TcpStream> {
            (0..n).map(|_| TcpStream::connect(at).unwrap()).collect()
        };
        let callers = call(12, tcp);
        rig.until("their faces", |rig| rig.echo.up.len() == 12);
        // Unfinished handshakes are counted.
        let browsers = call(2, web);
        (0..5).for_each(|_| rig.turn());
        for at in [tcp, web] {
            let mut refused = &call(1, at)[0];
            refused.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            rig.until("refused", |_| is_closed(refused.read(&mut [0])));
        }
        let mut app = application(&path);
        exchange(&mut rig, &mut app, &interest(5), &data_of(interest(5)));
        let far = std::net::TcpListener::bind(ANY).unwrap();
        rig.create(FaceUri::Tcp(far.local_addr().unwrap()), Persistency::Persistent);
        // There is no more room for any face now.
        let unix = FaceUri::Unix(path.to_str().unwrap().into());
        let settings = Settings::new(Persistency::Persistent);
        let full = rig.faces.create(rig.now, &unix, None, settings, &mut rig.echo);
        assert_eq!(full, Err(Refusal::Full));
        // Closed faces free room, for each kind.
        drop((app, browsers));
        rig.until("down", |rig| rig.echo.down.len() == 1);
        drop(callers);
        rig.until("down", |rig| rig.echo.down.len() == 13);
        let before = rig.echo.up.len();
        let _callers = call(10, tcp);
        rig.until("others", |rig| rig.echo.up.len() == before + 10);
    }
}

/// Sources of datagrams and frames may be forged. Frames of stations stand for both here.
#[test]
fn a_flood_of_forged_senders_displaces_neither_answering_nor_returning_ones() {
    let (port, mut cable) = memory::port("eth0", 1024);
    let own = MacAddr([2, 0, 0, 0, 0, 1]);
    let mut pool = Pool::new(2048, 2048).unwrap();
    let [producer, consumer, late] = [2, 3, 4].map(|n| MacAddr([2, 0, 0, 0, 0, n]));
    let mut frame = |from: MacAddr, len: usize| {
        let frame = [&own.0[..], &from.0, &[0x86, 0x24], &interest(len)].concat();
        pool.alloc_from(&frame).unwrap()
    };
    let known = [frame(producer, 3), frame(consumer, 3)];
    let back = frame(consumer, 4);
    let mut forged = (0_u16..).map(|n| MacAddr([6, 0, 0, 0, n.to_be_bytes()[0], n as u8]));
    let mut round = || {
        let forged: Vec<_> = forged.by_ref().take(28).map(|station| frame(station, 5)).collect();
        (forged, frame(late, 6))
    };
    let rounds: Vec<_> = (0..40).map(|_| round()).collect();
    let mut rig = Rig::new(Bounds { faces: 40, ..Bounds::default() });
    rig.echo.answering = Some(producer);
    rig.ethernet(port, pool, own);
    let is_there = |rig: &Rig, station: MacAddr| {
        rig.faces.table().facts().any(|facts| facts.remote == FaceUri::Ether(station))
    };
    let mut send = |frame| cable.to_port.push(frame).unwrap();
    known.into_iter().for_each(&mut send);
    rig.until("both", |rig| rig.echo.up.len() == 3);
    rig.now = rig.now + Duration::from_secs(2);
    send(back);
    rig.turn();
    for (round, (forged, asks)) in rounds.into_iter().enumerate() {
        forged.into_iter().for_each(&mut send);
        (0..3).for_each(|_| rig.turn());
        assert!(rig.faces.table().facts().count() <= 30, "three quarters of 40");
        assert!(is_there(&rig, producer) && is_there(&rig, consumer), "round {round}");
        // Each sweep makes room for a few, and the first to retry takes it.
        rig.now = rig.now + Duration::from_millis(100);
        rig.turn();
        send(asks);
        rig.turn();
        assert!(is_there(&rig, late), "round {round}");
        rig.now = rig.now + Duration::from_secs(1);
    }
}
