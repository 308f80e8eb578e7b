use proptest::prelude::*;

use super::*;

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn ip(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

fn entry(n: u8, state: State, until: u64, is_stored: bool) -> Entry {
    let port = Some(Place { node: 0, port: n % 2 });
    Entry { mac: mac(n), state, until: Time::from_secs(until), port, is_stored }
}

#[test]
fn a_host_gets_its_old_address_until_another_needs_it() {
    let mut leases = Leases::default();
    let mut pool = Pool::new(ip(1), ip(2));
    let any = |_| true;
    assert_eq!(leases.choose(&mut pool, mac(1), None, any), Some(ip(1)));
    leases.put(ip(1), entry(1, State::Bound, 10, true));
    assert_eq!(leases.choose(&mut pool, mac(2), Some(ip(1)), any), Some(ip(2)));
    leases.put(ip(2), entry(2, State::Bound, 20, true));
    assert_eq!(leases.choose(&mut pool, mac(3), None, any), None);
    assert_eq!(leases.end_next(Time::from_secs(9)), None);
    assert!(leases.end_next(Time::from_secs(10)).is_some_and(|(ended, _)| ended == ip(1)));
    assert_eq!(leases.choose(&mut pool, mac(1), None, any), Some(ip(1)));
    assert_eq!(leases.choose(&mut pool, mac(3), None, any), Some(ip(1)));
    leases.put(ip(1), entry(3, State::Offered, 30, false));
    assert_eq!((leases.of(mac(1)), leases.of(mac(3))), (None, Some(ip(1))));
    // An offer that is not accepted leaves nothing behind.
    while leases.end_next(Time::from_secs(40)).is_some() {}
    assert_eq!((leases.of(mac(3)), leases.of(mac(2))), (None, Some(ip(2))));
    assert_eq!(leases.next_end(), None);
}

#[test]
fn addresses_in_use_and_a_huge_pool_are_looked_at_within_bounds() {
    let mut leases = Leases::default();
    let mut pool = Pool::new(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
    assert_eq!(leases.choose(&mut pool, mac(1), None, |_| false), None);
    assert_eq!(pool.fresh, LOOKED_AT_MAX as u32);
}

/// Addresses 0 to 999 behind the first one.
fn thousand(n: u16) -> Ipv4Addr {
    Ipv4Addr::from(ip(0).to_bits() + u32::from(n))
}

#[test]
fn an_address_that_was_in_use_without_a_lease_is_offered_once_it_is_free() {
    let mut leases = Leases::default();
    let mut pool = Pool::new(thousand(0), thousand(999));
    // A port's hosts take the next addresses each time.
    for taken in (0..1000).step_by(200) {
        let is_free = |ip| !(thousand(taken)..thousand(taken + 200)).contains(&ip);
        leases.choose(&mut pool, mac(1), None, is_free);
        assert!(leases.choose(&mut pool, mac(1), None, |_| false).is_none());
    }
    for n in 0..1000 {
        let chosen = leases.choose(&mut pool, mac(1), None, |_| true);
        let chosen = chosen.unwrap_or_else(|| panic!("{n} addresses and no more"));
        let entry = Entry { mac: MacAddr::from_u64(n), ..entry(2, State::Bound, 10, true) };
        leases.put(chosen, entry);
    }
    assert!(leases.choose(&mut pool, mac(1), None, |_| true).is_none());
}

#[test]
fn addresses_in_use_without_a_lease_do_not_hide_those_behind_them() {
    let is_free = |ip| ip >= thousand(900);
    for is_stored in [false, true] {
        let mut leases = Leases::default();
        let mut pool = Pool::new(thousand(0), thousand(999));
        for n in 0..1000 {
            let mac = MacAddr::from_u64(n.into());
            leases.put(thousand(n), Entry { mac, ..entry(2, State::Bound, 10, is_stored) });
        }
        while leases.end_next(Time::from_secs(10)).is_some() {}
        // Every client asks again.
        let found = (0..8).find_map(|_| leases.choose(&mut pool, mac(1), None, is_free));
        assert_eq!(found, Some(thousand(900)));
        assert_eq!(leases.choose(&mut pool, mac(1), None, is_free), found, "the search goes on");
    }
}

proptest! {
    /// Compared with a plain list.
    #[test]
    fn the_table_agrees_with_a_naive_model(
        steps in proptest::collection::vec((0..4_u8, 0..6_u8, 0..6_u8, 1..8_u64), 1..80))
    {
        let mut leases = Leases::default();
        let mut pool = Pool::new(ip(1), ip(4));
        let mut model: Vec<(Ipv4Addr, Entry)> = Vec::new();
        let mut now = 0;
        for (what, host, address, time) in steps {
            let states = [State::Offered, State::Bound, State::Declined];
            match what {
                0 | 1 => {
                    let state = states[usize::from(address + what) % 3];
                    let new = entry(host, state, now + time, state != State::Offered);
                    leases.put(ip(address), new);
                    model.retain(|(i, e)| *i != ip(address)
                        && (state == State::Declined || e.state == State::Declined
                            || e.mac != new.mac));
                    model.push((ip(address), new));
                }
                2 => { leases.remove(ip(address)); model.retain(|(i, _)| *i != ip(address)); }
                _ => {
                    now += time;
                    while leases.end_next(Time::from_secs(now)).is_some() {}
                    model.retain_mut(|(_, e)| {
                        if e.state == State::Past || e.until > Time::from_secs(now) { return true; }
                        let kept = e.is_stored && e.state != State::Declined;
                        (e.state, e.port) = (State::Past, None);
                        kept
                    });
                }
            }
            model.sort_by_key(|(i, _)| *i);
            let found: Vec<(Ipv4Addr, Entry)> = leases.iter().map(|(i, e)| (i, *e)).collect();
            prop_assert_eq!(&found, &model);
            for n in 0..6 {
                let own = model.iter().find(|(_, e)| e.mac == mac(n) && e.state != State::Declined);
                prop_assert_eq!(leases.of(mac(n)), own.map(|(i, _)| *i));
                let at = |e: &Entry| e.port == Some(Place { node: 0, port: n });
                prop_assert_eq!(leases.len_at(Place { node: 0, port: n }),
                    model.iter().filter(|(_, e)| at(e)).count());
                // A client that can get an address gets one that no other host holds.
                let usable = |i: Ipv4Addr| i != ip(3);
                let chosen = leases.choose(&mut pool, mac(n), Some(ip(address)), usable);
                let free = (1..=4).map(ip).filter(|i| usable(*i)).find(|i| {
                    model.iter().all(|(j, e)| j != i || e.state == State::Past
                        || (e.mac == mac(n) && e.state != State::Declined))
                });
                prop_assert_eq!(chosen.is_some(), free.is_some());
                if let Some(chosen) = chosen {
                    prop_assert!(usable(chosen) && pool.holds(chosen));
                    prop_assert!(model.iter().all(|(j, e)| *j != chosen
                        || e.state == State::Past
                        || (e.mac == mac(n) && e.state != State::Declined)));
                }
            }
        }
    }
}
