//! The first box's end of the exchange: it listens while a code is open, has the operator confirm
//! the request, and issues an identity. The code is in memory only.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use plexus_config::units::parse_duration;
use plexus_control::identity::{Authority, Role, short_key};
use plexus_control::join::{Applicant, Invitation, JoinCode, JoinError};
use plexus_control::session::Random;
use plexus_daemon::identity::random;
use plexus_daemon::ledger::{Entry, Ledger, path_of};
use plexus_io::netlink::devices;
use plexus_wire::{Time, hex};

use crate::folder::authority;
use crate::interface::{is_link_local, reachable_address};
use crate::port;
use crate::stream::{is_open, receive, send};

/// The TCP port on which a first box listens, unless its operator names another.
pub const PORT: u16 = 18_773;
/// How long a peer may take for one message.
const MESSAGE_TIME: Duration = Duration::from_secs(5);
/// Most peers that have not sent their first message yet. Further ones are turned away.
const PEERS_MAX: usize = 32;
/// Most refusals that the operator is told of.
const TOLD_MAX: usize = 64;
/// How often it looks whether the invitation has expired.
const LOOK: Duration = Duration::from_millis(200);

/// The operator of the first box.
pub trait Operator {
    /// Whether the box of this name gets what it `wants`, an identity with this key: the words are
    /// "to join" or "for a new key". The answer may take minutes.
    fn confirms(&mut self, name: &str, wants: &str, key: &str, from: IpAddr) -> bool;
    /// Something happened that the operator should know.
    fn hears(&mut self, what: &str);
}

/// The box that joined, or has a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u64,
    /// Its public key.
    pub key: String,
    /// It has said that it stored its identity.
    pub has_stored: bool,
}

/// A first box that listens.
pub struct Inviter {
    authority: Authority,
    key_file: PathBuf,
    address: SocketAddr,
    peers: Receiver<(TcpStream, Vec<u8>)>,
}

impl Inviter {
    /// Begins to listen at an address of this box, or at one at which others reach it. Port 0: any
    /// that is free.
    ///
    /// # Errors
    /// In words, when the folder has no authority, or it cannot listen there.
    pub fn listen(folder: &Path, at: Option<SocketAddr>) -> Result<Inviter, String> {
        let at = at.map_or_else(|| usual_address(folder), Ok)?;
        let (key_file, authority) = authority(folder)?;
        // Without it, numbers and names of boxes that exist would be given out again.
        let ledger = path_of(&key_file);
        if !ledger.exists() {
            return Err(format!(
                "there is no {}, which lists the group's boxes: restore it from a copy",
                ledger.display()
            ));
        }
        let listener = TcpListener::bind(scoped(at)?).map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => format!(
                "{at} is in use: another invitation is open, or choose a port with --at \
                 {}",
                SocketAddr::new(at.ip(), at.port().saturating_add(1))
            ),
            _ => format!("listening at {at}: {e}"),
        })?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        // The queue holds so many peers; further ones are dropped.
        let (found, peers) = mpsc::sync_channel(PEERS_MAX);
        let accept = move || accept(&listener, &found);
        let thread = std::thread::Builder::new().name("invite".into()).spawn(accept);
        thread.map_err(|e| format!("starting a thread: {e}"))?;
        let address = SocketAddr::new(at.ip(), port);
        Ok(Inviter { authority, key_file, address, peers })
    }

    /// A new invitation for one box: a new one, or the one of this entry, which gets a new key.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn invite(
        &self,
        for_time: Duration,
        again: Option<Entry>,
    ) -> Result<(JoinCode, Open<'_>), String> {
        let code = JoinCode::new(random()?, &self.authority.public(), self.address);
        let open = Open {
            inviter: self,
            again,
            invitation: Invitation::new(code.clone(), Time::ZERO + for_time),
            begun: Instant::now(),
            told: BTreeSet::new(),
        };
        Ok((code, open))
    }
}

/// An address at which others reach this box. A port of the node is none.
fn usual_address(folder: &Path) -> Result<SocketAddr, String> {
    let ports = port::node_file(folder).and_then(|file| port::devices(&file));
    Ok(SocketAddr::new(reachable_address(&ports.unwrap_or_default())?, PORT))
}

