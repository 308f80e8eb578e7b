//! How much of a network is simulated: `fidelity = "…"` of a topology file. A lab takes no notice.

use plexus_config::document::Section;
use plexus_config::words;

/// What a simulator does with a frame that finds its cable taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fidelity {
    /// It waits: every port has its queues, and sends one frame after the other.
    #[default]
    Full,
    /// It leaves at once. A frame takes the time of its own bits and of the way, or arrives with
    /// the one before it if that takes longer: order on a cable is kept. Nothing else happens for
    /// it but its arrival. That is for control messages, as far as they fill no cable; there is no
    /// traffic.
    Control,
}

words!(Fidelity { Full = "full", Control = "control" });

impl Fidelity {
    /// Reads `fidelity` of the file's root.
    pub(crate) fn read(root: &Section<'_>) -> Fidelity {
        root.choice_or("fidelity", &Fidelity::NAMES, Fidelity::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    fn parse(more: &str) -> Result<Topology, String> {
        let text = format!("name = \"t\"\n{more}\n[[node]]\nname = \"n1\"\n");
        Topology::parse("t.toml", &text).map_err(|e| e.to_string())
    }

    #[test]
    fn it_is_read_and_written_back() {
        assert_eq!(parse("").unwrap().fidelity, Fidelity::Full);
        for (name, fidelity) in Fidelity::NAMES {
            let topology = parse(&format!("fidelity = \"{name}\"")).unwrap();
            assert_eq!((topology.fidelity, fidelity.name()), (fidelity, name));
            assert_eq!(Topology::parse("t.toml", &topology.to_toml()).unwrap(), topology);
            assert_eq!(topology.as_spanning_tree().fidelity, fidelity);
        }
        let told = parse("fidelity = \"controll\"").unwrap_err();
        assert!(told.starts_with("t.toml:2:12") && told.contains("\"control\""), "{told}");
    }
}
