//! Labs on several machines: each has a part of the topology, and a cable from one machine to
//! another is a tunnel, by VXLAN (RFC 7348) over UDP. The tunnel's device is made in the network
//! namespace of the machine, which its datagrams take, and moved to the device of the lab.
//!
//! All machines read the same file. The identities of a fabric's nodes come from a secret that all
//! of them have, because nobody could hand out one authority's.

use std::fmt;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plexus_config::hex;
use plexus_io::namespace::Namespaces;
use plexus_io::secret::check_private;
use plexus_topo::{End, Topology};
use serde::{Deserialize, Serialize};

use crate::daemon::POLL;
use crate::error::{Doing, Error};
use crate::plan::{NodeProgram, Plan};
use crate::tools::IP;
use crate::world::World;

/// The UDP port of the tunnels.
const PORT: u16 = 18_775;
/// How long the kernel may take to remove the tunnels of a lab that has ended.
const REMOVAL_LIMIT: Duration = Duration::from_secs(10);
/// Most cables of a lab on several machines: numbers of tunnels have 24 bits, of which 8 are the
/// lab's.
const CABLES_MAX: usize = 1 << 16;

/// Which part of a lab to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The machine, by its name in the topology file.
    pub machine: String,
    /// The file of the secret that all machines have: 64 hexadecimal digits.
    pub secret: PathBuf,
}

/// The same for the supervisor.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PartOrder {
    pub(crate) machine: usize,
    pub(crate) secret: String,
    /// The launcher, whose network is the machine's.
    pub(crate) launcher: u32,
}

impl fmt::Debug for PartOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartOrder").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Part {
    /// Checks it against the topology.
    pub(crate) fn order(
        &self,
        topology: &Topology,
        program: NodeProgram,
        rootless: bool,
    ) -> Result<PartOrder, Error> {
        let unable = |text: String| Err(Error::Unsupported(text));
        let names: Vec<&str> = topology.machines.iter().map(|m| &m.name[..]).collect();
        let Some(machine) = names.iter().position(|name| *name == self.machine) else {
            return unable(match names.len() {
                0 => "the file has no machines: write [[machine]] with name, address and devices \
                      for each"
                    .into(),
                _ => {
                    format!("the file has no machine {}; it has {}", self.machine, names.join(", "))
                }
            });
        };
        if rootless {
            return unable("only root makes tunnels to other machines: run as root".into());
        }
        if topology.controllers.len() > 1 {
            return unable("several controllers share an etcd cluster on one machine".into());
        }
        if topology.nodes.iter().any(|node| !node.daemons.is_empty()) {
            return unable("routing daemons run in labs on one machine only".into());
        }
        if topology.cables().count() > CABLES_MAX {
            return unable(format!("there are more than {CABLES_MAX} cables"));
        }
        if program == NodeProgram::Bridge {
            return unable("the Linux bridge runs in labs on one machine only".into());
        }
        let file = self.secret.display();
        check_private(&self.secret).map_err(|why| Error::Unsupported(format!("{file}: {why}")))?;
        let text = std::fs::read_to_string(&self.secret).doing(|| format!("reading {file}"))?;
        let secret = text.trim().to_string();
        if hex::decode::<32>(&secret).is_err() {
            return unable(format!("{file} is no secret: openssl rand -hex 32 makes one"));
        }
        Ok(PartOrder { machine, secret, launcher: std::process::id() })
    }
}

/// The machine as its launcher sees it.
pub(crate) struct Outside {
    place: Namespaces,
    /// The supervisor's number there.
    own: i32,
}

impl Outside {
    /// That of a process of the machine; `own`: this process's number there.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn of(launcher: u32, own: i32) -> Result<Outside, Error> {
        let open = |kind: &str| {
            let path = format!("/proc/{launcher}/ns/{kind}");
            File::open(&path).map(OwnedFd::from).doing(|| format!("opening {path}"))
        };
        let place = Namespaces::from_descriptors([open("net")?, open("mnt")?, open("uts")?]);
        Ok(Outside { place, own })
    }
}

/// Makes the tunnel of every cable from this machine to another.
pub(crate) fn lay_tunnels(plan: &Plan, world: &World, outside: &Outside) -> Result<(), Error> {
    let topology = &plan.topology;
    let address = |end: End| topology.machines[topology.machine_of(end.device())].address;
    for (number, (link, _, ends)) in topology.cables().enumerate() {
        let [a, b] = ends.map(|end| plan.has(end.device()));
        let (near, far) = match (a, b) {
            (true, false) => (ends[0], ends[1]),
            (false, true) => (ends[1], ends[0]),
            _ => continue,
        };
        let net = world.place(near.device()).descriptors()[0].as_raw_fd();
        let (name, mac) = plan.device(near);
        let mac = mac.map_or(String::new(), |mac| format!("address {mac} "));
        let (mtu, number) = (topology.links[link].mtu, tunnel(&topology.name, number));
        let (local, remote) = (address(near), address(far));
        let checksum = match local {
            IpAddr::V4(_) => "",
            IpAddr::V6(_) => " udp6zerocsumtx udp6zerocsumrx",
        };
        let line = format!(
            "link add name {name} {mac}mtu {mtu} numtxqueues 1 numrxqueues 1 \
             netns /proc/{}/fd/{net} type vxlan id {number} local {local} remote {remote} \
             dstport {PORT} nolearning{checksum}\n",
            outside.own
        );
        lay_tunnel(outside, &line)?;
    }
    Ok(())
}

/// Makes a tunnel. That of a lab which has just ended is there until the kernel has removed the
/// lab's namespaces.
fn lay_tunnel(outside: &Outside, line: &str) -> Result<(), Error> {
    let limit = Instant::now() + REMOVAL_LIMIT;
    loop {
        match IP.batch(Some(&outside.place), line) {
            Err(Error::Command { said, .. })
                if said.contains("already exists") && Instant::now() < limit =>
            {
                std::thread::sleep(POLL);
            }
            done => return done,
        }
    }
}

/// The number of a cable's tunnel. Labs of different names differ in it, mostly.
fn tunnel(lab: &str, cable: usize) -> u32 {
    let hash = lab.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte));
    (hash & 0xFF) << 16 | cable as u32
}
