//! What forwards in a [`Bench`]: how each program gets the routes and is started.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use plexus_api::answer::router::Route;
use plexus_api::{Client, Request};
use plexus_benches::ndr::trial::Running;

use super::super::axon_vm::command;
use super::{Bench, READY};

impl Bench {
    pub(super) fn plexus(&mut self, routes: &[(Ipv4Addr, u8)]) -> Result<(), String> {
        let mut lines = String::with_capacity(routes.len() * 32);
        for (i, (address, len)) in routes.iter().enumerate() {
            let _ = writeln!(lines, "{address}/{len} 10.1.{}.2", i % 2);
        }
        let file = self.dir.write("routes", lines.as_bytes())?;
        let socket = self.dir.join("r.sock");
        let mut text = format!(
            "name = \"r\"\ncontrol = \"{}\"\n[router]\nroutes = \"{}\"\n",
            socket.display(),
            file.display()
        );
        for (name, network) in [("rs", 0), ("rd", 1)] {
            for i in 0..2 {
                let _ = write!(
                    text,
                    "[[port]]\nname = \"{name}{i}\"\ndevice = \"{name}{i}\"\n[[interface]]\n\
                     name = \"i{name}{i}\"\nport = \"{name}{i}\"\n\
                     address = \"10.{network}.{i}.1/24\"\n"
                );
            }
        }
        let config = self.dir.write("r.toml", text.as_bytes())?;
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut node = Command::new(own);
        node.args(["node", "run", "--config"]).arg(config);
        self.start(node, || (0..2).all(|i| knows(&socket, i)))
    }

    /// Starts what forwards, and waits until it is up.
    pub(super) fn start(
        &mut self,
        mut program: Command,
        is_up: impl Fn() -> bool,
    ) -> Result<(), String> {
        self.router.apply(&mut program).map_err(|e| e.to_string())?;
        let name = program.get_program().display().to_string();
        let router = self.daemon.insert(Running::start(program, "the router")?);
        let end = Instant::now() + READY;
        while !is_up() {
            if router.ended()?.is_some() || Instant::now() > end {
                let said = router.said();
                let said: Vec<&str> = said.lines().map(str::trim).take(3).collect();
                return Err(format!("{name} does not come to forward: {}", said.join("; ")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(super) fn linux(&self, routes: &[(Ipv4Addr, u8)]) -> Result<(), String> {
        for (name, network) in [("rs", 0), ("rd", 1)] {
            for i in 0..2 {
                let line = format!("ip address add 10.{network}.{i}.1/24 dev {name}{i}");
                command(&self.router, &line)?;
            }
        }
        let mut lines = String::with_capacity(routes.len() * 40);
        for (i, (address, len)) in routes.iter().enumerate() {
            let _ = writeln!(lines, "route replace {address}/{len} via 10.1.{}.2", i % 2);
        }
        let file = self.dir.write("routes", lines.as_bytes())?;
        command(&self.router, &format!("ip -batch {}", file.display()))?;
        let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        let done = self.router.run(forward).map_err(|e| e.to_string())?;
        done.map_err(|e| format!("turning on Linux's forwarding: {e}"))
    }
}

/// Whether a running router knows the gateway of a sink.
fn knows(socket: &Path, sink: usize) -> bool {
    let ask = || -> Option<bool> {
        let mut client = Client::connect(socket, Duration::from_secs(5)).ok()?;
        let address = format!("198.18.{sink}.1").parse().ok()?;
        let answer: Route = client.get(&Request::Route(address)).ok()?;
        Some(answer.routes.first()?.next_hops.first()?.mac.is_some())
    };
    ask() == Some(true)
}
