use proptest::prelude::*;

use super::*;

fn sample() -> Repr {
    Repr {
        is_request: true,
        hops: 0,
        xid: 0x3903_F326,
        secs: 4,
        broadcast: true,
        ciaddr: Ipv4Addr::UNSPECIFIED,
        yiaddr: Ipv4Addr::UNSPECIFIED,
        siaddr: Ipv4Addr::UNSPECIFIED,
        giaddr: Ipv4Addr::UNSPECIFIED,
        chaddr: MacAddr([0, 0x0B, 0x82, 1, 0xFC, 0x42]),
        message_type: MessageType::REQUEST,
        options: vec![
            DhcpOption::new(option::CLIENT_ID, [1, 0, 0x0B, 0x82, 1, 0xFC, 0x42]),
            DhcpOption::addresses(option::REQUESTED_ADDRESS, &[Ipv4Addr::new(192, 168, 0, 10)]),
            DhcpOption::addresses(option::SERVER_ID, &[Ipv4Addr::new(192, 168, 0, 1)]),
        ],
    }
}

fn bytes(repr: &Repr) -> Vec<u8> {
    let mut out = vec![0xEE; repr.buffer_len()];
    repr.emit(&mut out).unwrap();
    out
}

fn read(bytes: &[u8]) -> Result<Repr, Error> {
    Packet::new_checked(bytes).and_then(|p| Repr::parse(&p))
}

#[test]
fn a_message_is_read_and_written_back() {
    let repr = sample();
    let out = bytes(&repr);
    assert_eq!(out.len(), MESSAGE_LEN_MIN);
    assert_eq!(out[..12], [1, 1, 6, 0, 0x39, 0x03, 0xF3, 0x26, 0, 4, 0x80, 0]);
    assert_eq!(out[240..245], [53, 1, 3, 61, 7]);
    assert_eq!(read(&out), Ok(repr.clone()));
    assert_eq!(repr.to_string(), "DHCP request 00:0b:82:01:fc:42 asks 192.168.0.10");
    assert!(repr.emit(&mut [0; 299]).unwrap_err().is_truncated());
}

#[test]
fn long_options_are_cut_and_joined() {
    let mut repr = sample();
    repr.options.push(DhcpOption::new(option::DNS, vec![7; 600]));
    repr.options.push(DhcpOption::new(80, []));
    let out = bytes(&repr);
    assert_eq!(read(&out), Ok(repr));
}

#[test]
fn options_stand_in_the_overloaded_fields_too() {
    let mut out = bytes(&sample());
    out[240..].fill(0);
    out[240..247].copy_from_slice(&[option::OVERLOAD, 1, 3, 53, 1, 1, 255]);
    out[FILE][..5].copy_from_slice(&[option::DOMAIN_NAME, 2, b'a', b'b', 255]);
    out[SNAME][..5].copy_from_slice(&[option::DOMAIN_NAME, 2, b'c', b'd', 255]);
    let repr = read(&out).unwrap();
    assert_eq!(repr.option(option::DOMAIN_NAME), Some(&b"abcd"[..]));
    assert_eq!(repr.message_type, MessageType::DISCOVER);
}

#[test]
fn malformed_messages_are_refused() {
    let good = bytes(&sample());
    assert!(read(&good[..239]).unwrap_err().is_truncated());
    for (at, value, told) in [
        (0, 3, "DHCP: bad operation 3"),
        (1, 6, "DHCP: bad hardware type 6"),
        (2, 255, "DHCP: bad hardware length 255"),
        (236, 0, "DHCP: bad magic 8541027"),
        (240, 0xFF, "DHCP: bad message type 0"),
        // The client identifier turned into a second message type.
        (243, 53, "DHCP: bad message type 0"),
    ] {
        let mut b = good.clone();
        b[at] = value;
        assert_eq!(read(&b).unwrap_err().to_string(), told);
    }
    // An option that is truncated by the end of the message.
    let mut b = good[..HEADER_LEN].to_vec();
    b.extend([53, 1, 1, 12, 5, b'a']);
    assert!(read(&b).unwrap_err().is_truncated());
    // No end mark is fine, as in BOOTP.
    b.truncate(243);
    assert_eq!(read(&b).unwrap().message_type, MessageType::DISCOVER);
}

proptest! {
    #[test]
    fn whatever_is_read_is_written_back(
        head in proptest::collection::vec(any::<u8>(), 28),
        options in proptest::collection::vec(
            (1..255_u8, proptest::collection::vec(any::<u8>(), 0..300)), 0..8))
    {
        let mut b = vec![0; HEADER_LEN];
        b[..28].copy_from_slice(&head);
        b[..3].copy_from_slice(&[1, 1, 6]);
        b[236..].copy_from_slice(&MAGIC);
        b.extend([53, 1, 5]);
        for (code, data) in options {
            let data = &data[..data.len().min(255)];
            b.extend([code, data.len() as u8]);
            b.extend(data);
        }
        if let Ok(repr) = read(&b) {
            prop_assert_eq!(read(&bytes(&repr)), Ok(repr));
        }
    }
}

#[test]
fn a_relay_changes_what_it_must_and_nothing_else() {
    let repr = sample();
    let mut out = bytes(&repr);
    out[44..60].fill(7);
    let mut packet = Packet::new_checked(&mut out[..]).unwrap();
    packet.set_hops(1);
    packet.set_giaddr(Ipv4Addr::new(10, 0, 0, 1));
    assert!(packet.set_address(option::SERVER_ID, Ipv4Addr::new(10, 0, 0, 1)));
    assert!(!packet.set_address(option::CLIENT_ID, Ipv4Addr::new(10, 0, 0, 1)));
    assert!(!packet.set_address(option::ROUTER, Ipv4Addr::new(10, 0, 0, 1)));
    let agent = DhcpOption::new(option::RELAY_AGENT, [1, 2, b's', b'1']);
    let mut more = packet.with_option(&agent).unwrap();
    assert_eq!(more[44..60], [7; 16], "the server's name stays");
    let seen = read(&more).unwrap();
    assert_eq!((seen.hops, seen.giaddr), (1, Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(seen.address(option::SERVER_ID), Some(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(seen.options[..2], repr.options[..2]);
    assert_eq!(seen.options.last(), Some(&agent));
    Packet::new_checked(&mut more[..]).unwrap().blank(option::RELAY_AGENT);
    assert_eq!(read(&more).unwrap().options, read(&out).unwrap().options);
    // Too long an option, and a message without an end mark.
    let packet = Packet::new_checked(&mut out[..]).unwrap();
    assert_eq!(packet.with_option(&DhcpOption::new(82, vec![0; 256])), None);
    let mut endless = vec![0; HEADER_LEN];
    endless[..HEADER_LEN].copy_from_slice(&more[..HEADER_LEN]);
    assert_eq!(Packet::new_checked(&mut endless[..]).unwrap().with_option(&agent), None);
}

proptest! {
    #[test]
    fn changing_any_bytes_is_safe(tail in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut out = bytes(&sample())[..HEADER_LEN].to_vec();
        out.extend(tail);
        let mut packet = Packet::new_checked(&mut out[..]).unwrap();
        packet.set_address(option::SERVER_ID, Ipv4Addr::LOCALHOST);
        packet.blank(option::RELAY_AGENT);
        if let Some(more) = packet.with_option(&DhcpOption::new(option::RELAY_AGENT, [1])) {
            let code = |o: &DhcpOption| o.code == option::RELAY_AGENT;
            prop_assert!(read(&more).is_err() || read(&more).unwrap().options.iter().any(code));
        }
    }
}
