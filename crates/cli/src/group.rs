//! `plexus group`: a group of boxes, from the first box on.

use std::io::{self, BufRead, IsTerminal};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_control::identity::Role;
use plexus_control::join::JoinCode;
use plexus_report::{plural, say};
use plexus_setup::commands::{put_into_effect, start_daemons, take_key};
use plexus_setup::create::{First, create, machine_name};
use plexus_setup::interface::{Candidate, candidates, choose, list, read_names};
use plexus_setup::invite::{Inviter, Operator, parse_address, parse_expiry};
use plexus_setup::join::{New, join};
use plexus_setup::revoke::revoke;
use plexus_setup::{drain, port, rotate};

use crate::exit::{Failure, Outcome};
use crate::text::ask;

/// A group of boxes, from the first box on.
#[derive(clap::Args)]
#[command(after_help = "\
Example: two boxes become one switch
  sudo plexus group create --interface eth1 --interface eth2     # on the first box
  sudo plexus group join CODE --interface eth1 --interface eth2  # on the second, as the first says

These commands only write files in /etc/plexus, which can be edited or written by hand. They write
over no file. docs/three-boxes.md shows the whole way.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make this box the first of a group: authority, controller and node.
    #[command(after_help = "\
Example:
  sudo plexus group create --interface eth1 --interface eth2

Without --interface it lists the interfaces of this box, and asks. It never takes the interface of
the default route or of your SSH session, or one that is part of a bridge, without --force. Then it
prints a code for the next box, and waits for that box to ask; --boxes 0 leaves this out.

group.key signs the group's identities. Anyone with this file can add boxes: keep a copy
of it and of group.key.ledger in a safe place.")]
    Create {
        #[command(flatten)]
        own: Own,
        /// The controller's name.
        #[arg(long, default_value = "c1")]
        controller: String,
        #[command(flatten)]
        invitation: Invitation,
    },
    /// Let another box join: print a code, and wait for the box to ask.
    #[command(after_help = "\
Example:
  sudo plexus group invite

Run it on the box of `plexus group create`. The code admits one box. It expires after --expires, or
when this command ends. You confirm each box: compare the key that both boxes show.")]
    Invite {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        invitation: Invitation,
    },
    /// Make this box a node of a group, with the code that its first box has printed.
    #[command(after_help = "\
Example:
  sudo plexus group join 4K7QX-9M2PD-... --interface eth1 --interface eth2

It asks the first box for an identity, at the address that the code names. The operator there has to
confirm.")]
    Join {
        /// The code. Lower case, spaces and other groups of characters do not matter.
        #[arg(value_name = "CODE")]
        code: String,
        #[command(flatten)]
        own: Own,
    },
    /// Make further interfaces ports of this box's node.
    #[command(after_help = "\
