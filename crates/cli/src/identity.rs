//! `plexus identity`: the group's authority, and the identities that it issues to boxes.

use std::path::PathBuf;

use plexus_config::document::read_text;
use plexus_control::identity::{Authority, Identity, Role};
use plexus_daemon::identity::{load, random};
use plexus_io::secret::check_private;
use serde_json::json;

use crate::exit::{Failure, Outcome};
use crate::files::write_private;

/// Make a group of boxes that trust each other, and the identity of each.
#[derive(clap::Args)]
#[command(after_help = "\
Example: a group, a controller and a node
  plexus identity group --out group.key
  plexus identity issue --group group.key --role controller --number 1 --name c1 --out c1.key
  plexus identity issue --group group.key --role node --number 2 --name n1 --out n1.key

The group's file signs identities; keep it away from the boxes. An identity's file is its box's
alone: who has it is the box.")]
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
    },
    /// Say whose identity a file is.
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
        Command::Group { out } => {
            let authority = new_group().map_err(Failure::unusable)?;
            write_private(out, &authority.to_toml()).map_err(Failure::unusable)
        }
        Command::Issue { group, role, number, name, out } => {
            let role = match role {
                RoleArg::Node => Role::Node,
                RoleArg::Controller => Role::Controller,
            };
            check_private(group)
                .map_err(|why| Failure::unusable(format!("{}: {why}", group.display())))?;
            let text = read_text(group).map_err(Failure::unusable)?;
            let authority = Authority::from_toml(&group.display().to_string(), &text)
                .map_err(Failure::unusable)?;
            let identity = issue(&authority, *number, name, role).map_err(Failure::unusable)?;
            write_private(out, &identity.to_toml()).map_err(Failure::unusable)
        }
        Command::Show { file, json } => {
            let identity = load(file).map_err(Failure::unusable)?;
            let claims = identity.claims();
            if *json {
                let (name, number) = (&claims.name, claims.node);
                println!("{}", json!({"name": name, "number": number, "role": claims.role}));
            } else {
                println!("{}", identity.credential());
            }
            Ok(())
        }
    }
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
