//! The `plexus` command: one module per subcommand, each with its arguments, help and `run`.

use std::process::ExitCode;

use clap::Parser;

mod exit;
mod generate;
mod meter;

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
    /// Send test traffic: rates, sizes, flows, with sequence numbers and time stamps.
    Gen(Box<generate::Args>),
    /// Receive test traffic and tell loss, latency, reordering and throughput.
    Meter(meter::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome: exit::Outcome = match cli.command {
        Command::Gen(args) => generate::run(&args),
        Command::Meter(args) => meter::run(&args),
    };
    exit::report(outcome)
}
