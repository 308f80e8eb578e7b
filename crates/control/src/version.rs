//! Versions of the protocol (SPEC.md, §6, "Versions"): each side of a routed session tells the
//! highest that it speaks, and both speak the lower. So a group is upgraded box by box.

use crate::session::Facts;

/// The highest version that this program speaks.
pub const VERSION: u8 = 2;
/// The first one, whose sides tell none.
pub const FIRST: u8 = 1;
/// The first one in which messages are short (SPEC.md, §5.1).
pub const SHORT: u8 = 2;
/// The first one in which nodes have sessions with controllers that stand by (SPEC.md, §20).
pub const STANDBYS: u8 = 2;
/// Bytes of a node's incarnation.
const INCARNATION_LEN: usize = 8;

/// The facts of a node, for its controller.
pub(crate) fn of_node(incarnation: [u8; INCARNATION_LEN], version: u8) -> Facts {
    let mut bytes = incarnation.to_vec();
    bytes.push(version);
    Facts::new(&bytes).unwrap_or_default()
}

/// The facts of a controller, for a node.
pub(crate) fn of_controller(version: u8) -> Facts {
    Facts::new(&[version]).unwrap_or_default()
}

/// The part of a node's facts that is another after each start.
pub(crate) fn incarnation(facts: &Facts) -> Facts {
    let bytes = facts.as_bytes();
    Facts::new(&bytes[..bytes.len().min(INCARNATION_LEN)]).unwrap_or_default()
}

/// The version that the session with a node is in, for a side that speaks `own`.
pub(crate) fn with_node(own: u8, facts: &Facts) -> u8 {
    common(own, facts.as_bytes().get(INCARNATION_LEN))
}

/// The version that the session with a controller is in, for a side that speaks `own`.
pub(crate) fn with_controller(own: u8, facts: &Facts) -> u8 {
    common(own, facts.as_bytes().first())
}

fn common(own: u8, told: Option<&u8>) -> u8 {
    told.map_or(FIRST, |told| own.min(*told)).max(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_speak_the_lower_version_and_later_fields_are_ignored() {
        for own in 1..4 {
            for other in 1..4 {
                let node = of_node([7; 8], other);
                assert_eq!(with_node(own, &node), own.min(other));
                assert_eq!(with_controller(own, &of_controller(other)), own.min(other));
                let longer = Facts::new(&[node.as_bytes(), &[9, 9]].concat()).unwrap();
                assert_eq!(with_node(own, &longer), own.min(other));
                assert_eq!(incarnation(&longer).as_bytes(), [7; 8]);
            }
            // The first version told nothing, and zero is none.
            for facts in [&[][..], &[7; 8], &[7, 7, 7, 7, 7, 7, 7, 7, 0]] {
                assert_eq!(with_node(own, &Facts::new(facts).unwrap()), FIRST);
            }
            assert_eq!(with_controller(own, &Facts::default()), FIRST);
        }
        assert_eq!(incarnation(&Facts::default()), Facts::default());
    }
}
