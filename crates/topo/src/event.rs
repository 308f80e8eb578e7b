//! A topology file's `[[event]]`: what fails while traffic runs.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use plexus_config::document::{At, Lines, Section};
use plexus_config::error::{Span, quote};
use plexus_config::units::{format_duration, parse_duration};
use plexus_config::words;

use crate::model::{Device, End, Topology};

/// Something that fails while a run sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// How long after the start of the run.
    pub at: Duration,
    /// What fails.
    pub fault: Fault,
    /// How long it stays so; `None`: to the end of the run.
    pub lasts: Option<Duration>,
}

/// What can fail.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A cable.
    Cut {
        /// The cable with this end: a port of a node or bridge.
        end: End,
        /// How it fails.
        kind: Failure,
    },
    /// A controller reaches the nodes no more, or the store that it shares with others.
    CutOff {
        /// Index into [`Topology::controllers`]; absent: the one that leads then.
        controller: Option<usize>,
        /// From what.
        from: Side,
        /// How the cable to it fails.
        kind: Failure,
    },
    /// A member of the controllers' etcd cluster has no room on its disk. It stops, as etcd does,
    /// and starts again once there is room.
    Full {
        /// Which, from 0 on.
        member: usize,
    },
    /// A cable carries frames badly.
    Trouble {
        /// The cable with this end: a port of a node or bridge.
        end: End,
        /// In both directions; else only what comes to that port.
        both: bool,
        /// What happens to frames.
        trouble: Trouble,
    },
    /// A device stops at once and forgets what it has not stored. After its time it starts anew.
    Crash {
        /// A node, a bridge, a controller or a member of etcd.
        party: Party,
        /// Its cables keep their carrier, as where a program hangs: others notice by its silence.
        silent: bool,
    },
    /// Nothing passes between these and all others, and nobody loses a carrier.
    Partition(Vec<Party>),
    /// A clock goes wrong: from now on it jumped, and runs at another pace while this lasts. It
    /// never goes back.
    Skew {
        /// A node or a controller.
        party: Party,
        /// Millionths by which it is too fast, or too slow below zero.
        ppm: f64,
        /// How far it jumps ahead.
        ahead: Duration,
    },
}

impl Fault {
    /// The fault of the controller that leads, if it is one, as one of this controller.
    pub fn with_leader(&self, leader: usize) -> Option<Fault> {
        match *self {
            Fault::CutOff { controller: None, from, kind } => {
                Some(Fault::CutOff { controller: Some(leader), from, kind })
            }
            Fault::Crash { party: Party::Leader, silent } => {
                Some(Fault::Crash { party: Party::Controller(leader), silent })
            }
            _ => None,
        }
    }

    /// Its name in files and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Cut { kind, .. } | Fault::CutOff { kind, .. } => kind.name(),
            Fault::Full { .. } => "full",
            Fault::Trouble { trouble, .. } => match trouble.kind {
                TroubleKind::Loss => "loss",
                TroubleKind::Corrupt { .. } => "corrupt",
                TroubleKind::Duplicate => "duplicate",
                TroubleKind::Reorder { .. } => "reorder",
            },
            Fault::Crash { .. } => "crash",
            Fault::Partition(_) => "partition",
            Fault::Skew { .. } => "skew",
        }
    }
}

/// The networks that a controller of several is cabled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The group's nodes.
    Nodes,
    /// The store that the controllers share.
    Etcd,
}

words!(Side { Nodes = "nodes", Etcd = "etcd" });

/// How a cable fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Pulled out: both ends lose their carrier.
    Carrier,
    /// Dead, but nobody loses the carrier: a broken converter on the way.
    Silent,
}

words!(Failure { Carrier = "carrier", Silent = "silent" });

/// What a bad cable does to frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trouble {
    /// What.
    pub kind: TroubleKind,
    /// Probability that it strikes a frame, 0 to 1.
    pub chance: f64,
}

/// What can happen to a frame on a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// It is lost.
    Loss,
    /// One of its bits is wrong.
    Corrupt {
        /// And its checksum does not tell, as if the fault were behind the check: hostile input.
        hidden: bool,
    },
    /// It comes twice.
    Duplicate,
    /// It is held back, so that later ones overtake it.
    Reorder {
        /// How long.
        by: Duration,
    },
}

/// What can crash, or be cut off with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    /// A node, a host or a bridge.
    Device(Device),
    /// Index into [`Topology::controllers`].
    Controller(usize),
    /// The controller that leads when the event begins.
    Leader,
    /// A member of the etcd cluster that several controllers share, from 0 on.
    Member(usize),
}

