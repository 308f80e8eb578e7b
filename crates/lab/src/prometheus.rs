//! Prometheus for a lab that is up: it reads the metrics of all daemons, with the alert rules that
//! ship. A lab's daemons are in namespaces, so this process asks them at their control sockets and
//! serves the answers at an address of its own.

use std::fs::{self, File, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plexus_api::answer::Metrics;
use plexus_api::{Client, Request};
use plexus_web::serve_metrics;
use tempfile::{Builder, TempDir};

use crate::error::{Doing, Error};
use crate::launch;
use crate::status::LabStatus;

const RULES: [(&str, &str); 2] = [
    ("nodes.rules.yml", include_str!("../../../examples/nodes.rules.yml")),
    ("controllers.rules.yml", include_str!("../../../examples/controllers.rules.yml")),
];
/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it may take to begin.
const BEGIN: Duration = Duration::from_secs(20);

/// A Prometheus, and the folder of its files. It ends when this is dropped, or when this process is
/// killed; then the folder stays.
pub struct Prometheus {
    child: Child,
    _folder: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts Prometheus for a lab that is up; it listens at this address.
///
/// # Errors
/// When there is no such lab, or Prometheus is not installed or does not start.
pub fn start_prometheus(lab: &str, listen: SocketAddr) -> Result<Prometheus, Error> {
    let status = launch::status(lab)?;
    // Another program there, such as the machine's own Prometheus, would seem to be ours.
    let is_free = TcpListener::bind(listen).map(drop);
    is_free.doing(|| format!("listening at {listen}: choose another address with --prometheus"))?;
    // For this user alone.
    let mode = Permissions::from_mode(0o700);
    let folder = Builder::new().prefix("plexus-prometheus-").permissions(mode).tempdir();
    let folder = folder.doing(|| "creating a folder".to_string())?;
    let name = lab.to_string();
    let answer = move |daemon: &str| metrics_of(&name, daemon);
    let at = serve_metrics(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), answer);
    let at = at.map_err(Error::Unsupported)?;
    write(folder.path(), "prometheus.yml", &config(&status, at))?;
    RULES.iter().try_for_each(|(name, text)| write(folder.path(), name, text))?;

    let log = folder.path().join("log");
    let out = File::create(&log).doing(|| format!("creating {}", log.display()))?;
    // It ends with this process, whatever ends that.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "prometheus", "--config.file=prometheus.yml"]);
    command.arg("--storage.tsdb.path=data").arg(format!("--web.listen-address={listen}"));
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
    let child = command.spawn().doing(|| "starting prometheus".to_string())?;
    let mut prometheus = Prometheus { child, _folder: folder };
    let begun = Instant::now();
    loop {
        let answers = TcpStream::connect(listen).is_ok();
        let has_ended = prometheus.child.try_wait().is_ok_and(|ended| ended.is_some());
        if answers && !has_ended {
            return Ok(prometheus);
        }
        if has_ended || begun.elapsed() > BEGIN {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let said = text.lines().last().unwrap_or("it does not answer");
            let (command, said) = ("prometheus".to_string(), said.to_string());
            if said.contains("setpriv: failed to execute") {
                return Err(Error::Tool { tool: "prometheus", package: "prometheus" });
            }
            return Err(Error::Command { command, said });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Error> {
    let file = folder.join(name);
    fs::write(&file, text).doing(|| format!("writing {}", file.display()))
}

/// The metrics of a node or controller of the lab.
fn metrics_of(lab: &str, daemon: &str) -> Result<String, String> {
    let status = launch::status(lab).map_err(|e| e.to_string())?;
    let nodes = status.nodes.iter().filter_map(|n| Some((&n.name, n.control.as_ref()?)));
    let controllers = status.controllers.iter().map(|c| (&c.name, &c.control));
    let socket = nodes.chain(controllers).find(|(name, _)| *name == daemon);
    let (_, socket) = socket.ok_or_else(|| format!("lab {lab} has no daemon {daemon:?}"))?;
    let mut client = Client::connect(socket, PATIENCE).map_err(|e| e.to_string())?;
    let answer: Metrics = client.get(&Request::Metrics(true)).map_err(|e| e.to_string())?;
    Ok(answer.metrics)
}

/// Prometheus' own file: each daemon is a target, by its name, at a path of the address.
fn config(status: &LabStatus, at: SocketAddr) -> String {
    let job = |job: &str, names: Vec<&String>| {
        format!(
            "  - job_name: {job}\n    static_configs: [{{targets: {names:?}}}]\n    \
             relabel_configs:\n      \
             - {{source_labels: [__address__], target_label: instance}}\n      \
             - {{source_labels: [__address__], replacement: \"/metrics/$1\", \
             target_label: __metrics_path__}}\n      \
             - {{target_label: __address__, replacement: \"{at}\"}}\n"
        )
    };
    let nodes = job("plexus-nodes", status.nodes.iter().map(|node| &node.name).collect());
    let controllers =
        job("plexus-controllers", status.controllers.iter().map(|c| &c.name).collect());
    let rules: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
    format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 5s}}\nrule_files: {rules:?}\n\
         scrape_configs:\n{nodes}{controllers}"
    )
}
