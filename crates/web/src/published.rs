//! The newest state of the network as server-sent events, made once for all readers.

use std::time::{Duration, Instant};

use hyper::body::Bytes;
use plexus_api::answer::network::Network;
use serde::Serialize;
use serde_json::Value;

use crate::rates::Meter;

/// A part of the state. A part that has changed is sent whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// It grows when the part changes; 0: there is none yet.
    pub(crate) version: u64,
    /// The event.
    pub(crate) event: Bytes,
}

/// The state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// When it was read; absent: never.
    pub(crate) at: Option<Instant>,
    /// The map comes first, since the others name its boxes.
    pub(crate) parts: [Part; NAMES.len()],
}

impl Published {
    /// How many parts there are.
    pub(crate) const PARTS: usize = NAMES.len();
}

const NAMES: [&str; 7] = ["map", "hosts", "rates", "router", "events", "clock", "trouble"];

/// Large parts that keep changing are not sent each time: at most so many bytes per second.
const BYTES_PER_S: f64 = 250e3;

/// Makes the events.
#[derive(Debug, Default)]
pub(crate) struct Press {
    meter: Meter,
    newest: Published,
    /// When each part changed last.
    changed: [Option<Instant>; NAMES.len()],
}

impl Press {
    /// The state after a look at the network, or after an attempt to have one.
    pub(crate) fn print(&mut self, now: Instant, seen: Result<Network, String>) -> Published {
        self.newest.at = Some(now);
        let trouble = seen.as_ref().err().cloned();
        if let Ok(network) = seen {
            let rates = self.meter.rates(&network);
            let before = self.newest.parts[0].version;
            // A map is small, and the others name its boxes: it is never late.
            self.changed[0] = None;
            self.put(now, 0, &network.map);
            if self.newest.parts[0].version != before {
                self.changed = [None; NAMES.len()];
            }
            self.put(now, 1, &network.hosts);
            self.put(now, 2, &rates);
            self.put(now, 3, &network.router);
            self.put(now, 4, &network.events);
            self.put(now, 5, &network.clock);
        }
        self.put(now, 6, &trouble);
        self.newest.clone()
    }

    fn put(&mut self, now: Instant, part: usize, value: &impl Serialize) {
        let pause = self.newest.parts[part].event.len() as f64 / BYTES_PER_S;
        let is_due = |changed: Instant| now - changed >= Duration::from_secs_f64(pause.min(30.0));
        if !self.changed[part].is_none_or(is_due) {
            return;
        }
        // JSON has no line breaks, which would end the event.
        let json = serde_json::to_string(value).unwrap_or_else(|_| Value::Null.to_string());
        let event = Bytes::from(format!("event: {}\ndata: {json}\n\n", NAMES[part]));
        let own = &mut self.newest.parts[part];
        if own.event != event {
            *own = Part { version: own.version + 1, event };
            self.changed[part] = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_api::answer::network::{BoxKind, Map, NetworkBox, NetworkHost};
    use plexus_wire::MacAddr;

    use super::*;

    fn network(boxes: usize, hosts: u32) -> Network {
        let named =
            |n| NetworkBox { name: format!("n{n}\n\nevent: x"), kind: BoxKind::Node, up: true };
        let host = |n: u32| NetworkHost {
            mac: MacAddr([2, 0, 0, 0, (n >> 8) as u8, n as u8]),
            name: None,
            at: (0, 0),
            addresses: vec![],
            tenants: vec![],
        };
        let map = Map { boxes: (0..boxes).map(named).collect(), ..Map::default() };
        Network { map, hosts: (0..hosts).map(host).collect(), ..Network::default() }
    }

    fn versions(published: &Published) -> Vec<u64> {
        published.parts.iter().map(|part| part.version).collect()
    }

    #[test]
    fn only_parts_that_change_are_sent_again() {
        let mut press = Press::default();
        let now = Instant::now();
        let first = press.print(now, Ok(network(2, 1)));
        assert_eq!(versions(&first), [1; 7]);
        let second = now + Duration::from_secs(1);
        let same = press.print(second, Ok(network(2, 1)));
        assert_eq!(versions(&same), [1; 7]);
        let more = press.print(now + Duration::from_secs(2), Ok(network(2, 2)));
        assert_eq!(versions(&more), [1, 2, 1, 1, 1, 1, 1]);
        let gone = press.print(now + Duration::from_secs(3), Err("no answer".into()));
        assert_eq!(versions(&gone), [1, 2, 1, 1, 1, 1, 2]);
        assert_eq!(&gone.parts[6].event[..], b"event: trouble\ndata: \"no answer\"\n\n");
    }

    #[test]
    fn names_cannot_end_an_event() {
        let published = Press::default().print(Instant::now(), Ok(network(1, 0)));
        let text = String::from_utf8(published.parts[0].event.to_vec()).unwrap();
        assert_eq!(text.matches('\n').count(), 3, "{text}");
    }

    #[test]
    fn large_parts_are_sent_less_often_unless_the_map_changes() {
        let mut press = Press::default();
        let now = Instant::now();
        let at = |s: u64| now + Duration::from_secs(s);
        let large = press.print(now, Ok(network(1, 20_000)));
        let bytes = large.parts[1].event.len();
        assert!(bytes > 1_000_000, "{bytes}");
        let soon = press.print(at(1), Ok(network(1, 20_001)));
        assert_eq!(soon.parts[1].version, 1);
        let moved = press.print(at(2), Ok(network(2, 20_002)));
        assert_eq!(moved.parts[1].version, 2);
        let later = press.print(at(2 + bytes as u64 / 250_000 + 1), Ok(network(2, 20_003)));
        assert_eq!(later.parts[1].version, 3);
    }
}
