//! Carries out effects: each becomes outputs of the node, a message, or work for another part.

use plexus_wire::Time;
use plexus_wire::fabric::message::{Body, PortRole};
use plexus_wire::fabric::{self, CONTROL_HOP, Kind};

use super::effect::{Effect, Event, Turn};
use super::host_frame::HostFrame;
use super::resolve::{LEADER, short};
use super::{Node, Output, control_frame, fabric_frame};
use crate::requests::Requests;
use crate::session::keyed;

impl Node {
    pub(super) fn carry_out(&mut self, now: Time, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Host { port, frame } => {
                    if self.role(port) == PortRole::Host {
                        self.outputs.push_back(Output::Transmit { port, frame });
                    }
                }
                Effect::Controller { body, sure: false } => {
                    self.seal_to_controller(now, &Requests::once(&body), false);
                }
                Effect::Standby { controller, body, sure } => {
                    self.tell_standby(now, controller, body, sure);
                }
                Effect::Silent { standby } => self.standby_silent(now, standby),
                Effect::HostChanged { port, mac } => self.host_changed(now, port, mac),
                Effect::HostGone(gone) => {
                    self.host_changed(now, gone.port, gone.mac);
                    let body = gone.into();
                    self.carry_out(now, vec![Effect::Controller { body, sure: true }]);
                }
                Effect::Controller { body, sure: true } => match self.requests.send(now, body) {
                    Some(bytes) => self.seal_to_controller(now, &bytes, false),
                    None => self.tell(Event::Refused(None, "the backlog is full".into())),
                },
                Effect::Ask { of: LEADER, request, secret, first } => {
                    let body = short::request(self.version(), request, secret, first);
                    self.seal_to_controller(now, &Requests::once(&body), false);
                }
                Effect::Ask { of, request, secret, .. } => {
                    // A standby would leave a request without an answer if it lacked the host.
                    let body = short::request(self.version, request, secret, false);
                    self.tell_standby(now, of, body, false);
                }
                Effect::Keyed { path, exchange, key, body } => {
                    self.send_keyed(now, &path, exchange, &key, &body);
                }
                Effect::Reply { path, exchange, key, reply, short } => {
                    let short = short.filter(|_| path != [CONTROL_HOP]);
                    let message = short.and_then(|short| short::seal(exchange, &reply, &short));
                    match message.and_then(|message| control_frame(&path, &message)) {
                        Some(frame) => self.outputs.push_back(Output::Send { frame }),
                        None => self.send_keyed(now, &path, exchange, &key, &reply.into()),
                    }
                }
                Effect::Along { port, path, frame } => {
                    if self.take_detour(now, port, &frame) {
                        continue;
                    }
                    let mut whole = fabric_frame(Kind::Ethernet, &path, &frame);
                    // The data plane has routed it, and found no way for it.
                    if self.has_routed(&frame) {
                        whole.iter_mut().for_each(|frame| fabric::set_routed(frame));
                    }
                    self.outputs.extend(whole.map(|frame| Output::Send { frame }));
                }
                Effect::Learn { .. }
                | Effect::Sends { .. }
                | Effect::Found { .. }
                | Effect::Granted { .. }
                | Effect::Revoked { .. }
                | Effect::Forget { .. } => {
                    let mut turn = Turn::new(now, &mut self.timers);
                    self.routing.hear(&mut turn, self.group.as_ref(), effect);
                    let more = turn.out;
                    self.carry_out(now, more);
                }
                Effect::Neighbour { address, mac } => {
                    self.outputs.push_back(Output::Neighbour { address, mac });
                }
                Effect::Own { frame } => self.outputs.push_back(Output::Own { frame }),
                Effect::Again { port, frame } => {
                    self.outputs.push_back(Output::Again { port, frame });
                }
                Effect::Unreachable { frame } => {
                    self.outputs.push_back(Output::Unreachable { frame });
                }
                Effect::AlongTree { port, tree, credits, frame } => {
                    let header = fabric::Repr::tree(tree, credits, port);
                    let header = header.and_then(|repr| repr.to_bytes().ok());
                    let whole = header.map(|header| [&header[..], &frame].concat());
                    self.outputs.extend(whole.map(|frame| Output::Send { frame }));
                }
                Effect::Tree { tree, ports } => {
                    self.outputs.push_back(Output::Tree { tree, ports });
                }
                Effect::Group(route) => self.outputs.push_back(Output::Group(route)),
                Effect::Admit { port, mac } => {
                    self.outputs.push_back(Output::Admit { port, mac });
                    let mut turn = Turn::new(now, &mut self.timers);
                    self.groups.admitted(&mut turn, port, self.group.as_ref());
                    let more = turn.out;
                    self.carry_out(now, more);
                }
                Effect::Expel { port, mac } => {
                    self.outputs.push_back(Output::Expel { port, mac });
                    let mut turn = Turn::new(now, &mut self.timers);
                    self.groups.forget(&mut turn, port, mac);
                    let more = turn.out;
                    self.carry_out(now, more);
                }
                Effect::Route(entry) => self.outputs.push_back(Output::Install(entry)),
                Effect::Tell(event) => self.tell(event),
            }
        }
    }

    /// Whether the data plane has sent a host's frame to this station as a router.
    fn has_routed(&self, frame: &[u8]) -> bool {
        let (Some(group), Some(frame)) = (&self.group, HostFrame::parse(frame)) else {
            return false;
        };
        let is_neighbour = self.routing.addresses_of(frame.destination).next().is_some();
        group.is_between_networks(&frame)
            && (is_neighbour || self.classes.is_function(frame.destination))
    }

    fn send_keyed(&mut self, now: Time, path: &[u8], exchange: u64, key: &[u8; 32], body: &Body) {
        // Both hosts are on this node: no frame is needed.
        if path == [CONTROL_HOP] {
            return self.keyed(now, exchange, &body.to_bytes(0));
        }
        let nonce = self.random.bytes();
        let message = keyed::seal_message(key, exchange, &nonce, &body.to_bytes(0));
        let frame = message.and_then(|message| control_frame(path, &message));
        self.outputs.extend(frame.map(|frame| Output::Send { frame }));
    }
}
