//! `plexus identity`: the group's authority, and the identities that it issues to boxes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plexus_config::document::read_text;
use plexus_control::identity::{Authority, Identity, Role, short_key};
use plexus_daemon::identity::{check_permissions, load, random};
use plexus_daemon::ledger::{self, Entry, Ledger};
use plexus_setup::folder::UNIT_USER;
use plexus_wire::hex;
use serde_json::json;

use crate::exit::{Failure, Outcome};
use crate::files::{IN_THE_WAY, write_private};
use crate::text::print;

/// Make a group of boxes that trust each other, and the identity of each.
#[derive(clap::Args)]
#[command(after_help = "\
Example: a group, a controller and a node
  plexus identity group --out group.key
  plexus identity issue --group group.key --role controller --number 1 --name c1 --out c1.identity
  plexus identity issue --group group.key --role node --number 2 --name n1 --out n1.identity

The group's file signs identities; keep it away from the boxes. group.key.ledger beside it lists
what was issued: it is no secret, and belongs into the same backup. An identity's file is for
its box alone, because any box with the file passes for it. The daemon's user must be able to read
it, and no other user: where that is plexus, as in the units of examples/, `chown plexus:
n1.identity`.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make the authority of a new group.
    Group {
        /// The file to write; it must not exist.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Issue an identity to a box.
    Issue {
        /// The authority's file.
        #[arg(long, value_name = "FILE")]
        group: PathBuf,
        /// What the box is: a stolen node identity makes no controller.
        #[arg(long)]
        role: RoleArg,
        /// The box's number, unique in the group.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        number: u64,
        /// The box's name.
        #[arg(long)]
        name: String,
        /// The file to write; it must not exist.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Issue a number again whose box or key is lost. The earlier identity stays valid, so its
        /// box must be off.
        #[arg(long)]
        replace: bool,
    },
    /// List the identities that were issued.
    #[command(after_help = "Example: plexus identity list --group group.key")]
    List {
        /// The authority's file, beside which the ledger is.
        #[arg(long, value_name = "FILE")]
        group: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the identity in a file.
    Show {
        /// The identity's file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// What a box is.
#[derive(Clone, Copy, clap::ValueEnum)]
enum RoleArg {
    /// It forwards frames.
    Node,
    /// It knows the topology and hands out routes.
    Controller,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Group { out } => make_group(out).map_err(Failure::unusable),
        Command::Issue { group, role, number, name, out, replace } => {
            let role = match role {
                RoleArg::Node => Role::Node,
                RoleArg::Controller => Role::Controller,
            };
            let authority = load_authority(group).map_err(Failure::unusable)?;
            let identity = issue(&authority, *number, name, role).map_err(Failure::unusable)?;
            hand_out((group, &authority), &identity, out, *replace)
        }
        Command::List { group, json } => list(group, *json),
        Command::Show { file, json } => {
            let identity = load(file).map_err(Failure::unusable)?;
            let claims = identity.claims();
            if *json {
                let mut facts = json!(Entry::of(&identity));
                facts["group"] = hex(&claims.group).into();
                print(&format!("{facts}\n"))?;
            } else {
                let key = short_key(&claims.static_public);
                print(&format!("{}, key {key}\n", identity.credential()))?;
            }
            Ok(())
        }
    }
}

/// A new group: its authority's file and the ledger.
fn make_group(out: &Path) -> Result<(), String> {
    let ledger = ledger::path_of(out);
    if ledger.exists() {
        return Err(format!("{} is there already{IN_THE_WAY}", ledger.display()));
    }
    let authority = new_group()?;
    drop(Ledger::open(out, &authority)?);
    write_private(out, &authority.to_toml()).inspect_err(|_| ledger::remove(out))
}

/// Enters an identity in the ledger and writes its file, unless the number is taken.
fn hand_out(
    (group, authority): (&Path, &Authority),
    identity: &Identity,
    out: &Path,
    replace: bool,
) -> Outcome {
    // Before the number is entered in the ledger.
    if out.symlink_metadata().is_ok() {
        return Err(Failure::Unusable(format!("{} is there already{IN_THE_WAY}", out.display())));
    }
    let mut ledger = Ledger::open(group, authority).map_err(Failure::unusable)?;
    if ledger.is_new {
        eprintln!(
            "{} is new: identities that this authority issued before are not in it, so their \
             numbers can be issued again by mistake.",
            ledger::path_of(group).display()
        );
    }
    let number = identity.claims().node;
    match ledger.holder(number) {
        Some(held) if !replace => {
            return Err(Failure::No(format!(
                "number {number} belongs to {held}: choose another --number (`plexus identity list \
                 --group {}` shows all). If the box or the key of {} is lost, add --replace",
                group.display(),
                held.name
            )));
        }
        Some(held) => eprintln!(
            "number {number} belonged to {held}. The identity stays valid, so its box must be off. \
             Of two live boxes with one number, the controller refuses the second."
        ),
        None => {}
    }
    ledger.enter(Entry::of(identity)).map_err(Failure::unusable)?;
    write_private(out, &identity.to_toml()).map_err(|why| {
        let again = "the ledger has the number already: issue it again with --replace";
        Failure::Unusable(format!("{why}; {again}"))
    })?;
    if fs::metadata(out).is_ok_and(|file| file.uid() == 0) {
        eprintln!(
            "only root can read {0}. If the daemon runs as user {UNIT_USER}, as the units in \
             examples/ do: chown {UNIT_USER}: {0}",
            out.display()
        );
    }
    Ok(())
}

/// Prints the ledger.
fn list(group: &Path, json: bool) -> Outcome {
    let authority = load_authority(group).map_err(Failure::unusable)?;
    let path = ledger::path_of(group);
    if !path.exists() {
        let path = path.display();
        return Err(Failure::No(format!("there is no {path}: `plexus identity issue` makes it")));
    }
    let ledger = Ledger::open(group, &authority).map_err(Failure::unusable)?;
    if json {
        let group = hex(&authority.group());
        let all = json!({"group": group, "identities": ledger.entries()});
        return print(&format!("{all}\n"));
    }
    let mut text = format!("{:>8}  {:<10}  {:<32}  KEY\n", "NUMBER", "ROLE", "NAME");
    for Entry { number, role, name, key, removed } in ledger.entries() {
        let removed = if *removed { "  removed" } else { "" };
        let role = role.to_string();
        text += &format!("{number:>8}  {role:<10}  {name:<32}  {key}{removed}\n");
    }
    print(&text)
}

/// The authority of a new group.
///
/// # Errors
/// When there is no randomness.
fn new_group() -> Result<Authority, String> {
    Ok(Authority::new(random()?, &random()?))
}

/// A new identity of the group.
///
/// # Errors
/// When the name is none, or there is no randomness.
fn issue(authority: &Authority, number: u64, name: &str, role: Role) -> Result<Identity, String> {
    authority.issue_identity(number, name, role, &random()?).map_err(|e| e.to_string())
}

fn load_authority(path: &Path) -> Result<Authority, String> {
    check_permissions(path)?;
    let text = read_text(path).map_err(|e| e.to_string())?;
    Authority::from_toml(&path.display().to_string(), &text).map_err(|e| e.to_string())
}
