//! PortLand's machines with valid and hostile inputs.

use plexus_reference::Input;
use plexus_reference::portland::{ETHERTYPE, INTERVAL, Manager, Switch};
use plexus_wire::{MacAddr, Time};
use proptest::prelude::*;

const SWITCH: MacAddr = MacAddr([2, 0x0E, 0, 0, 0, 1]);
const RATE: u64 = 1_000_000_000;

/// A switch whose port 0 has a silent neighbour: after a while, a host.
fn edge() -> (Switch, Time) {
    let mut switch = Switch::new(SWITCH, 4, INTERVAL, 7);
    let mut now = Time::ZERO;
    switch.handle(now, Input::Port { port: 0, rate_bits_per_s: Some(RATE) });
    for _ in 0..6 {
        now = now + INTERVAL;
        switch.handle(now, Input::Tick);
    }
    while switch.poll_output().is_some() {}
    (switch, now)
}

fn frame(dst: [u8; 6], body: &[u8]) -> Vec<u8> {
    [&dst[..], &[2, 0x0E, 0, 0, 0, 9], &ETHERTYPE.to_be_bytes(), body].concat()
}

#[test]
fn a_host_cannot_speak_to_the_manager() {
    let (mut switch, now) = edge();
    // A registration of another host's address, as a switch would send it.
    let lie = [6, 0, 10, 0, 0, 1, 2, 0, 0, 0, 0, 5, 0, 1, 0, 2, 0, 1];
    let bytes = frame([0x02, 0x0F, 0, 0, 0, 1], &lie);
    switch.handle(now, Input::Frame { port: 0, bytes: &bytes });
    assert_eq!(switch.poll_output(), None);
}

#[test]
fn a_registration_that_ends_early_is_none() {
    let mut manager = Manager::new(INTERVAL);
    manager.handle(Time::ZERO, Input::Port { port: 0, rate_bits_per_s: Some(RATE) });
    let word = [6, 0, 10, 0, 0, 1, 2, 0, 0, 0, 0, 5, 0, 1, 0, 2, 0, 1];
    for cut in 0..=word.len() {
        let bytes = frame([0x02, 0x0F, 0, 0, 0, 1], &word[..cut]);
        manager.handle(Time::ZERO, Input::Frame { port: 0, bytes: &bytes });
        assert_eq!(manager.registry().len(), usize::from(cut == word.len()), "{cut}");
    }
}

proptest! {
    /// Messages of every kind with any contents, from any sender to any receiver, at any port.
    #[test]
    fn lies_do_not_break_a_machine(
        frames in proptest::collection::vec((
            0..6_u16,
            prop_oneof![
                Just([0x01, 0x80, 0xC2, 0, 0, 0x0E]), Just([2, 0x0F, 0, 0, 0, 1]),
                Just([3, 0x0F, 0, 0, 0, 2]), Just(SWITCH.0), any::<[u8; 6]>(),
            ],
            0..11_u8,
            proptest::collection::vec(any::<u8>(), 0..60),
            any::<bool>(),
        ), 1..60))
    {
        let (mut switch, mut now) = edge();
        let mut manager = Manager::new(INTERVAL);
        manager.handle(now, Input::Port { port: 0, rate_bits_per_s: Some(RATE) });
        for port in 1..4 {
            switch.handle(now, Input::Port { port, rate_bits_per_s: Some(RATE) });
        }
        for (port, dst, kind, body, is_ours) in frames {
            let mut bytes = frame(dst, &[&[kind][..], &body].concat());
            if !is_ours {
                // An ordinary frame: ARP, maybe.
                bytes[12..14].copy_from_slice(&[8, 6]);
            }
            switch.handle(now, Input::Frame { port, bytes: &bytes });
            manager.handle(now, Input::Frame { port, bytes: &bytes });
            now = now + INTERVAL / 2;
            switch.handle(now, Input::Tick);
            manager.handle(now, Input::Tick);
            while let Some((port, frame)) = switch.poll_output() {
                prop_assert!(port < 4 && frame.len() >= 14);
            }
            while manager.poll_output().is_some() {}
        }
    }
}
