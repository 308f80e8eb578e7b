use std::time::Duration;

use plexus_wire::Time;

use super::*;
use crate::identity::{Authority, Identity, Role};
use crate::session::Random;

const NOW: Time = Time::ZERO;
const KEY: [u8; 32] = [3; 32];

fn authority(of: u8) -> Authority {
    Authority::new([7; 16], &[of; 32])
}

fn code(secret: u8) -> JoinCode {
    let address = "192.0.2.1:18774".parse().unwrap();
    JoinCode::new([secret; 10], &authority(1).public(), address)
}

fn invitation() -> Invitation {
    Invitation::new(code(5), NOW + Duration::from_secs(600))
}

fn random(seed: u8) -> Random {
    Random::from_seed([seed; 32])
}

/// Both sides, up to the request.
fn asked(name: &str) -> (Waiting, Applicant) {
    let (joiner, first) = Joiner::new(&code(5), (name, Role::Node), &KEY, random(1));
    let (asked, answer) = invitation().open(NOW, &first, random(2)).unwrap();
    let (waiting, request) = joiner.answered(&answer).unwrap();
    (waiting, asked.request(&request).unwrap())
}

/// The new box's verdict on a credential that this authority issues.
fn verdict(
    issuer: &Authority,
    name: &str,
    role: Role,
    key: [u8; 32],
) -> Result<Identity, JoinError> {
    let (mut waiting, mut applicant) = asked("n2");
    let credential = issuer.issue(2, name, role, &key).unwrap();
    waiting.verdict(&applicant.grant(&credential, &issuer.public()))
}

#[test]
fn a_box_with_the_code_gets_an_identity_for_its_own_key() {
    let (mut waiting, mut applicant) = asked("n2");
    let own = crate::identity::KeyPair::generate(&KEY).public;
    assert_eq!((applicant.name.as_str(), applicant.key), ("n2", own));
    let credential = authority(1).issue(2, "n2", Role::Node, &own).unwrap();
    let granted = applicant.grant(&credential, &authority(1).public());
    let identity = waiting.verdict(&granted).unwrap();
    assert_eq!(identity.credential(), &credential);
    assert!(applicant.has_stored(&waiting.stored()));
}

#[test]
fn a_refusal_comes_with_its_reason_and_nothing_that_a_terminal_obeys() {
    let (mut waiting, mut applicant) = asked("n2");
    let refused = applicant.refuse("the name\u{1b}[2J is taken");
    let told = waiting.verdict(&refused).unwrap_err().to_string();
    assert_eq!(told, "the first box has refused: the name [2J is taken");
    // A long reason is cut, and not in the middle of a character.
    let (mut waiting, mut applicant) = asked("n2");
    let refused = applicant.refuse(&"é".repeat(400));
    assert!(refused.len() <= MESSAGE_LEN_MAX);
    assert!(matches!(waiting.verdict(&refused), Err(JoinError::Refused(why)) if why.len() == 300));
}

#[test]
fn who_knows_the_code_alone_can_not_speak_for_the_authority() {
    let own = crate::identity::KeyPair::generate(&KEY).public;
    let forged = verdict(&authority(9), "n2", Role::Node, own);
    assert_eq!(forged.unwrap_err(), JoinError::OtherAuthority);
    // Nor is another box's credential of the right group accepted, or another role's.
    for (name, role, key) in
        [("n3", Role::Node, own), ("n2", Role::Controller, own), ("n2", Role::Node, [8; 32])]
    {
        let other = verdict(&authority(1), name, role, key);
        assert_eq!(other.unwrap_err(), JoinError::OtherBox, "{name} {role}");
    }
    assert!(verdict(&authority(1), "n2", Role::Node, own).is_ok());
}

#[test]
fn guesses_are_counted_and_close_the_invitation() {
    let mut invitation = invitation();
    let (_, wrong) = Joiner::new(&code(6), ("n2", Role::Node), &KEY, random(1));
    let (_, right) = Joiner::new(&code(5), ("n2", Role::Node), &KEY, random(1));
    for _ in 0..WRONG_MAX {
        assert!(invitation.open(NOW, &right, random(2)).is_ok());
        // Other protocols are no guesses.
        for other in [&b""[..], b"GET / HTTP/1.1\r\n", &[2]] {
            let refused = invitation.open(NOW, other, random(2)).err().unwrap();
            assert!(matches!(refused, JoinError::Version | JoinError::Malformed), "{refused}");
        }
        let refused = invitation.open(NOW, &wrong, random(2)).err();
        assert_eq!(refused, Some(JoinError::WrongCode));
    }
    assert_eq!(invitation.open(NOW, &right, random(2)).err(), Some(JoinError::Guessed));
}

#[test]
fn a_code_is_good_for_one_box_and_for_some_time() {
    let (_, first) = Joiner::new(&code(5), ("n2", Role::Node), &KEY, random(1));
    let mut invitation = invitation();
    let late = invitation.until();
    assert_eq!(invitation.open(late, &first, random(2)).err(), Some(JoinError::Expired));
    assert!(invitation.open(NOW, &first, random(2)).is_ok());
    invitation.use_up();
    assert_eq!(invitation.open(NOW, &first, random(2)).err(), Some(JoinError::Used));
}

#[test]
fn altered_and_replayed_messages_lead_nowhere() {
    let flipped = |message: &[u8], at: usize| {
        let mut message = message.to_vec();
        message[at] ^= 0x40;
        message
    };
    let (_, first) = Joiner::new(&code(5), ("n2", Role::Node), &KEY, random(1));
    for at in 0..first.len() {
        assert!(invitation().open(NOW, &flipped(&first, at), random(2)).is_err(), "{at}");
    }
    let begin = || {
        let (joiner, first) = Joiner::new(&code(5), ("n2", Role::Node), &KEY, random(1));
        let (asked, answer) = invitation().open(NOW, &first, random(2)).unwrap();
        (joiner, asked, answer)
    };
    let (joiner, _, answer) = begin();
    let request = joiner.answered(&answer).unwrap().1;
    for at in 0..answer.len() {
        assert!(begin().0.answered(&flipped(&answer, at)).is_err(), "{at}");
    }
    for at in 0..request.len() {
        assert!(begin().1.request(&flipped(&request, at)).is_err(), "{at}");
    }
    for len in 0..request.len() {
        assert!(begin().1.request(&request[..len]).is_err(), "{len}");
    }
    // A recorded exchange does not fit the next answer, which has another ephemeral key.
    let (again, _) = invitation().open(NOW, &first, random(4)).unwrap();
    assert!(again.request(&request).is_err());
}

#[test]
fn a_name_that_no_box_can_have_is_refused() {
    for name in ["", "a/b", "../n2", "\u{1b}[2J", "-n"] {
        let (joiner, first) = Joiner::new(&code(5), (name, Role::Node), &KEY, random(1));
        let (asked, answer) = invitation().open(NOW, &first, random(2)).unwrap();
        let (_, request) = joiner.answered(&answer).unwrap();
        assert_eq!(asked.request(&request).err(), Some(JoinError::Malformed), "{name:?}");
    }
}
