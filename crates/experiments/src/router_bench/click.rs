//! The Click modular router, of user space, as a third program that forwards. None of it is ours
//! but the configuration: the elements of the IP router in Click's paper (Kohler et al., *The
//! Click Modular Router*, 2000, §4), so that what Linux and Plexus do to a packet is done here too.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::axon_vm::command;
use super::{Bench, mac};

/// Names the program, where it is not the `click` in the PATH.
const VARIABLE: &str = "CLICK";
/// Click ends by itself after so many seconds: nobody may be left to end it.
const LIFE_S: u32 = 3600;
/// The number of the first sink's device in the configuration; the sources' are 1 and 2.
const SINKS: usize = 3;

/// A Click that can be run.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Click {
    program: PathBuf,
    /// What it calls itself.
    pub(in super::super) version: String,
}

impl Click {
    /// The one that `CLICK` in the environment names, or a `click` in the PATH; none where that is
    /// missing or another program.
    ///
    /// # Errors
    /// Where `CLICK` names something else.
    pub(in super::super) fn installed() -> Result<Option<Click>, String> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        match named {
            None => Ok(Click::at("click".as_ref()).ok()),
            Some(name) => Click::at(&name).map(Some).map_err(|e| format!("{VARIABLE}: {e}")),
        }
    }

    fn at(program: &OsStr) -> Result<Click, String> {
        let name = program.display();
        let mut ask = Command::new(program);
        let answer = ask.arg("--version").stdin(Stdio::null()).output();
        let answer = answer.map_err(|e| format!("{name}: {e}"))?;
        let said = String::from_utf8_lossy(&answer.stdout);
        let version = version(&said).ok_or(format!("{name} is not the Click modular router"))?;
        Ok(Click { program: program.into(), version: version.into() })
    }
}

/// The version, of what the modular router alone says to `--version`. The `click` of Debian's
/// packages, which installs applications on phones, knows no such option.
fn version(said: &str) -> Option<&str> {
    let version = said.lines().next()?.strip_prefix("click (Click) ")?.trim();
    (!version.is_empty()).then_some(version)
}

impl Bench {
    pub(super) fn click(&mut self, click: &Click, routes: &[(Ipv4Addr, u8)]) -> Result<(), String> {
        // The kernel sees the packets as well: by these addresses they are for another machine, and
        // it lets go of them at once.
        for kind in ["s", "d"] {
            for i in 0..2 {
                let other = mac(kind, i + 2);
                command(&self.router, &format!("ip link set r{kind}{i} address {other}"))?;
            }
        }
        let file = self.dir.write("r.click", configuration(routes).as_bytes())?;
        let socket = self.dir.join("r.sock");
        let mut router = Command::new(&click.program);
        router.arg("-f").arg(file).arg("-u").arg(&socket);
        // It greets when it has read its table and runs.
        self.start(router, || greets(&socket))
    }
}

fn greets(socket: &Path) -> bool {
    let ask = || -> std::io::Result<String> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    ask().is_ok_and(|line| line.starts_with("Click::ControlSocket/"))
}

/// What it is to do: routes, and four devices, each with a part of the network behind it.
fn configuration(routes: &[(Ipv4Addr, u8)]) -> String {
    // Where an address leads: 0 is the router itself, then the devices. DirectIPLookup would
    // need fewer accesses, but refuses the Internet's table in the order that it has here.
    let mut text = String::with_capacity(routes.len() * 40);
    text.push_str("table :: RadixIPLookup(\n");
    let mut ports = String::new();
    for (kind, network, first) in [("s", 0, 1), ("d", 1, SINKS)] {
        for i in 0..2 {
            let (port, own, mac) = (first + i, format!("10.{network}.{i}"), mac(kind, i));
            let _ =
                writeln!(text, "  {own}.0/32 0, {own}.1/32 0, {own}.255/32 0, {own}.0/24 {port},");
            let _ = writeln!(
                ports,
                "port{port} :: Port(r{kind}{i}, {own}.1, {mac}, {port});\n\
                 table[{port}] -> port{port} -> table;"
            );
        }
    }
    for (i, (address, len)) in routes.iter().enumerate() {
        let sink = i % 2;
        let _ = writeln!(text, "  {address}/{len} 10.1.{sink}.2 {},", SINKS + sink);
    }
    text.push_str("  0.0.0.0/32 0, 255.255.255.255/32 0);\ntable[0] -> Discard;\n");
    text.push_str(PORT);
    text + &ports + &format!("DriverManager(wait {LIFE_S}s, stop);\n")
}

