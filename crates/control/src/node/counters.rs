//! The node's counters for a controller that somebody looks at, in messages that fit a link.

use plexus_wire::fabric::message::{BODY_MAX, Body, Counters, DropCount, NamePrefix, Names};

use super::effect::Effect;

/// Ports in one message, and bytes of reasons.
const PORTS: usize = 32;
const REASONS: usize = BODY_MAX / 2;
/// Bytes of a reason besides its name.
const REASON: usize = 10;

/// The messages of a report.
pub(super) fn messages(all: Counters) -> Vec<Effect> {
    let message = |part: Counters| Effect::Controller { body: part.into(), sure: false };
    parts(all).into_iter().map(message).collect()
}

/// The message with the prefixes of names, as many as fit.
pub(super) fn names(some: Vec<String>, all: usize) -> Effect {
    // Kind, request, and the two counts.
    let mut room = BODY_MAX - 11;
    let mut prefixes = Vec::new();
    for uri in some.into_iter().map(String::into_bytes) {
        if let Some(rest) = room.checked_sub(uri.len() + 2) {
            room = rest;
            prefixes.push(NamePrefix { uri });
        }
    }
    let more = u32::try_from(all.saturating_sub(prefixes.len())).unwrap_or(u32::MAX);
    Effect::Controller { body: Names { prefixes, more }.into(), sure: false }
}

fn parts(all: Counters) -> Vec<Counters> {
    let Counters { time_ms, ports, drops, named, .. } = all;
    let of = |ports, drops| Counters { time_ms, last: false, ports, drops, named: None };
    let mut parts: Vec<Counters> = ports.chunks(PORTS).map(|c| of(c.to_vec(), vec![])).collect();
    let mut room = 0;
    for drop in drops.into_iter().filter(|drop| drop.reason.len() + REASON <= REASONS) {
        let len = drop.reason.len() + REASON;
        if len > room {
            parts.push(of(vec![], Vec::<DropCount>::new()));
            room = REASONS;
        }
        room -= len;
        if let Some(part) = parts.last_mut() {
            part.drops.push(drop);
        }
    }
    if parts.is_empty() {
        parts.push(of(vec![], vec![]));
    }
    if let Some(part) = parts.last_mut() {
        (part.last, part.named) = (true, named);
    }
    debug_assert!(parts.iter().all(|p| Body::from(p.clone()).to_bytes(0).len() <= BODY_MAX));
    parts
}

#[cfg(test)]
mod tests {
    use plexus_wire::fabric::message::{NamedCount, PortCount};

    use super::*;

    #[test]
    fn a_large_report_is_split_and_nothing_is_lost() {
        let port =
            |port| PortCount { port, rx_packets: 1, rx_bytes: 2, tx_packets: 3, tx_bytes: 4 };
        let drop = |n: usize| DropCount { reason: vec![b'x'; n], packets: n as u64 };
        let named = NamedCount { hits: 1, misses: 2, packets: 3, pending: 4 };
        let all = Counters {
            time_ms: 5,
            last: true,
            ports: (0..255).map(port).collect(),
            drops: (0..200).map(drop).collect(),
            named: Some(named),
        };
        let parts = parts(all.clone());
        let len = |part: &Counters| Body::from(part.clone()).to_bytes(0).len();
        assert!(parts.iter().all(|part| len(part) <= BODY_MAX && part.time_ms == 5));
        let ends = parts.iter().filter(|part| part.last).count();
        assert!(ends == 1 && parts.last().is_some_and(|part| part.last));
        assert_eq!(parts.iter().flat_map(|p| p.ports.clone()).collect::<Vec<_>>(), all.ports);
        assert_eq!(parts.iter().flat_map(|p| p.drops.clone()).collect::<Vec<_>>(), all.drops);
        assert_eq!(
            parts.iter().filter_map(|p| p.named.clone()).collect::<Vec<_>>(),
            [all.named.unwrap()]
        );
    }

    #[test]
    fn as_many_names_are_told_as_fit() {
        let told = |count: usize, len: usize| {
            let Effect::Controller { body: Body::Names(told), .. } =
                names(vec!["x".repeat(len); count], count + 1)
            else {
                panic!("another message");
            };
            let len = Body::from(told.clone()).to_bytes(0).len();
            (told.prefixes.len(), told.more, len)
        };
        assert_eq!(told(0, 0), (0, 1, 11));
        assert_eq!(told(37, 35), (37, 1, BODY_MAX));
        assert_eq!(told(38, 35), (37, 2, BODY_MAX));
        assert_eq!(told(2, 5000), (0, 3, 11));
    }

    #[test]
    fn a_report_of_nothing_is_one_message() {
        let all = Counters { time_ms: 1, last: false, ports: vec![], drops: vec![], named: None };
        let parts = parts(all);
        assert!(parts.len() == 1 && parts[0].last);
    }
}
