//! Packets between the faces, the workers' forwarders, and the management's face, which has no
//! socket.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;

use arrayvec::ArrayVec;
use plexus_ndn::dispatch::Depths;
use plexus_ndn::face::{Face, FaceId, LinkType, Scope};
use plexus_ndn::fib::{FibError, NextHop};
use plexus_ndn::forwarder::{Arrived, Output, in_one};
use plexus_ndn::link::Received;
use plexus_ndn::management::{CacheChange, Erased};
use plexus_ndn::strategy::StrategyError;
use plexus_ndn_faces::{BATCH, Down, Facts, Receiver, Table};
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::{Name, NameBuf};

use super::crew::Crew;
use super::routing::Routing;
use super::share::{Report, Share};

/// Most Interests that wait for the management's turn. More are dropped, and retransmitted by their
/// senders.
const COMMANDS_MAX: usize = 1024;

/// Interests that wait for the management's turn.
#[derive(Default)]
struct Commands {
    all: usize,
    of_neighbours: usize,
    /// How many of each face, and whether it leads to an application here.
    of: HashMap<FaceId, (usize, bool)>,
}

impl Commands {
    /// Whether one more may wait: a face has no more than others may still send, and neighbours
    /// leave half to this box's applications.
    fn admit(&mut self, from: FaceId, is_here: bool) -> bool {
        let free = COMMANDS_MAX - self.all;
        let free = match is_here {
            true => free,
            false => free.min(COMMANDS_MAX / 2 - self.of_neighbours),
        };
        let has = self.of.get(&from).map_or(0, |(count, _)| *count);
        if has >= free {
            return false;
        }
        self.of.insert(from, (has + 1, is_here));
        self.all += 1;
        self.of_neighbours += usize::from(!is_here);
        true
    }

    /// One of a face waits no longer.
    fn forget(&mut self, from: FaceId) {
        let Entry::Occupied(mut own) = self.of.entry(from) else { return };
        let (count, is_here) = own.get_mut();
        *count -= 1;
        self.all -= 1;
        self.of_neighbours -= usize::from(!*is_here);
        if *count == 0 {
            own.remove();
        }
    }
}

/// News for the management. It gets them after the faces' turn, because it may open and close
/// faces.
pub(super) enum Mail {
    /// An Interest for the management, and the face that it came from.
    Interest(FaceId, Box<[u8]>),
    /// A face was opened.
    Up(Box<Facts>),
    /// A face has lost its connection, or has it again.
    Link(FaceId, bool),
    /// A face was closed, for this reason.
    Down(FaceId, String),
}

impl Mail {
    fn is_interest(&self) -> bool {
        matches!(self, Mail::Interest(..))
    }
}

/// The first worker's share of the forwarder, the other workers, and the way to the faces.
pub(super) struct Plane {
    share: Share,
    crew: Crew,
    /// The tables of all workers.
    pub(super) routing: Routing,
    /// The management's face.
    pub(super) management: FaceId,
    mail: Vec<Mail>,
    commands: Commands,
    /// Packets sent since the last turn leave with the next one.
    owing: bool,
    gathered: Vec<u8>,
}

impl Plane {
    pub(super) fn new(share: Share, crew: Crew, routing: Routing, management: FaceId) -> Plane {
        let mut plane = Plane {
            share,
            crew,
            routing,
            management,
            mail: Vec::new(),
            commands: Commands::default(),
            owing: false,
            gathered: Vec::new(),
        };
        let face = Face { local_fields: true, pit_tokens: false, ..Face::APPLICATION };
        plane.add_face(management, face);
        plane
    }

    /// The oldest news for the management, up to so many Interests.
    pub(super) fn take_mail(&mut self, interests: usize) -> Vec<Mail> {
        let of_interests = self.mail.iter().enumerate().filter(|(_, mail)| mail.is_interest());
        let rest = of_interests.map(|(at, _)| at).nth(interests).unwrap_or(self.mail.len());
        let rest = self.mail.split_off(rest);
        let taken = mem::replace(&mut self.mail, rest);
        for mail in &taken {
            if let Mail::Interest(from, _) = mail {
                self.commands.forget(*from);
            }
        }
        taken
    }

