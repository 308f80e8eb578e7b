//! A host's neighbours as Linux knows them: an unknown one is asked for three times, a second
//! apart. A stale one is asked directly, and its old address is used meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use plexus_io::Packet;
use plexus_wire::{MacAddr, ethernet};

use super::discovery::{self, Confirms, Said};
use super::{ANNOUNCE_EVERY, ANNOUNCEMENTS, SimHost};
use crate::core::Core;
use crate::time::SimTime;

/// How long a neighbour is reachable after an answer (`base_reachable_time_ms`).
const REACHABLE: Duration = Duration::from_secs(30);
/// Between two questions (`retrans_time_ms`).
const RETRY: Duration = Duration::from_secs(1);
/// How many requests are sent (`mcast_solicit`, `ucast_solicit`).
const TRIES: u8 = 3;
/// Packets that wait for an address, per address.
const WAITING_MAX: usize = 101;

/// All that a host knows.
#[derive(Default)]
pub(super) struct Neighbours {
    known: BTreeMap<IpAddr, Neighbour>,
    /// When neighbours are asked for again, in order: each question waits equally long. Entries
    /// that differ from [`Neighbour::ask_at`] are obsolete.
    questions: VecDeque<(SimTime, IpAddr)>,
}

/// The state of an address of the network.
#[derive(Default)]
struct Neighbour {
    mac: Option<MacAddr>,
    /// Requests without an answer.
    asked: u8,
    /// Until when it is believed.
    until: SimTime,
    /// When the next request is due, if one is open.
    ask_at: SimTime,
    waiting: Vec<Packet>,
}

impl Neighbour {
    fn is_asked_for(&self) -> bool {
        self.ask_at != SimTime::ZERO
    }
}

impl Neighbours {
    pub(super) fn knows(&self, ip: &IpAddr) -> bool {
        self.known.contains_key(ip)
    }

    /// When the next question is due, and after whom.
    pub(super) fn next_question(&mut self) -> Option<(SimTime, IpAddr)> {
        while let Some(&(at, ip)) = self.questions.front() {
            if self.known.get(&ip).is_some_and(|n| n.ask_at == at) {
                return Some((at, ip));
            }
            self.questions.pop_front();
        }
        None
    }
}

impl SimHost {
    /// Sends a packet to a neighbour, as soon as it is known where that is.
    pub(super) fn send_to(&mut self, core: &mut Core, next: IpAddr, mut packet: Packet) {
        let neighbour = self.neighbours.known.entry(next).or_default();
        let asks = match neighbour.mac {
            Some(mac) => {
                set_dst(core, &mut packet, mac);
                let is_stale = neighbour.until < core.now;
                self.nic.send(core, packet);
                is_stale
            }
            None => {
                if neighbour.waiting.len() >= WAITING_MAX {
                    core.pool.free(neighbour.waiting.remove(0));
                }
                neighbour.waiting.push(packet);
                true
            }
        };
        if asks && !neighbour.is_asked_for() {
            self.ask(core, next);
        }
    }

    /// Asks for a neighbour: directly if it was known before.
    pub(super) fn ask(&mut self, core: &mut Core, of: IpAddr) {
        let Some(own) = self.source(of) else { return };
        let neighbour = self.neighbours.known.entry(of).or_default();
        neighbour.asked += 1;
        if neighbour.asked == 1 && neighbour.mac.is_none() {
            core.resolutions.asked += 1;
        }
        neighbour.ask_at = core.now + RETRY.into();
        self.neighbours.questions.push_back((neighbour.ask_at, of));
        let question = discovery::question(self.mac, Some(own), neighbour.mac, of);
        self.say(core, &question);
    }

    /// Sends a frame of ARP or neighbour discovery.
    pub(super) fn say(&mut self, core: &mut Core, frame: &[u8]) {
        if let Some(packet) = core.frame(frame) {
            self.nic.send(core, packet);
        }
    }