/// How it reads and sends is left to Click: by libpcap's ring, where it was built with that. Of
/// bursts of 1, 8, 32 and 128 packets none was better than 8 in a few short runs; its own is 1.
const PORT: &str = "\
elementclass Port { $device, $ip, $mac, $number |
    FromDevice($device, PROMISC true, BURST 8)
        -> HostEtherFilter($mac)
        -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800);
    queue :: Queue(1000) -> ToDevice($device, BURST 8);
    kind[0] -> ARPResponder($ip $mac) -> queue;
    neighbours :: ARPQuerier($ip, $mac) -> queue;
    kind[1] -> [1]neighbours;
    kind[2] -> Paint($number) -> Strip(14) -> CheckIPHeader -> output;
    input -> DropBroadcasts
        -> back :: PaintTee($number)
        -> options :: IPGWOptions($ip)
        -> FixIPSrc($ip)
        -> ttl :: DecIPTTL
        -> whole :: IPFragmenter(1500)
        -> neighbours;
    back[1] -> ICMPError($ip, redirect, host) -> output;
    options[1] -> ICMPError($ip, parameterproblem) -> output;
    ttl[1] -> ICMPError($ip, timeexceeded) -> output;
    whole[1] -> ICMPError($ip, unreachable, needfrag) -> output;
}
";

#[cfg(test)]
mod tests {
    use super::*;

    /// What a configuration says of its table: prefix, gateway and number of the device.
    fn table(text: &str) -> Vec<(&str, Option<&str>, usize)> {
        let arguments = text.strip_prefix("table :: RadixIPLookup(").unwrap();
        let (arguments, _) = arguments.split_once(");").unwrap();
        arguments
            .split(',')
            .map(|argument| {
                let words: Vec<&str> = argument.split_whitespace().collect();
                match words[..] {
                    [prefix, device] => (prefix, None, device.parse().unwrap()),
                    [prefix, gateway, device] => (prefix, Some(gateway), device.parse().unwrap()),
                    _ => panic!("{argument:?}"),
                }
            })
            .collect()
    }

    #[test]
    fn click_gets_the_routes_to_the_sinks_in_turn_and_its_own_networks() {
        let routes: Vec<_> = [("8.8.0.0", 16), ("1.2.3.4", 32), ("198.18.0.0", 24)]
            .map(|(address, len)| (address.parse().unwrap(), len))
            .into();
        let text = configuration(&routes);
        let table = table(&text);
        let far: Vec<_> = table.iter().filter(|route| route.1.is_some()).copied().collect();
        let expected = [
            ("8.8.0.0/16", Some("10.1.0.2"), 3),
            ("1.2.3.4/32", Some("10.1.1.2"), 4),
            ("198.18.0.0/24", Some("10.1.0.2"), 3),
        ];
        assert_eq!(far, expected);
        let devices = [
            ("10.0.0", 1, "rs0", "02:00:00:00:10:00"),
            ("10.0.1", 2, "rs1", "02:00:00:00:10:01"),
            ("10.1.0", 3, "rd0", "02:00:00:00:20:00"),
            ("10.1.1", 4, "rd1", "02:00:00:00:20:01"),
        ];
        for (network, number, device, mac) in devices {
            // Nothing for the router itself is sent on: its address and the broadcasts.
            for (end, to) in [("0/24", number), ("0/32", 0), ("1/32", 0), ("255/32", 0)] {
                let prefix = format!("{network}.{end}");
                assert!(table.contains(&(&prefix, None, to)), "{prefix}: {text}");
            }
            let port = format!("port{number} :: Port({device}, {network}.1, {mac}, {number});\n");
            assert!(text.contains(&port), "{port}: {text}");
            let there = format!("table[{number}] -> port{number} -> table;\n");
            assert!(text.contains(&there), "{there}: {text}");
        }
        assert_eq!(table.len(), 3 + 4 * 4 + 2);
    }

    #[test]
    fn another_program_called_click_is_told_apart() {
        let said = "click (Click) 2.1\nCopyright (C) 1999-2001 Massachusetts Institute\n";
        assert_eq!(version(said), Some("2.1"));
        for other in ["", "click 0.5.0\n", "click, version 8.1.3\n", "click (Click) \n", "Click\n"]
        {
            assert_eq!(version(other), None, "{other:?}");
        }
    }
}