Example:
  sudo plexus group add-port eth3
  sudo systemctl reload plexus-node@n1")]
    AddPort {
        /// The interfaces.
        #[arg(value_name = "INTERFACE", required = true)]
        interfaces: Vec<String>,
        /// Take interfaces that are in use.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: Place,
        /// The node's file, where --dir has several.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Have routes avoid a node, before work on it.
    #[command(after_help = "\
Example:
  sudo plexus group drain n3
  sudo systemctl reload plexus-controller@c1
  plexus show topology --node c1    # says how many flows still lead through n3
  sudo plexus group drain n3 --end  # when the work is over

No packet is lost: flows move while the node still forwards. Its own hosts stay reachable through
it, and so do others where there is no way around it. Multicast still takes it.

Of several controllers, each has a list in its own file. A list in their common file is known to all
of them:
  sudo plexus group drain n3 --config common.toml
  sudo plexus config common apply c1 common.toml")]
    Drain {
        /// The node.
        #[arg(value_name = "NAME")]
        name: String,
        /// The work is over: routes may lead through it again.
        #[arg(long)]
        end: bool,
        #[command(flatten)]
        place: Place,
        /// The controller's file, where --dir has several, or a common file.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Give a box a new key, and revoke the old one.
    #[command(after_help = "\
Examples:
  sudo plexus group rotate-keys n1                # on the box of `plexus group create`
  sudo systemctl reload plexus-node@n1
  sudo systemctl reload plexus-controller@c1

  sudo plexus group rotate-keys n2                # the same box prints a code for n2
  sudo plexus group rotate-keys --code CODE       # on n2
  sudo systemctl reload plexus-node@n2            # on n2: it has the new key, and loses nothing
  sudo systemctl reload plexus-controller@c1      # from now on nobody takes the old key

Do it when a key may have been seen by others, or as often as your rules say. The authority's key,
group.key, cannot be changed: a group with another one is another group.

A controller takes its new key when it is started again, and no reload before that. Of several
controllers, each has a list of revoked keys in its own file. A list in their common file is known
to all of them: name that file with --config.")]
    RotateKeys {
        /// The box; with --code, which of this folder's boxes, where it has several.
        #[arg(value_name = "NAME", required_unless_present = "code")]
        name: Option<String>,
        /// The code that the first box has printed for this one.
        #[arg(long, value_name = "CODE")]
        code: Option<String>,
        #[command(flatten)]
        place: Place,
        /// The controller's file, where --dir has several, or a common file.
        #[arg(long, value_name = "FILE", conflicts_with = "code")]
        config: Option<PathBuf>,
        #[command(flatten)]
        reached: Reached,
    },
    /// Take a box out of the group: no box takes its key from now on.
    #[command(after_help = "\
Example:
  sudo plexus group remove n3
  sudo systemctl reload plexus-controller@c1

Run it on the box of `plexus group create`. The controller ends its session with the box and tells
the others: their ports to the box are ports of a host, and no route leads through it.

Of several controllers, each has a list in its own file. A list in their common file is known to all
of them:
  sudo plexus group remove n3 --config common.toml
  sudo plexus config common apply c1 common.toml")]
    Remove {
        /// The box.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        place: Place,
        /// The controller's file, where --dir has several, or a common file.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// The folder of the group's files.
#[derive(clap::Args)]
struct Place {
    /// The folder of this box's files.
    #[arg(long, value_name = "DIR", default_value = "/etc/plexus")]
    dir: PathBuf,
}

impl Place {
    /// The file that was named, or the controller's file that is here.
    fn controller_file(&self, named: Option<PathBuf>) -> Result<PathBuf, String> {
        named.map_or_else(|| port::controller_file(&self.dir), Ok)
    }
}

/// The node that this box becomes.
#[derive(clap::Args)]
struct Own {
    /// The node's name; by default this machine's.
    #[arg(long)]
    name: Option<String>,
    /// An interface that becomes a port; may be repeated.
    #[arg(long, value_name = "INTERFACE")]
    interface: Vec<String>,
    /// Take interfaces that are in use.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: Place,
}

/// How others join.
#[derive(clap::Args)]
struct Invitation {
    /// How many boxes to invite, one after the other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    boxes: u32,
    #[command(flatten)]
    reached: Reached,
}

/// How another box reaches this one.
#[derive(clap::Args)]
struct Reached {
    /// The address of this box at which others reach it, and the TCP port; found by itself
    /// otherwise.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = parse_address)]
    at: Option<SocketAddr>,
    /// How long each code is good.
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = parse_expiry)]
    expires: Duration,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Create { own, controller, invitation } => {
            let first = start(own, controller).map_err(Failure::unusable)?;
            match invitation.boxes {
                0 => Ok(()),
                _ => invite(&first.folder, &invitation),
            }
        }
        Command::Invite { place, invitation } => invite(&place.dir, &invitation),
        Command::Join { code, own } => enter(&code, own).map_err(Failure::unusable),
        Command::AddPort { interfaces, force, place, config } => {
            add_ports(&interfaces, force, &place, config).map_err(Failure::unusable)
        }
        Command::Drain { name, end, place, config } => {
            drain_node(&name, end, &place, config).map_err(Failure::unusable)
        }
        Command::RotateKeys { name, code: Some(code), place, .. } => {
            ask_for_key(name.as_deref(), &code, &place).map_err(Failure::unusable)
        }
        Command::RotateKeys { name, code: None, place, config, reached } => {
            rotate_keys(&name.unwrap_or_default(), &place, config, &reached)
        }
        Command::Remove { name, place, config } => {
            remove(&name, &place, config).map_err(Failure::unusable)
        }
    }
}