    /// A frame of ARP or neighbour discovery has come.
    pub(super) fn hear_neighbour(&mut self, core: &mut Core, packet: Packet) {
        let said = discovery::parse(core.pool.data(&packet));
        core.pool.free(packet);
        match said {
            // Another host has the address, or wants it too (RFC 4862, 5.4.3 and 5.4.4). The host
            // asks again as long as that is so.
            Some(Said::Asks { from: None, target: ip, .. } | Said::Has { ip, .. })
                if self.is_tentative(ip) =>
            {
                self.announce = Some((core.now + ANNOUNCE_EVERY.into(), ANNOUNCEMENTS));
            }
            Some(Said::Asks { from, mac, target }) => {
                let is_for_us = self.is_own(target) && !self.is_tentative(target);
                if let Some(from) = from {
                    // RFC 826: a known sender's entry is updated, and one that asks for us gets an
                    // entry.
                    match from {
                        IpAddr::V4(_) if is_for_us || self.neighbours.knows(&from) => {
                            self.learn(core, from, mac, Confirms::ALL);
                        }
                        IpAddr::V6(_) if is_for_us => {
                            self.learn(core, from, mac, Confirms::ADDRESS);
                        }
                        _ => {}
                    }
                }
                if is_for_us {
                    self.say(core, &discovery::answer(self.mac, target, mac, from));
                }
            }
            Some(Said::Has { ip, mac, confirms }) if self.neighbours.knows(&ip) => {
                self.learn(core, ip, mac, confirms);
            }
            _ => {}
        }
    }

    fn learn(&mut self, core: &mut Core, ip: IpAddr, mac: MacAddr, confirms: Confirms) {
        let neighbour = self.neighbours.known.entry(ip).or_default();
        if !confirms.overrides && neighbour.mac.is_some_and(|known| known != mac) {
            // RFC 4861, 7.2.5: the known address is doubtful from now on.
            neighbour.until = neighbour.until.min(core.now);
            return;
        }
        let before = neighbour.mac.replace(mac);
        if confirms.is_answer {
            neighbour.until = core.now + REACHABLE.into();
        } else if before == Some(mac) {
            return;
        } else {
            neighbour.until = core.now;
        }
        let asked = std::mem::take(&mut neighbour.asked);
        let ask_at = std::mem::take(&mut neighbour.ask_at);
        if before.is_none() && ask_at != SimTime::ZERO {
            let first = ask_at - (RETRY * asked.into()).into();
            core.resolutions.latency_ns.push((core.now - first).as_picos() / 1000);
        }
        for mut packet in std::mem::take(&mut neighbour.waiting) {
            set_dst(core, &mut packet, mac);
            self.nic.send(core, packet);
        }
    }

    /// Repeats the questions that are due, or gives up.
    pub(super) fn ask_again(&mut self, core: &mut Core) {
        while let Some((at, ip)) = self.neighbours.next_question()
            && at <= core.now
        {
            let may_ask = self.source(ip).is_some();
            let Some(neighbour) = self.neighbours.known.get_mut(&ip) else { continue };
            neighbour.ask_at = SimTime::ZERO;
            match (neighbour.asked, neighbour.mac) {
                (0..TRIES, _) if may_ask => self.ask(core, ip),
                // It does not answer directly: ask everybody.
                (_, Some(_)) => {
                    (neighbour.asked, neighbour.mac) = (0, None);
                    self.ask(core, ip);
                }
                (_, None) => {
                    core.resolutions.given_up += 1;
                    let gone = self.neighbours.known.remove(&ip);
                    let waiting = gone.into_iter().flat_map(|n| n.waiting);
                    waiting.for_each(|packet| core.pool.free(packet));
                }
            }
        }
    }

    /// Forgets all neighbours.
    pub(super) fn forget(&mut self, core: &mut Core) {
        let neighbours = std::mem::take(&mut self.neighbours).known;
        // No packet waits for their answers any more.
        let is_open = |n: &&Neighbour| n.mac.is_none() && n.asked > 0;
        core.resolutions.given_up += neighbours.values().filter(is_open).count() as u64;
        let waiting = neighbours.into_values().flat_map(|n| n.waiting);
        waiting.for_each(|packet| core.pool.free(packet));
    }
}

fn set_dst(core: &mut Core, packet: &mut Packet, mac: MacAddr) {
    if let Ok(mut frame) = ethernet::Frame::new_checked(core.pool.data_mut(packet)) {
        frame.set_dst(mac);
    }
}