/// Why a fault of the leader was not made.
pub const NO_LEADER: &str = "no controller led then";

/// The name of [`Party::Leader`].
const LEADER: &str = "leader";

/// Members of the etcd cluster that several controllers share, by name: one of them can fail.
pub const ETCD_MEMBERS: [&str; 3] = ["etcd1", "etcd2", "etcd3"];

/// An event in words, as in `crash of n1 at 3s`.
pub struct Described<'a>(pub &'a Topology, pub &'a Event);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described(topology, Event { at, fault, .. }) = self;
        let name = |party: &Party| topology.party_name(*party).to_string();
        let whose = match fault {
            Fault::Cut { end, .. } | Fault::Trouble { end, .. } => topology.end_name(*end),
            Fault::CutOff { controller, from, .. } => topology.side_name(*controller, *from),
            Fault::Full { member } => name(&Party::Member(*member)),
            Fault::Crash { party, .. } | Fault::Skew { party, .. } => name(party),
            Fault::Partition(parties) => parties.iter().map(name).collect::<Vec<_>>().join(", "),
        };
        write!(f, "{} of {whose} at {}", fault.name(), format_duration(*at))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cut(Failure),
    Loss,
    Corrupt,
    Duplicate,
    Reorder,
    Crash,
    Full,
    Partition,
    Skew,
}

const KINDS: [(&str, Kind); 10] = [
    ("carrier", Kind::Cut(Failure::Carrier)),
    ("silent", Kind::Cut(Failure::Silent)),
    ("loss", Kind::Loss),
    ("corrupt", Kind::Corrupt),
    ("duplicate", Kind::Duplicate),
    ("reorder", Kind::Reorder),
    ("crash", Kind::Crash),
    ("full", Kind::Full),
    ("partition", Kind::Partition),
    ("skew", Kind::Skew),
];
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a frame is held back where nothing is said, as by a port's faults.
const HELD_BACK_USUAL: Duration = Duration::from_millis(1);
/// A clock that is ten per cent off is broken.
const PPM_MAX: f64 = 100_000.0;

/// Reads every `[[event]]`. `ends` are the ends of cables by device and name.
pub(crate) fn read_events(
    root: &Section<'_>,
    topology: &mut Topology,
    devices: &HashMap<String, Device>,
    ends: &HashMap<(Device, String), End>,
) {
    let (mut events, mut crashes) = (Vec::new(), Vec::new());
    for section in root.sections("event", "an event") {
        let reader = Reader { section: &section, topology, devices, ends };
        let at = reader.time("at").unwrap_or(Duration::ZERO);
        let lasts = reader.time("for");
        if let Some(fault) = reader.fault() {
            // The leader is another one each time.
            if let Fault::Crash { party, .. } = fault
                && party != Party::Leader
            {
                let ends = lasts.map_or(Duration::MAX, |lasts| at + lasts);
                crashes.push((party, at, ends, section.near("device")));
            }
            events.push(Event { at, fault, lasts });
        }
    }
    check_crashes(root, topology, crashes);
    events.sort_by_key(|e| e.at);
    topology.events = events;
}

/// Notes, at both places, each crash of what is still down: the end of the first one would start
/// it anew, and that of the second one again. `crashes`: of what, from when to when, where.
fn check_crashes(
    root: &Section<'_>,
    topology: &Topology,
    mut crashes: Vec<(Party, Duration, Duration, Span)>,
) {
    crashes.sort_by_key(|(_, at, ..)| *at);
    // Of each: how long it is down, and where that is said.
    let mut down: HashMap<Party, (Duration, Span)> = HashMap::new();
    for (party, at, ends, span) in crashes {
        match down.get(&party) {
            Some((until, first)) if at <= *until => {
                let name = quote(topology.party_name(party));
                let again = format_duration(at);
                let message = format!("{name} crashes at {again}, when it is still down");
                let help = "let it crash later, or make \"for\" of the crash before it shorter";
                root.problems().add(span, message, help);
                let message = format!("{name} is still down when it crashes again at {again}");
                let help = "write a \"for\" that ends before that, or remove one of the two";
                root.problems().add(first.clone(), message, help);
            }
            _ => {
                down.insert(party, (ends, span));
            }
        }
    }
}

struct Reader<'a> {
    section: &'a Section<'a>,
    topology: &'a Topology,
    devices: &'a HashMap<String, Device>,
    ends: &'a HashMap<(Device, String), End>,
}

