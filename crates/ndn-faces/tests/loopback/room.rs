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
