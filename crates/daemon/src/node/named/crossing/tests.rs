use std::time::Duration;

use plexus_io::wake::Sleeper;

use super::*;

fn face(place: u32) -> FaceId {
    FaceId::new(place, 0).unwrap()
}

#[test]
fn a_packet_crosses_whole_with_its_face_and_headers() {
    let (_, waker) = Sleeper::new().unwrap();
    let (mut out, mut inward) = way(Bell::new(waker));
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
    assert_eq!(out.made, 1);
}

#[test]
fn what_finds_the_ring_full_is_counted_and_what_is_home_carries_again() {
    let (_, waker) = Sleeper::new().unwrap();
    let (mut out, mut inward) = way(Bell::new(waker));
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
    let (_, waker) = Sleeper::new().unwrap();
    let (mut out, mut inward) = way(Bell::new(waker));
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

#[test]
fn who_has_a_packet_does_not_go_to_sleep_and_who_sleeps_is_woken_once() {
    let (mut sleeper, waker) = Sleeper::new().unwrap();
    let bell = Bell::new(waker);
    let (mut out, mut inward) = way(bell.clone());
    let mut send = || {
        out.push(face(1), &Headers::default(), [].into_iter());
        out.ring();
    };
    send();
    assert!(!bell.may_sleep(std::iter::once(&inward)), "it came before");
    assert!(!sleeper.sleep([], Some(Duration::ZERO)).unwrap(), "nobody slept");
    inward.pop().unwrap();
    assert!(bell.may_sleep(std::iter::once(&inward)));
    send();
    send();
    assert!(sleeper.sleep([], None).unwrap());
    assert!(!sleeper.sleep([], Some(Duration::ZERO)).unwrap(), "once is enough");
}

#[test]
fn no_packet_is_left_with_a_sleeper() {
    let (mut sleeper, waker) = Sleeper::new().unwrap();
    let bell = Bell::new(waker);
    let (mut out, mut inward) = way(bell.clone());
    const PACKETS: usize = 20_000;
    let sender = std::thread::spawn(move || {
        let mut sent = 0;
        while sent < PACKETS {
            sent += usize::from(out.push(face(1), &Headers::default(), [].into_iter()));
            if sent % 3 == 0 {
                out.ring();
                std::thread::yield_now();
            }
        }
        out.ring();
    });
    let mut received = 0;
    while received < PACKETS {
        while let Some(carrier) = inward.pop() {
            received += 1;
            inward.send_home(carrier);
        }
        // For ever, were a wake-up lost.
        if received < PACKETS && bell.may_sleep(std::iter::once(&inward)) {
            sleeper.sleep([], None).unwrap();
            bell.awake();
        }
    }
    sender.join().unwrap();
}
