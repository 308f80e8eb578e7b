//! `plexus lab shell`: a prompt for a lab that is up.

use std::io::IsTerminal;

use clap::Args;
use clap_complete::ArgValueCandidates;
use plexus_lab::shell::{COMMANDS, Session};
use plexus_report::say;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Context, Editor, Helper, Highlighter, Hinter, Validator};

use super::{drawing, name_of};
use crate::exit::{Failure, Outcome, report};

/// Arguments of `plexus lab shell`.
#[derive(Args)]
pub(super) struct Shell {
    /// A lab's name or file.
    #[arg(add = ArgValueCandidates::new(super::labs))]
    lab: String,
    /// Run this instead of asking for commands; may be given several times. The first command that
    /// fails is the last one.
    #[arg(short = 'c', long = "command", value_name = "COMMAND")]
    commands: Vec<String>,
}

impl Shell {
    /// Reads commands and runs them, until their end.
    pub(super) fn run(self) -> Outcome {
        let lab = name_of(&self.lab)?;
        let session = Session::new(lab, drawing)?;
        if self.commands.is_empty() {
            return prompt(&session);
        }
        self.commands.iter().try_for_each(|line| session.execute(line))
    }
}

/// Completes commands and devices.
#[derive(Helper, Highlighter, Hinter, Validator)]
struct Words(Vec<String>);

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let begin = line[..at].rfind(' ').map_or(0, |space| space + 1);
        let is_first = line[..begin].trim().is_empty();
        let is_command = |word: &str| COMMANDS.iter().any(|c| c.0 == word);
        let fit = self.0.iter().filter(|word| word.starts_with(&line[begin..at]));
        let fit = fit.filter(|word| is_first || !is_command(word));
        let pair = |word: &String| Pair { display: word.clone(), replacement: format!("{word} ") };
        Ok((begin, fit.map(pair).collect()))
    }
}

/// Asks for commands until their end.
fn prompt(session: &Session) -> Outcome {
    let config = Config::builder().auto_add_history(true).build();
    let editor = Editor::<Words, MemHistory>::with_history(config, MemHistory::new());
    let mut editor = editor.map_err(Failure::unusable)?;
    let commands = COMMANDS.iter().map(|c| c.0.to_string()).chain(["help", "exit"].map(Into::into));
    editor.set_helper(Some(Words(commands.chain(session.devices()).collect())));
    let is_terminal = std::io::stdin().is_terminal();
    if is_terminal {
        say!("lab {}: `help` lists the commands, Ctrl-D leaves", session.lab());
    }
    let prompt = if is_terminal { format!("{}> ", session.lab()) } else { String::new() };
    loop {
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(e) => return Err(Failure::unusable(e)),
        };
        if matches!(line.trim(), "exit" | "quit") {
            return Ok(());
        }
        match session.execute(&line) {
            Err(failure) if !is_terminal => return Err(failure),
            Err(failure) => drop(report(Err(failure))),
            Ok(()) => {}
        }
    }
}