    /// Whether there are news for the management.
    pub(super) fn has_mail(&self) -> bool {
        !self.mail.is_empty()
    }

    /// Whether a packet was sent since the last call.
    pub(super) fn take_owing(&mut self) -> bool {
        mem::take(&mut self.owing)
    }

    /// A packet from the management. The content store does not keep it: a repeated command would
    /// be answered from there, as if it had been accepted again.
    pub(super) fn answer(&mut self, now: Time, packet: &[u8], table: &mut Table) {
        let headers = Headers { no_cache: true, ..Headers::default() };
        self.forward(now, &[Arrived { face: self.management, headers, packet }], table);
    }

    /// Sets whether a face's applications may choose the next hop of their Interests, and are told
    /// the incoming face of Data.
    pub(super) fn set_local_fields(&mut self, facts: &Facts, local_fields: bool) {
        self.add_face(facts.id, Face { local_fields, ..face(facts) });
    }

    fn add_face(&mut self, id: FaceId, face: Face) {
        self.share.add_face(id, face);
        self.crew.add_face(id, face);
    }

    /// Forwards a batch: here, or by the workers of its names.
    fn forward(&mut self, now: Time, batch: &[Arrived<'_>], table: &mut Table) {
        if self.crew.is_empty() {
            return self.forward_here(now, batch, table);
        }
        let mut own = ArrayVec::<Arrived<'_>, BATCH>::new();
        for arrived in batch {
            let Arrived { face, headers, packet } = arrived;
            let link = self.share.forwarder.face(*face).map_or(LinkType::PointToPoint, |f| f.link);
            // The first worker to get the packet counts it; the others get copies.
            let mut is_copy = false;
            for worker in self.crew.workers(now, link, headers, packet) {
                is_copy |= match worker {
                    0 => {
                        own.push(*arrived);
                        self.share.count_copy(is_copy, arrived);
                        true
                    }
                    other => self.crew.send(other, arrived, is_copy),
                };
            }
        }
        self.forward_here(now, &own, table);
    }

    fn forward_here(&mut self, now: Time, batch: &[Arrived<'_>], table: &mut Table) {
        let (share, _, mut out) = self.split(now, table);
        match batch {
            // There is nothing to look ahead to.
            [Arrived { face, headers, packet }] => {
                share.forwarder.receive(now, *face, headers, packet, &mut out);
            }
            batch => share.forwarder.receive_batch(now, batch, &mut out),
        }
    }

    /// Sends the packets that came from the other workers, or keeps them for the management.
    pub(super) fn deliver(&mut self, now: Time, table: &mut Table) {
        let (_, crew, mut out) = self.split(now, table);
        crew.deliver(&mut out);
    }

    /// Does what is due, and gives the disks their turn.
    pub(super) fn turn(&mut self, now: Time, table: &mut Table) {
        let (share, _, mut out) = self.split(now, table);
        share.turn(now, &mut out);
    }

    /// Ends all workers, after they have written the rest to the disks.
    pub(super) fn close(mut self, now: Time, table: &mut Table) {
        self.crew.stop();
        let (share, _, mut out) = self.split(now, table);
        share.close(now, &mut out);
    }

    /// The first worker's share.
    pub(super) fn share(&self) -> &Share {
        &self.share
    }

    /// How many components of a name decide its worker.
    pub(super) fn depths(&self) -> &Depths {
        self.crew.depths()
    }

    /// The other workers.
    pub(super) fn crew(&mut self) -> &mut Crew {
        &mut self.crew
    }

    /// Each worker's report, with each face's counters if `with_faces`.
    pub(super) fn reports(&self, with_faces: bool) -> Vec<Report> {
        let mut all = vec![self.share.report(with_faces)];
        all.extend(self.crew.reports(with_faces));
        all
    }

    /// Changes every worker's content store.
    pub(super) fn set_cache(&mut self, change: CacheChange) {
        self.share.set_cache(change);
        self.crew.set_cache(change);
    }

    /// Sets how many chunks every worker reads from disks together.
    pub(super) fn set_prefetch(&mut self, chunks: u64) {
        self.share.set_prefetch(chunks);
        self.crew.set_prefetch(chunks);
    }

    /// Erases up to `count` packets under a prefix from the content stores.
    pub(super) fn erase(&mut self, prefix: Name<'_>, count: u64) -> Erased {
        let here = self.share.erase(prefix, count);
        let others = self.crew.erase(prefix, count - here.count.min(count));
        Erased { count: here.count + others.count, more: here.more || others.more }
    }

    /// Sets the next hops of a prefix. Without any it leaves the FIB.
    pub(super) fn set_next_hops(
        &mut self,
        prefix: Name<'_>,
        hops: &[NextHop],
    ) -> Result<(), FibError> {
        self.routing.set_next_hops(prefix, hops)
    }

    /// Sets the strategy of a prefix by its full name; `None`: that of the next shorter prefix.
    pub(super) fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Option<&NameBuf>,
    ) -> Result<(), StrategyError> {
        self.routing.set_strategy(prefix, strategy)?;
        self.share.forwarder.refresh(self.routing.published());
        Ok(())
    }

    /// Takes other regions.
    pub(super) fn set_regions(&mut self, regions: &[NameBuf]) -> Result<(), StrategyError> {
        self.routing.set_regions(regions)?;
        self.share.forwarder.refresh(self.routing.published());
        Ok(())
    }

    /// The forwarders, and where their packets go.
    fn split<'a>(
        &'a mut self,
        now: Time,
        table: &'a mut Table,
    ) -> (&'a mut Share, &'a mut Crew, Out<'a>) {
        let Plane { share, crew, management, mail, commands, owing, gathered, .. } = self;
        let management = *management;
        (share, crew, Out { now, table, management, mail, commands, owing, gathered })
    }
}

