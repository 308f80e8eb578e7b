//! Targets that read what boxes say that want to join a group, or claim to be its first box.

use plexus_control::identity::Role;
use plexus_control::join::{Applicant, Invitation, JoinCode, Joiner, Waiting};
use plexus_control::session::Random;
use plexus_wire::Time;

use crate::session::authority;

/// [`JoinCode`]: what is read has one text, apart from spaces and case.
pub fn join_code(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(code) = text.parse::<JoinCode>() else { return };
    assert_eq!(code.to_string().parse::<JoinCode>().as_ref(), Ok(&code));
}

/// Every step of the exchange, given one message of any origin: none is taken for genuine.
pub fn join(data: &[u8]) {
    let (_, _, messages) = exchange();
    let forged = |at: usize| messages.get(at).is_none_or(|own| own != data);
    if forged(0) {
        let opened = invitation().open(Time::ZERO, data, random(2));
        assert!(opened.is_err(), "a forged first message was taken");
    }
    let (joiner, first) = joiner();
    let (asked, _) = invitation().open(Time::ZERO, &first, random(2)).expect("it is genuine");
    if forged(1) {
        assert!(joiner.answered(data).is_err(), "a forged answer was taken");
    }
    if forged(2) {
        assert!(asked.request(data).is_err(), "a forged request was taken");
    }
    let (mut waiting, mut applicant, _) = exchange();
    assert!(waiting.verdict(data).is_err() && !applicant.has_stored(data), "forged");
}

fn code() -> JoinCode {
    let address = "192.0.2.1:18773".parse().expect("an address");
    JoinCode::new([5; 10], &authority().public(), address)
}

fn random(seed: u8) -> Random {
    Random::from_seed([seed; 32])
}

fn invitation() -> Invitation {
    Invitation::new(code(), Time::from_secs(600))
}

fn joiner() -> (Joiner, Vec<u8>) {
    Joiner::new(&code(), ("n2", Role::Node), &[3; 32], random(1))
}

/// Both sides behind the request, and the messages so far.
fn exchange() -> (Waiting, Applicant, Vec<Vec<u8>>) {
    let (joiner, first) = joiner();
    let opened = invitation().open(Time::ZERO, &first, random(2));
    let (asked, answer) = opened.expect("it is genuine");
    let (waiting, request) = joiner.answered(&answer).expect("it is genuine");
    let applicant = asked.request(&request).expect("it is genuine");
    (waiting, applicant, vec![first, answer, request])
}

/// The messages of an exchange.
pub(crate) fn exchanges() -> Vec<Vec<u8>> {
    exchange().2
}

/// Codes with an address of each family.
pub(crate) fn codes() -> Vec<Vec<u8>> {
    let address = "[2001:db8::1]:1".parse().expect("an address");
    let other = JoinCode::new([9; 10], &authority().public(), address);
    [code(), other].map(|code| code.to_string().into_bytes()).into()
}
