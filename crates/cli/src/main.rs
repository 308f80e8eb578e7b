//! The `plexus` command: one module per subcommand, each with its arguments, help and `run`.

// A reader that has gone makes `println!` panic: see `plexus_report::say`.
#![deny(clippy::print_stdout)]

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

mod ask;
mod bench;
mod config;
mod controller;
mod doctor;
mod exit;
mod experiment;
mod files;
mod generate;
mod group;
mod identity;
mod lab;
mod meter;
mod ndn;
mod node;
mod shell;
mod show;
mod sim;
mod text;
mod top;
mod topo;
mod trace;
mod web;

/// A group of ordinary Linux boxes as one network device.
#[derive(Parser)]
#[command(name = "plexus", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One variant per subcommand; its doc comment is the first line of its help.
#[derive(clap::Subcommand)]
enum Command {
    /// Run this box as a node.
    Node(node::Args),
    /// Run the controller of a fabric.
    Controller(controller::Args),
    /// Make a group of boxes, and let boxes join it.
    Group(group::Args),
    /// Say what is wrong with this box, and the command that mends it.
    Doctor(doctor::Args),
    /// Make a group of boxes that trust each other, and the identity of each.
    Identity(identity::Args),
    /// Show what a running node knows and counts.
    Show(show::Args),
    /// Show the rates of a node's ports, hosts and flows, again every second.
    Top(top::Args),
    /// Show the frames that pass a port of a running node.
    Trace(trace::Args),
    /// A whole network on this machine, real kernels as hosts.
    Lab(lab::LabArgs),
    /// The same network simulated: the daemons' code, simulated hosts, cables and time.
    Sim(sim::SimArgs),
    /// Make, show, check, import and export topology files.
    Topo(topo::Topo),
    /// Check the files people write.
    Config(config::Config),
    /// Send test traffic: rates, sizes, flows, with sequence numbers and time stamps.
    Gen(Box<generate::Args>),
    /// Receive test traffic and tell loss, latency, reordering and throughput.
    Meter(meter::Args),
    /// Named data: fetch, publish, generate traffic, and carry the web.
    Ndn(ndn::Ndn),
    /// Run in-process benchmarks.
    Bench(bench::Args),
    /// Run again what the papers behind Plexus report.
    Experiment(experiment::Args),
    /// Print the script by which a shell completes this command.
    Completions(shell::Completions),
    /// Write the manual's pages into a directory (for packages).
    #[command(hide = true)]
    Manual(shell::Manual),
}

fn main() -> ExitCode {
    shell::complete(Cli::command);
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Node(args) => node::run(args),
        Command::Controller(args) => controller::run(args),
        Command::Group(args) => group::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Identity(args) => identity::run(&args),
        Command::Show(args) => show::run(args),
        Command::Top(args) => top::run(&args),
        Command::Trace(args) => trace::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Topo(topo) => topo.run(),
        Command::Config(config) => config.run(),
        Command::Gen(args) => generate::run(&args),
        Command::Meter(args) => meter::run(&args),
        Command::Ndn(ndn) => ndn.run(),
        Command::Bench(args) => bench::run(args),
        Command::Experiment(args) => experiment::run(&args),
        Command::Completions(args) => args.run(),
        Command::Manual(args) => args.run(Cli::command()),
    };
    exit::report(outcome)
}