fn start(own: Own, controller: String) -> Result<First, String> {
    let first =
        First { node: own.name()?, devices: own.devices()?, folder: own.place.dir, controller };
    for file in create(&first)? {
        say!("wrote {}", file.display());
    }
    say_start(&first.folder, &[("node", &first.node), ("controller", &first.controller)]);
    Ok(first)
}

fn invite(folder: &Path, invitation: &Invitation) -> Outcome {
    let Invitation { reached, .. } = invitation;
    let inviter = Inviter::listen(folder, reached.at).map_err(Failure::unusable)?;
    for number in 0..invitation.boxes {
        let (code, open) = inviter.invite(reached.expires, None).map_err(Failure::unusable)?;
        let next = if number == 0 { "On the next box" } else { "On another box" };
        say!("\n{next}, within {}:", minutes(reached.expires));
        say!("  plexus group join {code}");
        let joined = open.serve(&mut Terminal).map_err(Failure::No)?;
        say!("{} has joined with number {}", joined.name, joined.number);
    }
    Ok(())
}

fn enter(code: &str, own: Own) -> Result<(), String> {
    let new = New {
        code: read_code(code)?,
        node: own.name()?,
        devices: own.devices()?,
        folder: own.place.dir,
    };
    let identity = join(&new, |key| {
        say!("{} asks {} to join, with key {key}", new.node, new.code.address());
        say!("Compare the key with the one that the first box shows, and confirm there.");
    })?;
    say!("{}", identity.credential());
    say_start(&new.folder, &[("node", &new.node)]);
    Ok(())
}

fn read_code(code: &str) -> Result<JoinCode, String> {
    code.parse().map_err(|e: plexus_config::ValueError| format!("{}: {}", e.message, e.help))
}

fn rotate_keys(name: &str, place: &Place, config: Option<PathBuf>, reached: &Reached) -> Outcome {
    let folder = &place.dir;
    let entry = rotate::find(folder, name).map_err(Failure::unusable)?;
    let config = place.controller_file(config).map_err(Failure::unusable)?;
    let mut has_new = None;
    let key = match rotate::is_here(folder, name) {
        true => {
            let (file, key) = rotate::rotate_here(folder, &entry).map_err(Failure::unusable)?;
            has_new = Some(file);
            key
        }
        false => {
            let inviter = Inviter::listen(folder, reached.at).map_err(Failure::unusable)?;
            let (code, open) =
                inviter.invite(reached.expires, Some(entry.clone())).map_err(Failure::unusable)?;
            say!("\nOn {name}, within {}:", minutes(reached.expires));
            say!("  plexus group rotate-keys --code {code}");
            let renewed = open.serve(&mut Terminal).map_err(Failure::No)?;
            if !renewed.has_stored {
                let told = "has not said that it stored its new key: the old one is not revoked. \
                            Run this again";
                return Err(Failure::No(format!("{name} {told}")));
            }
            renewed.key
        }
    };
    let revoked = rotate::revoke_others(folder, &config, &entry, &key);
    // Only now: a terminal that is gone ends the program here.
    if let Some(file) = has_new {
        say!("{} has a new key.", file.display());
    }
    let controller = revoked.map_err(|why| {
        let told = "the old key is not revoked yet. Run this again once that is mended";
        Failure::Unusable(format!("{why}: {told}"))
    })?;
    say!("{} revokes the old one. To put it into effect:", config.display());
    say!("  {}   # on the box of {name}", take_key(entry.role, name));
    if (entry.role, Some(name)) != (Role::Controller, controller.as_deref()) {
        say!("  {}   # after that", put_into_effect(controller.as_deref(), &config));
    }
    tell_of_common_file(controller.as_deref());
    Ok(())
}

fn ask_for_key(name: Option<&str>, code: &str, place: &Place) -> Result<(), String> {
    let code = read_code(code)?;
    let address = code.address();
    let identity = rotate::ask_anew(&place.dir, name, &code, |before, key| {
        say!("{} asks {address} for a new key, {key}", before.claims().name);
        say!("Compare the key with the one that the first box shows, and confirm there.");
    })?;
    let claims = identity.claims();
    say!("{} has its new key. To use it:", claims.name);
    say!("  {}", take_key(claims.role, &claims.name));
    Ok(())
}

