//! The new box's end of the exchange: it asks the first box for an identity.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plexus_config::NodeFile;
use plexus_config::name::check_name;
use plexus_control::identity::{Identity, Role, short_key};
use plexus_control::join::{JoinCode, JoinError, Joiner, Waiting};
use plexus_control::session::Random;
use plexus_daemon::identity::random;
use plexus_io::netlink::devices;

use crate::create::{config_name, files_of, identity_name};
use crate::folder::Folder;
use crate::interface::is_link_local;
use crate::port::node_text;
use crate::stream::{receive, send};

/// How long the first box may take to be reached, and to answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long its operator may take.
const OPERATOR_TIME: Duration = Duration::from_secs(15 * 60);
/// How long a connection by one cable may take, if the address is link-local.
const CABLE_TIME: Duration = Duration::from_secs(3);

/// The node that the new box becomes.
#[derive(Clone, Debug)]
pub struct New {
    /// The folder of its files.
    pub folder: PathBuf,
    /// The code.
    pub code: JoinCode,
    /// The node's name.
    pub node: String,
    /// The devices that become ports.
    pub devices: Vec<String>,
}

/// Asks the first box, and writes the files of this one; returns the identity. `asks` is called
/// when the operator of the first box has to confirm, with this box's key.
///
/// # Errors
/// In words. Then no file is left.
pub fn join(new: &New, asks: impl FnOnce(&str)) -> Result<Identity, String> {
    let New { code, node, devices, .. } = new;
    check_name("node", node).map_err(|e| format!("{}: {}", e.message, e.help))?;
    let mut folder = Folder::open(&new.folder)?;
    folder.check_free(files_of(node).iter().map(String::as_str))?;
    let text = node_text(node, &folder.file(&identity_name(node)), None, devices);
    NodeFile::parse(node, &text).map_err(|e| e.to_string())?;

    let (identity, mut exchange) = ask(code, (node, Role::Node), devices, asks)?;
    folder.write_identity(&identity_name(node), &identity.to_toml())?;
    folder.write(&config_name(node), &text)?;
    folder.done();
    // The files are there, whether or not the first box hears of it.
    exchange.tell_stored();
    Ok(identity)
}

/// An exchange whose identity is not stored yet.
pub(crate) struct Exchange {
    stream: TcpStream,
    waiting: Waiting,
}

impl Exchange {
    /// Tells the first box that the identity is stored.
    pub(crate) fn tell_stored(&mut self) {
        let _ = send(&mut self.stream, &self.waiting.stored());
    }
}

/// Asks the first box for an identity of this name and role. `asks` is called when its operator has
/// to confirm, with this box's key. `devices`: those of this box's cables.
///
/// # Errors
/// In words.
pub(crate) fn ask(
    code: &JoinCode,
    box_: (&str, Role),
    devices: &[String],
    asks: impl FnOnce(&str),
) -> Result<(Identity, Exchange), String> {
    let mut stream = connect(code.address(), devices)?;
    let (joiner, first) = Joiner::new(code, box_, &random()?, Random::from_seed(random()?));
    let key = short_key(&joiner.key());
    let address = code.address();
    // A box that does not know the code cannot answer, and one that does not accept it closes.
    let refused = |e: std::io::Error| match e.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => format!(
            "{address} does not accept this code: it was used, has expired, or is of another \
             group. `plexus group invite` on the first box prints a new one"
        ),
        ErrorKind::TimedOut => format!(
            "{address} does not answer: is this the first box, or is its operator asked about \
             another one now?"
        ),
        _ => format!("{address}: {e}"),
    };
    send(&mut stream, &first).map_err(refused)?;
    let answer = receive(&mut stream, Instant::now() + ANSWER_TIME).map_err(refused)?;
    let (mut waiting, request) = joiner.answered(&answer).map_err(|e| told(address, &e))?;
    send(&mut stream, &request).map_err(refused)?;
    asks(&key);
    let verdict = receive(&mut stream, Instant::now() + OPERATOR_TIME).map_err(|e| {
        format!(
            "{address} has ended the exchange ({e}): nobody confirmed. `plexus group invite` \
             there prints a new code"
        )
    })?;
    let identity = waiting.verdict(&verdict).map_err(|e| told(address, &e))?;
    Ok((identity, Exchange { stream, waiting }))
}

fn told(address: SocketAddr, e: &JoinError) -> String {
    let help = match e {
        JoinError::OtherAuthority => ": another box answers there, so nothing was stored",
        JoinError::Malformed => ": something between changes messages, so nothing was stored",
        _ => "",
    };
    format!("{address}: {e}{help}")
}

/// Connects to the first box. A link-local address could be on any of this box's cables.
fn connect(address: SocketAddr, ports: &[String]) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match address.ip() {
        IpAddr::V6(ip) if is_link_local(ip.into()) => {
            let devices = devices().map_err(|e| e.to_string())?;
            let cables = devices.iter().filter(|device| ports.contains(&device.name));
            cables.map(|d| SocketAddrV6::new(ip, address.port(), 0, d.index).into()).collect()
        }
        _ => vec![address],
    };
    let time = if addresses.len() > 1 { CABLE_TIME } else { ANSWER_TIME };
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, time) {
            Ok(stream) => return Ok(stream),
            // Of several cables, the one where a box answered tells the most.
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => last = Some(e),
            Err(e) => last = last.or(Some(e)),
        }
    }
    let address = address.to_string();
    Err(match last {
        Some(e) if e.kind() == ErrorKind::ConnectionRefused => format!(
            "nobody listens at {address}: the code was used or has expired. `plexus group invite` \
             on the first box prints a new one"
        ),
        Some(e) => format!(
            "cannot reach {address}: {e}. Does this box reach the first one (ping)? If it has \
             another address: plexus group invite --at ADDRESS"
        ),
        None => format!(
            "{address} holds on a cable to the first box: name this box's end with --interface"
        ),
    })
}