/// A face as the forwarder knows it. Applications do not get our PIT tokens: tokens make them no
/// faster, and some do not understand them.
fn face(facts: &Facts) -> Face {
    Face {
        scope: facts.scope,
        link: facts.link_type,
        local_fields: false,
        pit_tokens: facts.scope == Scope::NonLocal,
    }
}

impl Receiver for Plane {
    fn packets(&mut self, now: Time, batch: &[(FaceId, Received<'_>)], out: &mut Table) {
        let arrived = batch.iter().map(|(face, Received { headers, packet, .. })| Arrived {
            face: *face,
            headers: *headers,
            packet,
        });
        let arrived: ArrayVec<Arrived<'_>, BATCH> = arrived.collect();
        self.forward(now, &arrived, out);
    }

    fn face_up(&mut self, _now: Time, facts: &Facts) {
        self.add_face(facts.id, face(facts));
        self.mail.push(Mail::Up(Box::new(facts.clone())));
    }

    fn face_down(&mut self, _now: Time, id: FaceId, why: &Down) {
        self.share.remove_face(id);
        self.crew.remove_face(id);
        self.mail.push(Mail::Down(id, why.to_string()));
    }

    fn face_link(&mut self, _now: Time, id: FaceId, is_up: bool) {
        self.mail.push(Mail::Link(id, is_up));
    }

    fn answered(&mut self, faces: &[FaceId]) -> Vec<FaceId> {
        let mut answered = self.share.answered(faces);
        answered.extend(self.crew.answered(faces));
        answered
    }
}

/// Where the forwarder's packets go.
struct Out<'a> {
    now: Time,
    table: &'a mut Table,
    management: FaceId,
    mail: &'a mut Vec<Mail>,
    commands: &'a mut Commands,
    owing: &'a mut bool,
    gathered: &'a mut Vec<u8>,
}

impl Output for Out<'_> {
    fn send<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]> + Clone,
    ) {
        let whole = in_one(packet, self.gathered);
        if face != self.management {
            *self.owing = true;
            self.table.send(self.now, face, headers, whole);
        } else if let Some(from) = headers.incoming_face.and_then(FaceId::from_number)
            && headers.nack.is_none()
        {
            let facts = self.table.facts_of(from);
            let is_here = facts.is_some_and(|facts| facts.scope == Scope::Local);
            if !self.commands.admit(from, is_here) {
                return;
            }
            self.mail.push(Mail::Interest(from, whole.into()));
        }
    }
}

#[cfg(test)]
mod tests;