/// Reads the address at which a first box listens, with or without a port.
///
/// # Errors
/// In words.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let alone = text.trim_matches(['[', ']']).parse().map(|ip| SocketAddr::new(ip, PORT));
    let at: SocketAddr = text.parse().or(alone).map_err(|_| {
        "write an address of this box, as in 192.0.2.1, 192.0.2.1:18773 or [2001:db8::1]:18773"
            .to_string()
    })?;
    if at.ip().is_unspecified() || at.ip().is_multicast() {
        return Err("write the address at which others reach this box".into());
    }
    Ok(at)
}

/// Reads how long a code is good.
///
/// # Errors
/// In words.
pub fn parse_expiry(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|e| format!("{}: {}", e.message, e.help))?;
    let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
    if !range.contains(&time) {
        return Err("write a time from 1s to 24h".into());
    }
    Ok(time)
}

/// An open invitation.
pub struct Open<'a> {
    inviter: &'a Inviter,
    /// The box of the group that it is for.
    again: Option<Entry>,
    invitation: Invitation,
    begun: Instant,
    /// Peers that were turned away, and why.
    told: BTreeSet<(IpAddr, String)>,
}

impl Open<'_> {
    /// Serves until a box has joined.
    ///
    /// # Errors
    /// In words, when the operator declines, the invitation ends, or nothing can be written.
    pub fn serve(mut self, operator: &mut impl Operator) -> Result<Joined, String> {
        loop {
            self.invitation.check(self.now()).map_err(|e| {
                format!("{e}: no box has used the code. Run this again for another one")
            })?;
            let (stream, first) = match self.inviter.peers.recv_timeout(LOOK) {
                Ok(peer) => peer,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err("no longer listening".into()),
            };
            let Ok(from) = stream.peer_addr() else { continue };
            match self.admit(stream, &first, from.ip(), operator)? {
                Ok(joined) => return Ok(joined),
                // The same once: a peer that repeats itself would hide the rest.
                Err(why)
                    if self.told.len() < TOLD_MAX && self.told.insert((from.ip(), why.clone())) =>
                {
                    operator.hears(&format!("{}: {why}", from.ip()));
                }
                Err(_) => {}
            }
        }
    }

    /// Takes one peer through the exchange. The inner error concerns this peer alone; the outer one
    /// ends the invitation.
    fn admit(
        &mut self,
        mut stream: TcpStream,
        first: &[u8],
        from: IpAddr,
        operator: &mut impl Operator,
    ) -> Result<Result<Joined, String>, String> {
        let random = Random::from_seed(random()?);
        let opened = self.invitation.open(self.now(), first, random);
        let (asked, answer) = match opened {
            Ok(opened) => opened,
            Err(e @ (JoinError::WrongCode | JoinError::Version | JoinError::Malformed)) => {
                return Ok(Err(e.to_string()));
            }
            Err(e) => return Err(e.to_string()),
        };
        let mut exchange = || -> io::Result<Vec<u8>> {
            send(&mut stream, &answer)?;
            receive(&mut stream, Instant::now() + MESSAGE_TIME)
        };
        let applicant = exchange().map_err(|e| e.to_string());
        let applicant =
            applicant.and_then(|request| asked.request(&request).map_err(|e| e.to_string()));
        let mut applicant = match applicant {
            Ok(applicant) => applicant,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(why) = self.is_wrong(&self.ledger()?, &applicant.name) {
            let _ = send(&mut stream, &applicant.refuse(&why));
            return Ok(Err(why));
        }
        let wants = if self.again.is_some() { "for a new key" } else { "to join" };
        let confirmed = operator.confirms(&applicant.name, wants, &short_key(&applicant.key), from);
        // The other box may have given up meanwhile: then another may use the code.
        if !is_open(&stream) {
            return Ok(Err(format!("{} has given up", applicant.name)));
        }
        self.invitation.use_up();
        if !confirmed {
            let _ = send(&mut stream, &applicant.refuse("its operator has declined"));
            return Err(format!("{} was declined, and the code is used up", applicant.name));
        }
        let mut joined = self.grant(&mut stream, &mut applicant).inspect_err(|_| {
            let _ = send(&mut stream, &applicant.refuse("it could not issue an identity"));
        })?;
        let said = receive(&mut stream, Instant::now() + MESSAGE_TIME);
        joined.has_stored = said.is_ok_and(|said| applicant.has_stored(&said));
        if !joined.has_stored && self.again.is_none() {
            operator.hears(&format!(
                "{0} has not said that it stored its identity. If it has none: `plexus group \
                 remove {0}`, and invite it again",
                joined.name
            ));
        }
        Ok(Ok(joined))
    }

    /// Issues an identity and sends it.
    fn grant(&self, stream: &mut TcpStream, applicant: &mut Applicant) -> Result<Joined, String> {
        let authority = &self.inviter.authority;
        let mut ledger = self.ledger()?;
        // Another command may have let a box of that name in meanwhile, or taken this one out.
        if let Some(why) = self.is_wrong(&ledger, &applicant.name) {
            return Err(why);
        }
        let next = || ledger.entries().iter().map(|entry| entry.number).max().unwrap_or(0) + 1;
        let (number, role) = match &self.again {
            Some(entry) => (entry.number, entry.role),
            None => (next(), Role::Node),
        };
        let (name, key) = (applicant.name.clone(), hex(&applicant.key));
        let credential = authority.issue(number, &name, role, &applicant.key);
        let credential = credential.map_err(|e| e.to_string())?;
        // The entry is on the disk before the credential is out.
        let entry = Entry { number, role, name: name.clone(), key: key.clone(), removed: false };
        ledger.enter(entry)?;
        let message = applicant.grant(&credential, &authority.public());
        // A box that has not got it does not answer, which the operator is told.
        let _ = send(stream, &message);
        Ok(Joined { name, number, key, has_stored: false })
    }

    /// Why a box of this name cannot have what the invitation is for.
    fn is_wrong(&self, ledger: &Ledger, name: &str) -> Option<String> {
        let Some(again) = &self.again else { return taken(ledger, name) };
        if again.name != name {
            return Some(format!("this code is for {}, not for {name}", again.name));
        }
        let is_there = ledger.holder(again.number).is_some_and(|entry| !entry.removed);
        (!is_there).then(|| format!("{name} was taken out of the group"))
    }

    fn ledger(&self) -> Result<Ledger, String> {
        Ledger::open(&self.inviter.key_file, &self.inviter.authority)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.begun.elapsed()
    }
}