impl Reader<'_> {
    /// `None` if something is wrong with it, which is then noted.
    fn fault(&self) -> Option<Fault> {
        let section = self.section;
        let kind = section.choice_or("kind", &KINDS, Kind::Cut(Failure::Carrier));
        let kind = match kind {
            Kind::Cut(kind) => {
                let place = section.required_text("cut", "\"n1.p1\"")?;
                if let Some((controller, from)) = self.side(place.value) {
                    return Some(Fault::CutOff { controller, from, kind });
                }
                return Some(Fault::Cut { end: self.end(place)?, kind });
            }
            Kind::Crash => return self.crash(),
            Kind::Full => return self.full(),
            Kind::Partition => return self.partition(),
            Kind::Skew => return self.skew(),
            Kind::Loss => TroubleKind::Loss,
            Kind::Duplicate => TroubleKind::Duplicate,
            Kind::Corrupt => TroubleKind::Corrupt { hidden: section.is_set("hidden") },
            Kind::Reorder => {
                TroubleKind::Reorder { by: self.time("by").unwrap_or(HELD_BACK_USUAL) }
            }
        };
        let chance = section.require("chance", "0.01").number("chance", 0.0..=1.0);
        let (cable, port) = (section.text("cable"), section.text("port"));
        let (place, both) = match (cable, port) {
            (Some(cable), None) => (cable, true),
            (None, Some(port)) => (port, false),
            (None, None) => {
                section.missing("cable", "\"n1.p1\", or port for what comes to that port");
                return None;
            }
            (Some(_), Some(port)) => {
                let message = "\"cable\" means both directions, \"port\" what comes to it";
                section.problems().add(port.span, message, "keep one of them");
                return None;
            }
        };
        let end = self.end(place)?;
        Some(Fault::Trouble { end, both, trouble: Trouble { kind, chance: chance?.value } })
    }

    fn crash(&self) -> Option<Fault> {
        let At { value, span } = self.section.required_text("device", "\"n1\"")?;
        let party = self.party(value, span.clone())?;
        if let Party::Device(Device::Host(_)) = party {
            let message = format!(
                "{} is a host: nodes, bridges, controllers and members of etcd crash",
                quote(value)
            );
            self.section.problems().add(span, message, "cut its cable instead");
            return None;
        }
        Some(Fault::Crash { party, silent: self.section.is_set("silent") })
    }

    fn full(&self) -> Option<Fault> {
        let At { value, span } = self.section.required_text("device", "\"etcd1\"")?;
        match self.party(value, span.clone())? {
            Party::Member(member) => Some(Fault::Full { member }),
            _ => {
                let message = format!("{} has no disk that could be full here", quote(value));
                let help = "name a member of the controllers' etcd cluster, as in \"etcd1\"";
                self.section.problems().add(span, message, help);
                None
            }
        }
    }

    fn partition(&self) -> Option<Fault> {
        let texts = self.section.require("devices", "[\"n1\", \"h1\"]").texts("devices")?;
        let party = |At { value, span }: At<&str>| match self.party(value, span.clone())? {
            Party::Leader => {
                let message = "a partition names what it cuts off";
                let help = "name controllers, or cut one off: cut = \"leader.nodes\"";
                self.section.problems().add(span, message, help);
                None
            }
            Party::Member(_) => {
                let message = format!("{} is on no cable of the topology", quote(value));
                let help = "cut controllers off from it: cut = \"c1.etcd\"";
                self.section.problems().add(span, message, help);
                None
            }
            party => Some(party),
        };
        let parties: Vec<_> = texts.into_iter().map(party).collect();
        parties.into_iter().collect::<Option<Vec<_>>>().map(Fault::Partition)
    }

    fn skew(&self) -> Option<Fault> {
        let section = self.section;
        let ppm = section.number_or("ppm", -PPM_MAX..=PPM_MAX, 0.0);
        let ahead = self.time("ahead").unwrap_or(Duration::ZERO);
        let At { value, span } = section.required_text("device", "\"n1\"")?;
        let party = self.party(value, span.clone())?;
        if let Party::Device(Device::Host(_) | Device::Bridge(_))
        | Party::Member(_)
        | Party::Leader = party
        {
            let message = format!("{} has no clock that could go wrong here", quote(value));
            section.problems().add(span, message, "name a node or a controller");
            return None;
        }
        Some(Fault::Skew { party, ppm, ahead })
    }

    fn party(&self, name: &str, span: Span) -> Option<Party> {
        let controllers = &self.topology.controllers;
        let controller = controllers.iter().position(|c| c.name == name).map(Party::Controller);
        let member = self.members().iter().position(|m| *m == name).map(Party::Member);
        let leader = (name == LEADER && !controllers.is_empty()).then_some(Party::Leader);
        let party = self.devices.get(name).copied().map(Party::Device);
        let party = party.or(controller).or(member).or(leader);
        if party.is_none() && !self.section.problems().is_full() {
            let mut known: Vec<&str> = self.devices.keys().map(String::as_str).collect();
            known.extend(controllers.iter().map(|c| c.name.as_str()));
            known.extend(self.members());
            known.extend((!controllers.is_empty()).then_some(LEADER));
            known.sort_unstable();
            self.section.problems().unknown(span, "device", name, known);
        }
        party
    }

    /// The members of etcd, where there is one.
    fn members(&self) -> &'static [&'static str] {
        match self.topology.controllers.len() {
            0 | 1 => &[],
            _ => &ETCD_MEMBERS,
        }
    }

    /// A controller's cable: to the nodes or to etcd.
    fn side(&self, place: &str) -> Option<(Option<usize>, Side)> {
        let (name, side) = place.split_once('.')?;
        if self.devices.contains_key(name) {
            return None;
        }
        let controller = match self.topology.controllers.iter().position(|c| c.name == name) {
            None if name != LEADER || self.topology.controllers.is_empty() => return None,
            found => found,
        };
        let from = Side::NAMES.iter().find(|(name, _)| *name == side)?.1;
        (from == Side::Nodes || !self.members().is_empty()).then_some((controller, from))
    }

    fn end(&self, At { value, span }: At<&str>) -> Option<End> {
        let end = value.split_once('.').and_then(|(device, port)| {
            self.ends.get(&(*self.devices.get(device)?, port.to_string())).copied()
        });
        if let Some(end @ (End::Port { .. } | End::Bridge { .. })) = end {
            return Some(end);
        }
        if self.section.problems().is_full() {
            return None;
        }
        let known = self.ends.values().filter(|e| !matches!(e, End::Host { .. }));
        let mut known: Vec<String> = known.map(|e| self.topology.end_name(*e)).collect();
        for controller in 0..self.topology.controllers.len() {
            known.push(self.topology.side_name(Some(controller), Side::Nodes));
            if !self.members().is_empty() {
                known.push(self.topology.side_name(Some(controller), Side::Etcd));
            }
        }
        if !self.topology.controllers.is_empty() {
            known.push(self.topology.side_name(None, Side::Nodes));
        }
        if !self.members().is_empty() {
            known.push(self.topology.side_name(None, Side::Etcd));
        }
        known.sort();
        let known = known.iter().map(String::as_str);
        self.section.problems().unknown(span, "port of a node or bridge", value, known);
        None
    }

    fn time(&self, key: &'static str) -> Option<Duration> {
        let At { value, span } = self.section.quantity(key, parse_duration)?;
        if value > TIME_MAX {
            self.section.problems().add(span, "more than a day", "write a time up to 24h");
        }
        Some(value)
    }
}

