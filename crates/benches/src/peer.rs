//! Peers: the programs of `bench/peers`, run as child processes between our own turns.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::Setting;

/// Where the peers are built, from the top of the repository.
const BUILT: &str = "bench/peers/build";

/// The directory of the built peers, if there is one.
pub(super) struct Peers {
    dir: Option<PathBuf>,
}

impl Peers {
    /// That directory: the given one, or of the repository that we are in or were built in.
    ///
    /// # Errors
    /// When the given one is none.
    pub(super) fn find(given: Option<PathBuf>) -> Result<Peers, String> {
        if let Some(dir) = given {
            if !dir.is_dir() {
                return Err(format!("--peers {}: there is no such directory", dir.display()));
            }
            return Ok(Peers { dir: Some(dir) });
        }
        let places = [std::env::current_dir(), std::env::current_exe()];
        let mut built =
            places.iter().flatten().flat_map(|place| place.ancestors()).map(|p| p.join(BUILT));
        Ok(Peers { dir: built.find(|dir| dir.is_dir()) })
    }

    #[cfg(test)]
    pub(super) fn none() -> Peers {
        Peers { dir: None }
    }

    /// The path of a peer; if it is not built, says so.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.dir.as_ref().map(|dir| dir.join(name)).filter(|path| path.is_file());
        if path.is_none() {
            eprintln!("plexus: the peer {name} is not built (make -C bench/peers): no comparison");
        }
        path
    }
}

/// What DPDK's programs in memory print, as far as it matters here.
#[derive(Deserialize)]
struct Answer {
    mpps: f64,
    conserved: bool,
    pages: String,
}

/// Millions of packets per second of one of DPDK's programs in memory. `load`: its arguments, but
/// for time and processor.
///
/// # Errors
/// When it fails, or lost packets.
pub(super) fn dpdk(program: &Path, load: &[&OsStr], setting: &Setting) -> Result<f64, String> {
    let mut command = Command::new(program);
    command.args(["--seconds", &setting.effort.time.as_secs_f64().to_string()]);
    command.args(["--cpu", &setting.cpu.to_string()]);
    command.args(load);
    let out = command.stdin(Stdio::null()).output();
    let out = out.map_err(|e| format!("{}: {e}", program.display()))?;
    let what = |why: &str| {
        let said = String::from_utf8_lossy(&out.stderr);
        format!("{}: {why}\n{}", program.display(), said.trim_end())
    };
    if !out.status.success() {
        return Err(what(&out.status.to_string()));
    }
    let answer = understand(&out.stdout).map_err(|e| what(&e))?;
    if answer.pages.starts_with('4') {
        eprintln!("plexus: the peer has no 2 MiB pages, so it is not at its best");
    }
    Ok(answer.mpps)
}

fn understand(json: &[u8]) -> Result<Answer, String> {
    let answer: Answer = serde_json::from_slice(json).map_err(|e| format!("its answer: {e}"))?;
    match answer.conserved {
        true => Ok(answer),
        false => Err("it lost packets, so its figure means nothing".into()),
    }
}

/// What `ns3_hops` prints, as far as it matters here.
#[derive(Deserialize)]
struct Hops {
    mhops: f64,
    dropped: u64,
}

/// Millions of packet hops per second of ns-3 on a network as `ns3_hops` reads it.
///
/// # Errors
/// When it fails, or dropped packets.
pub(super) fn ns3_hops(program: &Path, forward: &str, network: &str) -> Result<f64, String> {
    let what = |why: &dyn std::fmt::Display| format!("{}: {why}", program.display());
    // It inherits the processor that we keep to.
    let mut child = Command::new(program)
        .arg(forward)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| what(&e))?;
    // It answers only when it has read everything.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(network.as_bytes()).map_err(|e| what(&e))?;
    }
    let out = child.wait_with_output().map_err(|e| what(&e))?;
    if !out.status.success() {
        return Err(what(&out.status));
    }
    let answer: Hops = serde_json::from_slice(&out.stdout).map_err(|e| what(&e))?;
    match answer.dropped {
        0 => Ok(answer.mhops),
        n => Err(what(&format!("it dropped {n} packets, so its figure means nothing"))),
    }
}

/// DPDK's longest-prefix match, which loads its routes once and then waits for its turns.
pub(super) struct DpdkLpm {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Seconds that loading the routes took, once there was a turn.
    pub(super) build_s: Option<f64>,
}

/// What `dpdk_lpm_mem` prints for a turn, as far as it matters here.
#[derive(Deserialize)]
pub(super) struct DpdkLpmTurn {
    /// Millions of lookups per second.
    pub(super) mlps: f64,
    /// Of every sixteenth answer of a round of batches.
    pub(super) sum: u64,
    build_s: f64,
    pages: String,
}

impl DpdkLpm {
    /// Starts it with a table (`fib`, `fib6`, `lpm`) of the routes in a file.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn start(
        program: &Path,
        table: &str,
        routes: &Path,
        setting: &Setting,
    ) -> Result<DpdkLpm, String> {
        let mut child = Command::new(program)
            .args(["--table", table, "--cpu", &setting.cpu.to_string(), "--routes"])
            .arg(routes)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{}: it has no pipes", program.display()));
        };
        Ok(DpdkLpm {
            child,
            questions: Some(questions),
            answers: BufReader::new(answers),
            build_s: None,
        })
    }

    /// One turn: `bulk` or `dependent`, with the keys of a file.
    ///
    /// # Errors
    /// When it ended, having said why on standard error.
    pub(super) fn turn(
        &mut self,
        kind: &str,
        keys: &Path,
        time: Duration,
    ) -> Result<DpdkLpmTurn, String> {
        let what = |why: &dyn std::fmt::Display| format!("dpdk_lpm_mem: {why}");
        if let Some(questions) = &mut self.questions {
            let seconds = time.as_secs_f64();
            writeln!(questions, "{kind} {} {seconds}", keys.display()).map_err(|e| what(&e))?;
        }
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|e| what(&e))?;
        let turn: DpdkLpmTurn = serde_json::from_str(&line).map_err(|e| what(&e))?;
        let is_first = self.build_s.replace(turn.build_s).is_none();
        if is_first && turn.pages.starts_with('4') {
            eprintln!("plexus: the peer has no 2 MiB pages, so it is not at its best");
        }
        Ok(turn)
    }
}

impl Drop for DpdkLpm {
    fn drop(&mut self) {
        drop(self.questions.take()); // It ends with its input.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_only_if_no_packet_was_lost() {
        let answer = |conserved| {
            format!(r#"{{"name":"dpdk_l2_mem","mpps":41.5,"pages":"2M","conserved":{conserved}}}"#)
        };
        assert_eq!(understand(answer(true).as_bytes()).unwrap().mpps, 41.5);
        assert!(understand(answer(false).as_bytes()).is_err());
        assert!(understand(b"Segmentation fault").is_err());
    }

    #[test]
    fn a_directory_that_is_none_is_an_error() {
        assert!(Peers::find(Some("no/such/place".into())).is_err());
        assert!(Peers::none().program("dpdk_l2_mem").is_none());
    }
}