/// Why a name cannot be given to another box, if there is one that has it.
fn taken(ledger: &Ledger, name: &str) -> Option<String> {
    let held = ledger.entries().into_iter().any(|entry| entry.name == name && !entry.removed);
    held.then(|| {
        format!(
            "the group has a box {name} already. For another box, take another --name. If this is \
             that box and needs a new key: `plexus group rotate-keys {name}` on the first box \
             prints a code for it. If that box is lost: `plexus group remove {name}` there"
        )
    })
}

/// Accepts peers, and passes those on that have sent a first message. A peer that is slow does not
/// keep others waiting.
fn accept(listener: &TcpListener, found: &SyncSender<(TcpStream, Vec<u8>)>) {
    let peers = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // No descriptors are left: peers that go free some.
            std::thread::sleep(LOOK);
            continue;
        };
        if peers.fetch_add(1, Ordering::Relaxed) >= PEERS_MAX {
            peers.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (peers, found) = (peers.clone(), found.clone());
        std::thread::spawn(move || {
            if let Ok(first) = receive(&mut stream, Instant::now() + MESSAGE_TIME) {
                // If the queue is full, the peer is dropped and can connect again.
                let _ = found.try_send((stream, first));
            }
            peers.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// The address with the number of its device, if it is link-local.
fn scoped(at: SocketAddr) -> Result<SocketAddr, String> {
    let IpAddr::V6(ip) = at.ip() else { return Ok(at) };
    if !is_link_local(at.ip()) {
        return Ok(at);
    }
    let devices = devices().map_err(|e| e.to_string())?;
    let has = |address: &(IpAddr, u8)| address.0 == at.ip();
    let device = devices.iter().find(|device| device.addresses.iter().any(has));
    let device = device.ok_or_else(|| format!("no interface of this box has {ip}"))?;
    Ok(SocketAddrV6::new(ip, at.port(), 0, device.index).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_its_port_and_a_time_has_bounds() {
        let address = |text| parse_address(text).map(|at| at.to_string());
        assert_eq!(address("192.0.2.1").as_deref(), Ok("192.0.2.1:18773"));
        assert_eq!(address("[2001:db8::1]").as_deref(), Ok("[2001:db8::1]:18773"));
        assert_eq!(address("[2001:db8::1]:7").as_deref(), Ok("[2001:db8::1]:7"));
        for bad in ["", "n1", "0.0.0.0", "[::]:7", "224.0.0.1"] {
            assert!(address(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_expiry("10min"), Ok(Duration::from_secs(600)));
        assert!(parse_expiry("0s").is_err() && parse_expiry("25h").is_err());
    }
}
