//! `plexus identity`: the group's authority, and the identities that it issues to boxes.

use std::path::{Path, PathBuf};

use plexus_control::identity::{Role, short_key};
use plexus_daemon::identity::load;
use plexus_daemon::ledger::Entry;
use plexus_setup::identity::{Wanted, issue, issued, make_group, table};
use plexus_wire::hex;
use serde_json::json;

use crate::exit::{Failure, Outcome};
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
            let wanted = Wanted { role, number: *number, name, out, replace: *replace };
            issue(group, wanted, &mut |told| eprintln!("{told}"))
        }
        Command::List { group, json: false } => print(&table(&issued(group)?.1)),
        Command::List { group, json: true } => {
            let (authority, ledger) = issued(group)?;
            let group = hex(&authority.group());
            let all = json!({"group": group, "identities": ledger.entries()});
            print(&format!("{all}\n"))
        }
        Command::Show { file, json } => show(file, *json),
    }
}

/// Prints the identity in a file.
fn show(file: &Path, json: bool) -> Outcome {
    let identity = load(file).map_err(Failure::unusable)?;
    let claims = identity.claims();
    if json {
        let mut facts = json!(Entry::of(&identity));
        facts["group"] = hex(&claims.group).into();
        print(&format!("{facts}\n"))
    } else {
        let key = short_key(&claims.static_public);
        print(&format!("{}, key {key}\n", identity.credential()))
    }
}
