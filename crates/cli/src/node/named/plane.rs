//! Packets between faces and forwarder, and to the management's face, which is no socket.

use std::mem;

use plexus_faces::{Down, Facts, Receiver, Table};
use plexus_io::disk::AlignedBuffer;
use plexus_ndn::face::{Face, FaceId, Packets, Scope};
use plexus_ndn::fib::{FibError, NextHop};
use plexus_ndn::forwarder::{Forwarder, Output};
use plexus_ndn::link::{Kind, Received};
use plexus_ndn::strategy::StrategyError;
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::{Name, NameBuf};

use super::routing::Routing;
use super::status;

/// Interests for the management that wait for its turn, at most: more are dropped, and asked again.
const COMMANDS_MAX: usize = 1024;

/// What the management is told once the faces are at rest, for it may make and end some.
pub(super) enum Mail {
    /// An Interest for it, and the face that it came from.
    Interest(FaceId, Box<[u8]>),
    /// A face has come.
    Up(Box<Facts>),
    /// A face has gone.
    Down(FaceId),
}

/// The forwarder and its way to the faces.
pub(super) struct Plane {
    pub(super) forwarder: Forwarder<AlignedBuffer>,
    /// What it goes by.
    pub(super) routing: Routing,
    /// The management's face.
    pub(super) management: FaceId,
    mail: Vec<Mail>,
    /// What faces that have gone had received and sent.
    gone: (Packets, Packets),
    commands: usize,
    /// Something was sent since the last turn, and leaves with the next.
    owing: bool,
    gathered: Vec<u8>,
}

impl Plane {
    pub(super) fn new(
        mut forwarder: Forwarder<AlignedBuffer>,
        routing: Routing,
        management: FaceId,
    ) -> Plane {
        let face = Face { local_fields: true, pit_tokens: false, ..Face::APPLICATION };
        forwarder.add_face(management, face);
        Plane {
            forwarder,
            routing,
            management,
            mail: Vec::new(),
            gone: Default::default(),
            commands: 0,
            owing: false,
            gathered: Vec::new(),
        }
    }

    /// What has come for the management since the last time.
    pub(super) fn take_mail(&mut self) -> Vec<Mail> {
        self.commands = 0;
        mem::take(&mut self.mail)
    }

    /// Whether something has come for it.
    pub(super) fn has_mail(&self) -> bool {
        !self.mail.is_empty()
    }

    /// Whether something was sent since it was asked last.
    pub(super) fn take_owing(&mut self) -> bool {
        mem::take(&mut self.owing)
    }

    /// A packet from the management.
    pub(super) fn answer(&mut self, now: Time, packet: &[u8], table: &mut Table) {
        let from = self.management;
        self.forward(now, from, &Headers::default(), packet, table);
    }

    /// A face's applications may say where their Interests go, and are told where Data comes from.
    pub(super) fn set_local_fields(&mut self, facts: &Facts, local_fields: bool) {
        self.forwarder.add_face(facts.id, Face { local_fields, ..face(facts) });
    }

    fn forward(
        &mut self,
        now: Time,
        from: FaceId,
        headers: &Headers<'_>,
        packet: &[u8],
        table: &mut Table,
    ) {
        let (forwarder, mut out) = self.split(now, table);
        forwarder.receive(now, from, headers, packet, &mut out);
    }

    /// What faces that have gone had received, and sent.
    pub(super) fn gone(&self) -> (Packets, Packets) {
        self.gone
    }

    /// Gives a prefix other next hops; none: it leaves the FIB.
    pub(super) fn set_next_hops(
        &mut self,
        prefix: Name<'_>,
        hops: &[NextHop],
    ) -> Result<(), FibError> {
        self.routing.set_next_hops(prefix, hops)
    }

    /// Gives a prefix another strategy, by its full name; `None`: the next shorter prefix's.
    pub(super) fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<(), StrategyError> {
        self.forwarder.set_plan(self.routing.set_strategy(prefix, strategy)?);
        Ok(())
    }

    /// Takes other regions.
    pub(super) fn set_regions(&mut self, regions: &[NameBuf]) -> Result<(), StrategyError> {
        self.forwarder.set_plan(self.routing.set_regions(regions)?);
        Ok(())
    }

    /// The forwarder, and where its packets go.
    pub(super) fn split<'a>(
        &'a mut self,
        now: Time,
        table: &'a mut Table,
    ) -> (&'a mut Forwarder<AlignedBuffer>, Out<'a>) {
        let Plane { forwarder, management, mail, commands, owing, gathered, .. } = self;
        (forwarder, Out { now, table, management: *management, mail, commands, owing, gathered })
    }
}

/// What the forwarder has to know of a face. Applications do not get our PIT tokens: they are no
/// faster for it, and some do not know them.
fn face(facts: &Facts) -> Face {
    Face {
        scope: facts.scope,
        link: facts.link_type,
        local_fields: false,
        pit_tokens: facts.scope == Scope::NonLocal,
    }
}

impl Receiver for Plane {
    fn packet(&mut self, now: Time, id: FaceId, received: &Received<'_>, out: &mut Table) {
        let nack = match received.kind {
            Kind::Nack(reason) => Some(reason),
            Kind::Interest | Kind::Data => None,
        };
        let headers = Headers { nack, ..received.headers };
        self.forward(now, id, &headers, received.packet, out);
    }

    fn face_up(&mut self, _now: Time, facts: &Facts) {
        self.forwarder.add_face(facts.id, face(facts));
        self.mail.push(Mail::Up(Box::new(facts.clone())));
    }

    fn face_down(&mut self, _now: Time, id: FaceId, _why: &Down) {
        if let Some(counted) = self.forwarder.remove_face(id) {
            status::add(&mut self.gone.0, &counted.received);
            status::add(&mut self.gone.1, &counted.sent);
        }
        self.mail.push(Mail::Down(id));
    }
}

/// Where the forwarder's packets go.
pub(super) struct Out<'a> {
    now: Time,
    table: &'a mut Table,
    management: FaceId,
    mail: &'a mut Vec<Mail>,
    commands: &'a mut usize,
    owing: &'a mut bool,
    gathered: &'a mut Vec<u8>,
}

impl Output for Out<'_> {
    fn send<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        mut packet: impl Iterator<Item = &'p [u8]> + Clone,
    ) {
        let first = packet.next().unwrap_or_default();
        let whole = match packet.next() {
            None => first,
            Some(second) => {
                self.gathered.clear();
                self.gathered.extend_from_slice(first);
                self.gathered.extend_from_slice(second);
                packet.for_each(|piece| self.gathered.extend_from_slice(piece));
                &self.gathered[..]
            }
        };
        if face != self.management {
            *self.owing = true;
            self.table.send(self.now, face, headers, whole);
        } else if let Some(from) = headers.incoming_face.and_then(FaceId::from_number)
            && headers.nack.is_none()
            && *self.commands < COMMANDS_MAX
        {
            *self.commands += 1;
            self.mail.push(Mail::Interest(from, whole.into()));
        }
    }
}
