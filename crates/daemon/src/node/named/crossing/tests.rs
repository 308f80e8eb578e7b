use super::*;

fn face(place: u32) -> FaceId {
    FaceId::new(place, 0).unwrap()
}

#[test]
fn a_packet_crosses_whole_with_its_face_and_headers() {
    let (mut out, mut inward) = way(Bell::default());
    let headers = Headers {
        pit_token: Some(&[1, 2, 3]),
        next_hop_face: Some(300),
        congestion_mark: Some(1),
        no_cache: true,
        ..Headers::default()
    };
    // The second time in a carrier that has carried more.
    for (packet, headers) in [("a longer one", headers), ("short", Headers::default())] {
        let (first, second) = packet.as_bytes().split_at(3);
        assert!(out.push(face(7), &headers, [first, second].into_iter()));
        let carrier = inward.pop().unwrap();
        assert_eq!((carrier.face(), carrier.headers()), (face(7), headers));
        assert_eq!(carrier.packet(), packet.as_bytes());
        inward.send_home(carrier);
    }
    assert_eq!(out.ring.under_way(), 1, "the last one is not taken in yet");
}

#[test]
fn what_finds_the_ring_full_is_counted_and_what_is_home_carries_again() {
    let (mut out, mut inward) = way(Bell::default());
    let mut push = || out.push(face(1), &Headers::default(), [&b"x"[..]].into_iter());
    let went = (0..DEPTH).filter(|_| push()).count();
    assert_eq!(went, DEPTH / 2);
    let carriers = [inward.pop().unwrap(), inward.pop().unwrap()];
    assert!(!push(), "they are not home yet");
    carriers.into_iter().for_each(|carrier| inward.send_home(carrier));
    assert!(push() && push() && !push());
    assert_eq!(out.counted(), (DEPTH as u64 / 2 + 2, DEPTH as u64 / 2 + 2));
    // Faces without number fill it, and no more.
    let mut push = |n| out.push(face(n), &Headers::default(), [&b"x"[..]].into_iter());
    let went = (2..DEPTH as u32 * 2).filter(|n| push(*n)).count();
    assert_eq!(went, DEPTH / 2);
}

#[test]
fn one_face_that_floods_leaves_room_to_all_others() {
    let (mut out, mut inward) = way(Bell::default());
    let mut push = |n| out.push(face(n), &Headers::default(), [&b"x"[..]].into_iter());
    while push(0) {}
    // Each of twenty sends fifty packets, and the flood goes on.
    for _ in 0..50 {
        assert!((1..=20).all(&mut push));
        assert!(!push(0));
    }
    // When all that has been looked at, it has room again, and so have they.
    while let Some(carrier) = inward.pop() {
        inward.send_home(carrier);
    }
    assert_eq!((0..DEPTH).filter(|_| push(0)).count(), DEPTH / 2);
    assert!(push(1));
    // Flooding together, they share what there is.
    while let Some(carrier) = inward.pop() {
        inward.send_home(carrier);
    }
    let mut went = [0usize; 4];
    for _ in 0..DEPTH {
        (0..3).for_each(|n| went[n as usize] += usize::from(push(n)));
    }
    assert!(went[..3].iter().all(|n| n.abs_diff(DEPTH / 4) <= 1), "{went:?}");
    assert!(push(3));
}
