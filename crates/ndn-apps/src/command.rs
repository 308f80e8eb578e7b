//! Commands to the forwarder to register prefixes (NFD wiki, "RibMgmt"; signed Interest of packet
//! format 0.3).

use std::time::Duration;

use plexus_ndn::face::Scope;
use plexus_ndn::link::{Kind, Received};
use plexus_wire::Time;
use plexus_wire::ndn::interest::Repr;
use plexus_wire::ndn::lp::{Headers, NackReason};
use plexus_wire::ndn::nfd::{
    ControlParameters, ControlResponse, Record, origin, route_flags, status,
};
use plexus_wire::ndn::signature::Signer;
use plexus_wire::ndn::{Data, Interest, Name, NameBuf};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::app::Output;
use crate::digest::{DigestSigner, sha256};
use crate::key::CommandKey;

/// Lifetime of the Interest; it is sent a limited number of times.
const LIFETIME: Duration = Duration::from_secs(2);
const TRIES: u32 = 3;

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The forwarder refused.
    #[error("the forwarder refuses to register {prefix}: {code} {text}{}", hint(*code))]
    Response {
        /// The prefix.
        prefix: NameBuf,
        /// Its status code.
        code: u64,
        /// Its text.
        text: String,
    },
    /// The forwarder sent a Nack.
    #[error(
        "the forwarder answers the command to register {prefix} with a Nack ({reason}): it takes \
         no commands by this face"
    )]
    Nack {
        /// The prefix.
        prefix: NameBuf,
        /// Its reason.
        reason: NackReason,
    },
    /// The forwarder did not answer.
    #[error("the forwarder does not answer the command to register {0}")]
    NoAnswer(NameBuf),
}

fn hint(code: u64) -> &'static str {
    match code {
        status::UNAUTHORIZED => " (it may want a key that it trusts: --key and --certificate)",
        _ => "",
    }
}

/// The command `rib/register`, until it is answered.
pub struct Register<'k> {
    prefix: NameBuf,
    key: Option<&'k CommandKey>,
    scope: Scope,
    /// An instant, and its wall-clock time in milliseconds since 1970.
    wall: (Time, u64),
    tried: u32,
    deadline: Time,
    name: NameBuf,
    answer: Option<Result<(), Refused>>,
    random: Pcg64Mcg,
}

impl<'k> Register<'k> {
    /// Registers `prefix` for the face on which the command arrives, signed by `key` or by a
    /// digest. `scope` is the face's; `wall` is an instant with its wall-clock time in milliseconds
    /// since 1970; `seed` has to be random, because it makes signatures unique.
    pub fn new(
        prefix: NameBuf,
        key: Option<&'k CommandKey>,
        scope: Scope,
        wall: (Time, u64),
        seed: u64,
    ) -> Register<'k> {
        Register {
            prefix,
            key,
            scope,
            wall,
            tried: 0,
            deadline: Time::ZERO,
            name: NameBuf::new(),
            answer: None,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Processes a packet; false if it is unrelated.
    pub fn handle(&mut self, received: &Received<'_>) -> bool {
        if self.answer.is_some() || self.tried == 0 {
            return false;
        }
        match received.kind {
            Kind::Data => {
                let Ok(data) = Data::new_checked(received.packet) else { return false };
                if !self.name.as_name().is_prefix_of(&data.name()) {
                    return false;
                }
                let response = ControlResponse::parse(data.content()).ok();
                let prefix = || self.prefix.clone();
                self.answer = response.and_then(|response| match response {
                    ControlResponse { code: status::OK, .. } => Some(Ok(())),
                    // Temporarily unavailable: retransmit when the Interest has expired.
                    ControlResponse { code: status::UNAVAILABLE, .. } if self.tried < TRIES => None,
                    ControlResponse { code, text, .. } => {
                        Some(Err(Refused::Response { prefix: prefix(), code, text }))
                    }
                });
                true
            }
            Kind::Nack(reason) => match Interest::new_checked(received.packet) {
                Ok(interest) if interest.name() == self.name.as_name() => {
                    self.answer = Some(Err(Refused::Nack { prefix: self.prefix.clone(), reason }));
                    true
                }
                _ => false,
            },
            Kind::Interest => false,
        }
    }

    /// Sends the command if it is due, each time with a new signature.
    pub fn poll(&mut self, now: Time, out: &mut dyn Output) {
        if self.answer.is_some() || self.deadline > now {
            return;
        }
        if self.tried == TRIES {
            self.answer = Some(Err(Refused::NoAnswer(self.prefix.clone())));
            return;
        }
        self.tried += 1;
        self.deadline = now + LIFETIME;
        let time_ms = self.wall.1 + now.since(self.wall.0).as_millis() as u64;
        let random = self.random.random();
        let packet = command(self.prefix.as_name(), self.scope, self.key, random, time_ms);
        if let Ok(interest) = Interest::new_checked(&packet) {
            self.name = interest.name().to_buf();
            out.send(&Headers::default(), &packet);
        }
    }

    /// When to poll.
    pub fn next_deadline(&self) -> Option<Time> {
        self.answer.is_none().then_some(self.deadline)
    }

    /// The result.
    pub fn answer(&self) -> Option<&Result<(), Refused>> {
        self.answer.as_ref()
    }
}

/// The signed Interest. A forwarder accepts local commands below `/localhost`, and those of
/// neighbours, if at all, below `/localhop`.
fn command(
    prefix: Name<'_>,
    scope: Scope,
    key: Option<&CommandKey>,
    random: [u8; 12],
    time_ms: u64,
) -> Vec<u8> {
    let parameters = ControlParameters {
        name: Some(prefix.to_buf()),
        origin: Some(origin::APP),
        cost: Some(0),
        flags: Some(route_flags::CHILD_INHERIT),
        ..ControlParameters::default()
    };
    let scope: &[u8] = match scope {
        Scope::Local => b"localhost",
        Scope::NonLocal => b"localhop",
    };
    let name = NameBuf::new()
        .with(scope)
        .with("nfd")
        .with("rib")
        .with("register")
        .with(parameters.to_bytes());
    let [a, b, c, d, nonce @ ..] = random;
    let repr = Repr {
        must_be_fresh: true,
        can_be_prefix: true,
        nonce: Some([a, b, c, d]),
        lifetime_ms: Some(LIFETIME.as_millis() as u64),
        ..Repr::new(name.as_name())
    };
    let by_digest = DigestSigner::command(&nonce, time_ms);
    let by_key = key.map(|key| key.command(&nonce, time_ms));
    let signer = by_key.as_ref().map_or(&by_digest as &dyn Signer, |signer| signer);
    let signed = repr.with_parameters(&[], Some(signer), sha256);
    signed.expect("signatures are no longer than is said")
}

#[cfg(test)]
mod tests {
    use plexus_wire::ndn::data;
    use plexus_wire::ndn::signature::SignatureType;

