//! The `plexus` command: one module per subcommand, each with its arguments, help and `run`.

use std::process::ExitCode;

use clap::Parser;

mod exit;
mod lab;

/// A group of ordinary Linux boxes as one network device.
#[derive(Parser)]
#[command(name = "plexus", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One variant per subcommand; its doc comment is the first line of its help.
#[derive(clap::Subcommand)]
enum Command {
    /// A whole network on this machine, real kernels as hosts.
    Lab(lab::LabArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome: exit::Outcome = match cli.command {
        Command::Lab(args) => lab::run(args),
    };
    exit::report(outcome)
}
