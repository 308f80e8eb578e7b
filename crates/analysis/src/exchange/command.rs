//! Commands by which containers and Mininet's hosts get their addresses.

/// Words of a command that are read.
const WORDS_MAX: usize = 16;

/// The effect of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'c> {
    /// It gives a device an address.
    Address { address: &'c str, device: Option<&'c str> },
    /// It names the default gateway.
    Gateway(&'c str),
    /// It sets a device up, as lab and simulator do anyway.
    Up,
    /// Anything else.
    Other,
}

/// Reads a command of iproute2, or of `route` from net-tools.
pub(super) fn read(line: &str) -> Command<'_> {
    let words: Vec<&str> = line.split_whitespace().take(WORDS_MAX).collect();
    let plain = words.iter().filter(|w| !matches!(**w, "-4" | "-6" | "sudo"));
    match plain.copied().collect::<Vec<_>>()[..] {
        ["ip", "a" | "addr" | "address", "a" | "add" | "replace", address, ref more @ ..] => {
            let device = more.iter().position(|w| *w == "dev").and_then(|at| more.get(at + 1));
            Command::Address { address, device: device.copied() }
        }
        ["ip", "r" | "route", "a" | "add" | "replace" | "change", "default", "via", to, ..]
        | ["route", "add", "default", "gw", to, ..] => Command::Gateway(to),
        ["ip", "l" | "link", "set", "dev", _, "up"]
        | ["ip", "l" | "link", "set", _, "up"]
        | ["ip", "l" | "link", "set", "up", _]
        | ["ip", "l" | "link", "set", "up", "dev", _] => Command::Up,
        _ => Command::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_gateways_are_found_in_commands() {
        let address = |address, device| Command::Address { address, device };
        for (line, command) in [
            ("ip address add 10.0.0.1/24 dev eth1", address("10.0.0.1/24", Some("eth1"))),
            ("ip -6 a a  fd00::1/64 nodad dev e", address("fd00::1/64", Some("e"))),
            ("ip addr replace 10.0.0.1/24", address("10.0.0.1/24", None)),
            ("ip route replace default via 10.0.0.254 dev eth1", Command::Gateway("10.0.0.254")),
            ("route add default gw 10.0.1.10 dev eth0", Command::Gateway("10.0.1.10")),
            ("ip link set eth1 up", Command::Up),
            ("ip link set dev eth1 up", Command::Up),
            ("ip link set eth1 mtu 1400 up", Command::Other),
            ("ip route add 10.0.0.0/8 via 10.0.0.254", Command::Other),
            ("ip address add", Command::Other),
            ("sh -c 'ip address add 10.0.0.1/24 dev eth1'", Command::Other),
            ("", Command::Other),
        ] {
            assert_eq!(read(line), command, "{line}");
        }
    }
}
