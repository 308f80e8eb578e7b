//! The `plexus` command: one module per subcommand, each with its arguments, help and `run`.

use std::process::ExitCode;

use clap::Parser;

<<<<<<< HEAD
mod bench;
=======
mod config;
>>>>>>> topo
mod exit;
<<<<<<< HEAD
mod topo;
=======
mod generate;
mod meter;
>>>>>>> traffic

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
<<<<<<< HEAD
<<<<<<< HEAD
    /// Run in-process benchmarks.
    Bench(bench::Args),
=======
    /// Make, show and check topology files
    Topo(topo::Topo),
    /// Check the files people write
    Config(config::Config),
>>>>>>> topo
=======
    /// Send test traffic: rates, sizes, flows, with sequence numbers and time stamps.
    Gen(Box<generate::Args>),
    /// Receive test traffic and tell loss, latency, reordering and throughput.
    Meter(meter::Args),
>>>>>>> traffic
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome: exit::Outcome = match cli.command {
<<<<<<< HEAD
<<<<<<< HEAD
        Command::Bench(args) => bench::run(args),
=======
        Command::Topo(topo) => topo.run(),
        Command::Config(config) => config.run(),
>>>>>>> topo
=======
        Command::Gen(args) => generate::run(&args),
        Command::Meter(args) => meter::run(&args),
>>>>>>> traffic
    };
    exit::report(outcome)
}