    use super::*;

    fn register() -> Register<'static> {
        let prefix = "/a/b".parse().unwrap();
        Register::new(prefix, None, Scope::Local, (Time::from_secs(5), 1_000_000), 1)
    }

    fn received(kind: Kind, packet: &[u8]) -> Received<'_> {
        Received { kind, headers: Headers::default(), packet }
    }

    fn answer(name: Name<'_>, code: u64) -> Vec<u8> {
        let response = ControlResponse { code, text: "because".into(), parameters: None };
        let content = response.to_bytes();
        let repr = data::Repr { name, meta: None, content: Some(&content) };
        repr.to_bytes(&DigestSigner::DATA).unwrap()
    }

    #[test]
    fn a_command_is_signed_as_management_demands() {
        let mut register = register();
        let mut out = Vec::new();
        register.poll(Time::from_secs(6), &mut out);
        register.poll(Time::from_secs(7), &mut out);
        register.poll(Time::from_secs(8), &mut out);
        assert_eq!(out.len(), 2, "again when the first has lived");
        let first = Interest::new_checked(&out[0].1).unwrap();
        let text = first.name().prefix(4).to_string();
        assert_eq!(text, "/localhost/nfd/rib/register");
        let parameters = ControlParameters::of_command(&first.name(), 4).unwrap();
        assert_eq!(parameters.name, Some("/a/b".parse().unwrap()));
        let digest = first.name().parameters_digest().unwrap().0;
        assert_eq!(*digest, sha256(first.parameters_portion()));
        let signature = first.signature().unwrap();
        assert!(signature.digest_is_last);
        assert_eq!(signature.value, sha256(&signature.signed.concat()));
        let info = signature.info().unwrap();
        assert_eq!(info.kind, SignatureType::DIGEST_SHA256);
        assert_eq!(info.time_ms, Some(1_001_000));
        let second = Interest::new_checked(&out[1].1).unwrap();
        let nonce = second.signature().unwrap().info().unwrap().nonce;
        assert!(info.nonce.is_some_and(|n| n.len() == 8) && info.nonce != nonce);
    }

    #[test]
    fn only_the_answer_to_the_command_counts() {
        let mut out = Vec::new();
        let mut register = register();
        register.poll(Time::from_secs(6), &mut out);
        let other =
            answer("/localhost/nfd/rib/register".parse::<NameBuf>().unwrap().as_name(), 200);
        assert!(!register.handle(&received(Kind::Data, &other)));
        let name = Interest::new_checked(&out[0].1).unwrap().name();
        assert!(register.handle(&received(Kind::Data, &answer(name, 403))));
        let told = register.answer().unwrap().as_ref().unwrap_err().to_string();
        assert!(told.starts_with("the forwarder refuses to register /a/b: 403 because"), "{told}");
        let mut register = self::register();
        register.poll(Time::from_secs(6), &mut out);
        let packet = &out[1].1;
        let name = Interest::new_checked(packet).unwrap().name();
        assert!(register.handle(&received(Kind::Data, &answer(name, 200))));
        assert_eq!(register.answer(), Some(&Ok(())));
        // A forwarder that is unavailable is asked again, a limited number of times.
        let mut register = self::register();
        for s in [6, 8, 10] {
            assert_eq!(register.answer(), None);
            assert_eq!(register.next_deadline().map(|at| at <= Time::from_secs(s)), Some(true));
            let mut out = Vec::new();
            register.poll(Time::from_secs(s), &mut out);
            let name = Interest::new_checked(&out[0].1).unwrap().name();
            assert!(register.handle(&received(Kind::Data, &answer(name, 503))));
        }
        let told = register.answer().unwrap().as_ref().unwrap_err().to_string();
        assert_eq!(told, "the forwarder refuses to register /a/b: 503 because");
        let mut register = self::register();
        for s in [6, 8, 10, 12] {
            register.poll(Time::from_secs(s), &mut out);
        }
        assert!(matches!(register.answer(), Some(Err(Refused::NoAnswer(_)))));
    }
}