fn add_ports(
    interfaces: &[String],
    force: bool,
    place: &Place,
    config: Option<PathBuf>,
) -> Result<(), String> {
    let devices = choose(&candidates()?, interfaces, force)?;
    let file = config.map_or_else(|| port::node_file(&place.dir), Ok)?;
    let node = port::add(&file, &devices)?;
    say!("{} has {} more. To use them:", file.display(), plural(devices.len() as u64, "port"));
    say!("  systemctl reload plexus-node@{node}");
    Ok(())
}

fn drain_node(name: &str, end: bool, place: &Place, config: Option<PathBuf>) -> Result<(), String> {
    let config = place.controller_file(config)?;
    let shown = config.display();
    let controller = match end {
        true => drain::end(&config, name)?,
        false => drain::drain(&place.dir, &config, name)?,
    };
    let what = if end { "lets routes lead through" } else { "has routes avoid" };
    say!("{shown} {what} {name}. To put it into effect:");
    say!("  {}", put_into_effect(controller.as_deref(), &config));
    if !end {
        say!("To see whether a route still leads through it:");
        say!("  plexus show topology --node {}", controller.as_deref().unwrap_or("CONTROLLER"));
    }
    Ok(())
}

/// A hint for groups of several controllers, after a key was revoked in the file of one of them.
fn tell_of_common_file(controller: Option<&str>) {
    if controller.is_some() {
        say!("Of several controllers, all know it if you name their common file with --config.");
    }
}

fn remove(name: &str, place: &Place, config: Option<PathBuf>) -> Result<(), String> {
    let config = place.controller_file(config)?;
    let controller = revoke(&place.dir, &config, name)?;
    say!("{} revokes the key of {name}. To put it into effect:", config.display());
    say!("  {}", put_into_effect(controller.as_deref(), &config));
    tell_of_common_file(controller.as_deref());
    say!("Its neighbours take it for a host from then on.");
    Ok(())
}

impl Own {
    fn name(&self) -> Result<String, String> {
        self.name.clone().map_or_else(machine_name, Ok)
    }

    /// The devices that were named, or picked from a list.
    fn devices(&self) -> Result<Vec<String>, String> {
        let all = candidates()?;
        let named = if self.interface.is_empty() { pick(&all)? } else { self.interface.clone() };
        choose(&all, &named, self.force)
    }
}

/// Shows the interfaces, and asks which of them become ports.
fn pick(candidates: &[Candidate]) -> Result<Vec<String>, String> {
    if candidates.is_empty() {
        return Err("this box has no Ethernet interface".into());
    }
    let list = list(candidates);
    if !io::stdin().is_terminal() {
        return Err(format!("name the interfaces that become ports, with --interface:\n{list}"));
    }
    ask(&format!("{list}\nWhich become ports? Numbers or names, with spaces between: "));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|e| e.to_string())?;
    read_names(candidates, &line)
}

/// Says how the daemons of this box are started.
fn say_start(folder: &Path, daemons: &[(&str, &str)]) {
    say!("\nTo start this box:");
    for command in start_daemons(folder, daemons) {
        say!("  {command}");
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 60 == 0 => plural(seconds / 60, "minute"),
        seconds => plural(seconds, "second"),
    }
}

/// The operator at the terminal. Without one, whoever writes to standard input.
struct Terminal;

impl Operator for Terminal {
    fn confirms(&mut self, name: &str, wants: &str, key: &str, from: IpAddr) -> bool {
        say!("{name} at {from} asks {wants}, with key {key}");
        ask(&format!("Does {name} show the same key, and do you allow it? [y/N] "));
        // Keys that were typed before the question are no answer to it.
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        loop {
            let mut line = String::new();
            let is_end = io::stdin().lock().read_line(&mut line).unwrap_or(0) == 0;
            match line.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" => return true,
                "" if !is_end => ask("Type y or n: "),
                _ => return false,
            }
        }
    }

    fn hears(&mut self, what: &str) {
        eprintln!("{what}");
    }
}
