//! `plexus completions` and `plexus manual`: what a shell and man(1) need to know of the command
//! line, made from the same definitions as its help. A completion runs the program, which knows
//! the names of daemons that run.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// By this variable a shell's script asks for completions. The usual one, COMPLETE, could be set
/// for something else.
const VARIABLE: &str = "_PLEXUS_COMPLETE";

/// Answers a shell's script and ends, if such a script has started this program.
pub(crate) fn complete(command: fn() -> Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Arguments of `plexus completions`.
#[derive(Args)]
#[command(after_help = "Example:\n  source <(plexus completions bash)\n  \
                        plexus completions fish > ~/.config/fish/completions/plexus.fish\n\n\
                        The Debian package installs them for all three shells.")]
pub(crate) struct Completions {
    /// The shell that reads the script.
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Arguments of `plexus manual`.
#[derive(Args)]
pub(crate) struct Manual {
    /// The directory of the pages, which is made if it is missing.
    directory: PathBuf,
}

impl Completions {
    /// Prints the shell's script.
    pub(crate) fn run(&self) -> Outcome {
        let (shell, more): (&dyn EnvCompleter, _) = match self.shell {
            Shell::Bash => (&Bash, ""),
            // Zsh reads a file of its fpath when it is first asked, and expects an answer.
            Shell::Zsh => {
                (&Zsh, "[[ $funcstack[1] != _plexus ]] || _clap_dynamic_completer_plexus \"$@\"\n")
            }
            Shell::Fish => (&Fish, ""),
        };
        let mut script = Vec::new();
        shell
            .write_registration(VARIABLE, "plexus", "plexus", "plexus", &mut script)
            .map_err(Failure::unusable)?;
        print(&(String::from_utf8_lossy(&script) + more))
    }
}

impl Manual {
    /// Writes a page for the program and for each of its subcommands.
    pub(crate) fn run(&self, command: Command) -> Outcome {
        let written = fs::create_dir_all(&self.directory)
            .and_then(|()| clap_mangen::generate_to(command, &self.directory));
        written.map_err(|e| Failure::unusable(format!("{}: {e}", self.directory.display())))
    }
}
