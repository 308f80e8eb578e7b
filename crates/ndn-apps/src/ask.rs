//! One Interest, retransmitted until it is answered.

use std::time::Duration;

use plexus_ndn::link::{Kind, Received};
use plexus_wire::Time;
use plexus_wire::ndn::interest::Repr;
use plexus_wire::ndn::lp::{Headers, NackReason};
use plexus_wire::ndn::{Data, Interest, NameBuf, data::ContentType};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::app::Output;
use crate::digest::{Integrity, integrity};
use crate::failure::Failure;

/// Delay before retransmission after a Nack for congestion.
const CALM: Duration = Duration::from_millis(100);

/// The Interest and its retransmission settings.
#[derive(Clone, Debug)]
pub struct Question {
    /// The name.
    pub name: NameBuf,
    /// Data with a longer name matches too.
    pub can_be_prefix: bool,
    /// A cache may answer only with fresh Data.
    pub must_be_fresh: bool,
    /// How long each Interest lives.
    pub lifetime: Duration,
    /// Most transmissions; each follows when the previous one has expired.
    pub tries: u32,
}

/// A pending Interest, and its answer.
pub struct Ask {
    question: Question,
    tried: u32,
    deadline: Time,
    answer: Option<Result<Box<[u8]>, Failure>>,
    random: Pcg64Mcg,
}

impl Ask {
    /// Sends as soon as it is polled.
    pub fn new(question: Question, seed: u64) -> Ask {
        let random = Pcg64Mcg::seed_from_u64(seed);
        Ask { question, tried: 0, deadline: Time::ZERO, answer: None, random }
    }

    /// The requested name.
    pub fn name(&self) -> &NameBuf {
        &self.question.name
    }

    /// Processes a packet; false if it is unrelated.
    pub fn handle(&mut self, now: Time, received: &Received<'_>) -> bool {
        if self.answer.is_some() || self.tried == 0 {
            return false;
        }
        let name = self.question.name.as_name();
        match received.kind {
            Kind::Data => {
                let Ok(data) = Data::new_checked(received.packet) else { return false };
                let fits = match self.question.can_be_prefix {
                    true => name.is_prefix_of(&data.name()),
                    false => name == data.name(),
                };
                if !fits {
                    return false;
                }
                self.answer = match (integrity(&data), data.content_type()) {
                    // Another copy may be intact.
                    (Integrity::Damaged, _) => {
                        self.deadline = now + CALM;
                        None
                    }
                    (_, ContentType::NACK) => Some(Err(Failure::Absent(name.to_buf()))),
                    _ => Some(Ok(data.as_bytes().into())),
                };
            }
            Kind::Nack(reason) => {
                match Interest::new_checked(received.packet) {
                    Ok(interest) if interest.name() == name => {}
                    _ => return false,
                }
                match reason {
                    NackReason::NO_ROUTE => {
                        self.answer = Some(Err(Failure::NoRoute(name.to_buf())));
                    }
                    // Retry with another nonce.
                    NackReason::DUPLICATE => self.deadline = now,
                    _ => self.deadline = now + CALM,
                }
            }
            Kind::Interest => return false,
        }
        true
    }

    /// Sends the Interest if it is due.
    pub fn poll(&mut self, now: Time, out: &mut dyn Output) {
        if self.answer.is_some() || self.deadline > now {
            return;
        }
        let Question { name, lifetime, tries, .. } = &self.question;
        if self.tried == *tries {
            self.answer = Some(Err(Failure::NoAnswer { name: name.clone(), tries: *tries }));
            return;
        }
        self.tried += 1;
        self.deadline = now + *lifetime;
        let repr = Repr {
            can_be_prefix: self.question.can_be_prefix,
            must_be_fresh: self.question.must_be_fresh,
            nonce: Some(self.random.random()),
            lifetime_ms: Some(lifetime.as_millis() as u64),
            ..Repr::new(name.as_name())
        };
        send_interest(&repr, out);
    }

    /// When to poll; `None`: there is an answer.
    pub fn next_deadline(&self) -> Option<Time> {
        self.answer.is_none().then_some(self.deadline)
    }

    /// The Data packet, or the failure; once.
    pub fn take_answer(&mut self) -> Option<Result<Box<[u8]>, Failure>> {
        self.answer.take()
    }
}

pub(crate) fn send_interest(repr: &Repr<'_>, out: &mut dyn Output) {
    if let Ok(packet) = repr.to_bytes() {
        out.send(&Headers::default(), &packet);
    }
}