impl Topology {
    /// The name of what crashes or is cut off.
    pub fn party_name(&self, party: Party) -> &str {
        match party {
            Party::Device(device) => self.device_name(device),
            Party::Controller(controller) => &self.controllers[controller].name,
            Party::Leader => LEADER,
            Party::Member(member) => ETCD_MEMBERS[member],
        }
    }

    /// The name of a controller's cable.
    fn side_name(&self, controller: Option<usize>, side: Side) -> String {
        let name = controller.map_or(LEADER, |controller| &self.controllers[controller].name);
        format!("{name}.{}", side.name())
    }

    pub(crate) fn write_event(&self, event: &Event, lines: &mut Lines) {
        lines.heading("[[event]]");
        lines.value("at", &event.at);
        lines.text("kind", event.fault.name());
        match &event.fault {
            Fault::Cut { end, .. } => lines.text("cut", &self.end_name(*end)),
            Fault::CutOff { controller, from, .. } => {
                lines.text("cut", &self.side_name(*controller, *from));
            }
            Fault::Full { member } => lines.text("device", ETCD_MEMBERS[*member]),
            Fault::Trouble { end, both, trouble } => {
                lines.text(if *both { "cable" } else { "port" }, &self.end_name(*end));
                lines.value("chance", &trouble.chance);
                match trouble.kind {
                    TroubleKind::Corrupt { hidden: true } => lines.entry("hidden", true),
                    TroubleKind::Reorder { by } => lines.value("by", &by),
                    _ => {}
                }
            }
            Fault::Crash { party, silent } => {
                lines.text("device", self.party_name(*party));
                lines.unusual("silent", silent, &false);
            }
            Fault::Partition(parties) => {
                let names: Vec<&str> = parties.iter().map(|p| self.party_name(*p)).collect();
                lines.value("devices", &names[..]);
            }
            Fault::Skew { party, ppm, ahead } => {
                lines.text("device", self.party_name(*party));
                lines.value("ppm", ppm);
                lines.value("ahead", ahead);
            }
        }
        lines.given("for", event.lasts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = \"t\"\n[[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
        [[link]]\nends = [\"n1.a\", \"n2.a\"]\n\
        [[event]]\nat = \"3s\"\ncut = \"n2.a\"\nkind = \"silent\"\n\
        [[event]]\nat = \"1s\"\ncut = \"n1.a\"\nfor = \"500ms\"\n";

    #[test]
    fn events_come_in_order_and_are_written_back() {
        let topology = Topology::parse("t.toml", FILE).unwrap();
        let kinds: Vec<_> =
            topology.events.iter().map(|e| (e.at.as_secs(), e.fault.name())).collect();
        assert_eq!(kinds, [(1, "carrier"), (3, "silent")]);
        assert_eq!(topology.events[0].lasts, Some(Duration::from_millis(500)));
        assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
    }

    #[test]
    fn a_cut_must_name_a_port_of_a_node_or_bridge() {
        let wrong = FILE.replace("cut = \"n2.a\"", "cut = \"n2.b\"");
        let e = Topology::parse("t.toml", &wrong).unwrap_err().to_string();
        assert!(e.contains("t.toml:") && e.contains("\"n2.b\"") && e.contains("n2.a"), "{e}");
        let more = "[[bridge]]\nname = \"b\"\n[[link]]\nends = [\"n1.b\", \"b.p1\"]\n";
        let bridge = FILE.replace("cut = \"n2.a\"", "cut = \"b.p1\"") + more;
        let topology = Topology::parse("t.toml", &bridge).unwrap();
        let told = Described(&topology, &topology.events[1]).to_string();
        assert_eq!(told, "silent of b.p1 at 3s");
    }

    /// A file with these lines for its only event, and what is made of it.
    fn event(lines: &str) -> Result<Event, String> {
        let text = format!(
            "name = \"t\"\n[[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
             [[controller]]\nname = \"c1\"\non = \"n1\"\n[[host]]\nname = \"h1\"\n\
             [[controller]]\nname = \"c2\"\non = \"n2\"\n\
             [[link]]\nends = [\"n1.a\", \"n2.a\"]\nmtu = 2000\n\
             [[link]]\nends = [\"h1\", \"n1.p1\"]\n[[event]]\n{lines}\n"
        );
        let topology = Topology::parse("t.toml", &text).map_err(|e| e.to_string())?;
        assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
        Ok(topology.events[0].clone())
    }

    #[test]
    fn every_kind_is_read_and_written_back() {
        let end = End::Port { node: 1, port: 0 };
        let trouble = |both, kind, chance| {
            let trouble = Trouble { kind, chance };
            Fault::Trouble { end, both, trouble }
        };
        let by = Duration::from_micros(30);
        let n1 = Party::Device(Device::Node(0));
        let ahead = Duration::from_millis(5);
        for (lines, fault) in [
            (
                "kind = \"loss\"\ncable = \"n2.a\"\nchance = 0.5",
                trouble(true, TroubleKind::Loss, 0.5),
            ),
            (
                "kind = \"corrupt\"\nport = \"n2.a\"\nchance = 1\nhidden = true",
                trouble(false, TroubleKind::Corrupt { hidden: true }, 1.0),
            ),
            (
                "kind = \"reorder\"\nport = \"n2.a\"\nchance = 1e-3\nby = \"30us\"",
                trouble(false, TroubleKind::Reorder { by }, 1e-3),
            ),
            (
                "kind = \"duplicate\"\ncable = \"n2.a\"\nchance = 0",
                trouble(true, TroubleKind::Duplicate, 0.0),
            ),
            (
                "kind = \"crash\"\ndevice = \"c1\"",
                Fault::Crash { party: Party::Controller(0), silent: false },
            ),
            (
                "kind = \"crash\"\ndevice = \"n1\"\nsilent = true",
                Fault::Crash { party: n1, silent: true },
            ),
            (
                "kind = \"crash\"\ndevice = \"etcd3\"",
                Fault::Crash { party: Party::Member(2), silent: false },
            ),
            ("kind = \"full\"\ndevice = \"etcd1\"", Fault::Full { member: 0 }),
            (
                "kind = \"silent\"\ncut = \"c2.etcd\"",
                Fault::CutOff { controller: Some(1), from: Side::Etcd, kind: Failure::Silent },
            ),
            (
                "cut = \"c1.nodes\"",
                Fault::CutOff { controller: Some(0), from: Side::Nodes, kind: Failure::Carrier },
            ),
            (
                "cut = \"leader.etcd\"",
                Fault::CutOff { controller: None, from: Side::Etcd, kind: Failure::Carrier },
            ),
            (
                "kind = \"crash\"\ndevice = \"leader\"",
                Fault::Crash { party: Party::Leader, silent: false },
            ),
            (
                "kind = \"partition\"\ndevices = [\"n1\", \"c1\"]",
                Fault::Partition(vec![n1, Party::Controller(0)]),
            ),
            (
                "kind = \"skew\"\ndevice = \"n1\"\nppm = -200\nahead = \"5ms\"",
                Fault::Skew { party: n1, ppm: -200.0, ahead },
            ),
            (
                "kind = \"skew\"\ndevice = \"c1\"\nppm = 3",
                Fault::Skew { party: Party::Controller(0), ppm: 3.0, ahead: Duration::ZERO },
            ),
        ] {
            assert_eq!(event(lines).unwrap().fault, fault, "{lines}");
        }
    }

    #[test]
    fn what_is_down_cannot_crash() {
        let crashes = |first: &str, second: &str| {
            event(&format!(
                "kind = \"crash\"\ndevice = \"n1\"\nat = \"5s\"\n{second}\n\
                 [[event]]\nkind = \"crash\"\ndevice = \"n1\"\nat = \"1s\"\n{first}"
            ))
        };
        assert!(crashes("for = \"3s\"", "").is_ok());
        for first in ["for = \"6s\"", "for = \"4s\"", ""] {
            let told = crashes(first, "for = \"1s\"").unwrap_err();
            for words in ["at 5s, when it is still down", "crashes again at 5s", "\"n1\""] {
                assert!(told.contains(words), "{told}");
            }
            assert_eq!(told.matches("t.toml:").count(), 2, "{told}");
        }
    }

    #[test]
    fn what_is_missing_or_foreign_is_said() {
        for (lines, words) in [
            ("kind = \"loss\"\ncable = \"n2.a\"", ["chance", "0.01"]),
            ("kind = \"loss\"\nchance = 0.5", ["cable", "port"]),
            ("kind = \"loss\"\nchance = 1.5\ncable = \"n2.a\"", ["chance", "0 to 1"]),
            (
                "kind = \"loss\"\nchance = 1\ncable = \"n2.a\"\nport = \"n2.a\"",
                ["port", "keep one"],
            ),
            ("kind = \"crash\"\ndevice = \"h1\"", ["h1", "cut its cable"]),
            ("kind = \"crash\"\ndevice = \"n3\"", ["n3", "device"]),
            ("kind = \"partition\"\ndevices = [\"n1\", \"x\"]", ["\"x\"", "c1"]),
            ("kind = \"partition\"\ndevices = [\"etcd1\"]", ["etcd1", "c1.etcd"]),
            ("kind = \"partition\"\ndevices = [\"leader\"]", ["cuts off", "leader.nodes"]),
            ("kind = \"full\"\ndevice = \"c1\"", ["c1", "etcd1"]),
            ("kind = \"skew\"\ndevice = \"etcd1\"", ["etcd1", "controller"]),
            ("cut = \"c1.store\"", ["c1.store", "c1.etcd"]),
            ("kind = \"skew\"\ndevice = \"h1\"", ["h1", "node"]),
            ("kind = \"skew\"\ndevice = \"n1\"\nsilent = true", ["silent", "event"]),
            ("kind = \"crash\"\ndevice = \"n1\"\nchance = 0.5", ["chance", "event"]),
        ] {
            let told = event(lines).unwrap_err();
            assert!(words.iter().all(|w| told.contains(w)), "{lines}: {told}");
        }
    }
}
