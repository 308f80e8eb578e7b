//! The node file: read by `plexus node run --config FILE`, and written by a lab.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backend::Backend;
use crate::document::{At, Lines, Section, read_document, read_text};
use crate::error::{FileError, ValueError, quote};
use crate::fast_table::FastTable;
use crate::name::{check_device, check_name, parse_kernel_device};
use crate::named::NamedSettings;
use crate::port::{FaultSettings, StaticMacEntry};
use crate::router::RouterSettings;
use crate::settings::{LaneChoice, PortSettings, PortUse, SwitchSettings, VlanMode};
use crate::tunnel::Tunnel;
use crate::units::parse_duration;

/// Longest path of a Unix socket, in bytes: `sun_path` of unix(7) less its final zero.
const SOCKET_PATH_MAX: usize = 107;
const WORKERS_MAX: u64 = 256;
/// A port's rings alone hold some hundred frames.
const FRAMES: RangeInclusive<u64> = 256..=1 << 22;

/// A node's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFile {
    /// The node's name.
    pub name: String,
    /// Path of the control socket; `/run/plexus/NAME.sock` unless the file says otherwise.
    pub control: PathBuf,
    /// Where Prometheus metrics are served, if at all.
    pub metrics: Option<SocketAddr>,
    /// Threads that move frames.
    pub workers: usize,
    /// Frames in each worker's pool.
    pub frames: usize,
    /// The back-end of the ports that name none.
    pub backend: Backend,
    /// The table that forwards flows in place of the workers.
    pub fast_table: FastTable,
    /// How long that table goes on when the node has ended; none: not at all.
    pub fast_table_persist: Option<Duration>,
    /// The box is a node of a fabric; `None`: a switch of its own.
    pub fabric: Option<FabricFile>,
    /// Router settings, if it routes.
    pub router: Option<RouterSettings>,
    /// Named-data settings, if it forwards named data.
    pub named: Option<NamedSettings>,
    /// Settings of the whole switch, static stations included.
    pub switch: SwitchSettings,
    /// The ports, in the order of the file.
    pub ports: Vec<PortFile>,
}

/// Settings of a fabric node.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricFile {
    /// Path of the identity that the group's authority has issued to this node.
    pub identity: PathBuf,
    /// Time between Heartbeats; the same in the whole group.
    pub heartbeat: Duration,
    /// Frames travel without encapsulation on links where both ends have this setting.
    pub native: bool,
    /// Which of several routes a host's flow takes from here.
    pub lanes: LaneChoice,
    /// Where every input of the control plane is written, for replay.
    pub record: Option<PathBuf>,
    /// Devices of this box's kernel, on which routing daemons listen for the whole group: those
    /// that the subnets of the controller name, which runs here.
    pub kernel: Vec<String>,
    /// The device of a controller on this box. The node makes it, and has its other end as a port.
    pub controller: Option<String>,
}

impl FabricFile {
    /// The usual settings.
    pub fn new(identity: PathBuf) -> FabricFile {
        FabricFile {
            identity,
            heartbeat: Duration::from_millis(100),
            native: false,
            lanes: LaneChoice::default(),
            record: None,
            kernel: Vec::new(),
            controller: None,
        }
    }

    fn read(root: &Section<'_>) -> Option<FabricFile> {
        let section = root.section("fabric", "the fabric")?;
        let identity = section.required_text("identity", "\"/etc/plexus/n1.identity\"");
        let usual = FabricFile::new(identity.map_or(PathBuf::new(), |i| i.value.into()));
        let kernel = section.list("kernel", parse_kernel_device).unwrap_or_default();
        let controller = section.parsed("controller", parse_kernel_device);
        if let Some(At { value, span }) = controller.as_ref().filter(|c| kernel.contains(&c.value))
        {
            let message = format!("device {} is one of routing daemons", quote(value));
            section.problems().add(span.clone(), message, "give the controller its own device");
        }
        Some(FabricFile {
            heartbeat: section.quantity_or("heartbeat", parse_heartbeat, usual.heartbeat),
            native: section.is_set("native"),
            lanes: section.choice_or("lanes", &LaneChoice::NAMES, usual.lanes),
            record: section.text("record").map(|r| r.value.into()),
            kernel,
            controller: controller.map(|device| device.value),
            identity: usual.identity,
        })
    }

    fn write(&self, lines: &mut Lines) {
        let usual = FabricFile::new(PathBuf::new());
        lines.heading("[fabric]");
        lines.value("identity", &self.identity);
        lines.unusual("heartbeat", &self.heartbeat, &usual.heartbeat);
        lines.unusual("native", &self.native, &false);
        lines.unusual("lanes", &self.lanes, &usual.lanes);
        lines.given("record", self.record.as_ref());
        lines.value("kernel", &self.kernel[..]);
        lines.given("controller", self.controller.as_ref());
    }
}

/// A port of a node's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct PortFile {
    /// The port's name.
    pub name: String,
    /// The network device behind it; by default the one with the port's name. A tunnel has none.
    pub device: String,
    /// Its back-end; `None`: the node's.
    pub backend: Option<Backend>,
    /// The ends of a tunnel, if the back-end is [`Backend::Udp`].
    pub tunnel: Option<Tunnel>,
    /// What it may lead to, in a fabric.
    pub role: PortUse,
    /// The worker it is pinned to, from 0; `None`: the node chooses.
    pub worker: Option<usize>,
    /// How it switches.
    pub settings: PortSettings,
    /// Faults injected on reception.
    pub faults: Option<FaultSettings>,
}

impl PortFile {
    /// A port with the usual settings on the device of the same name.
    pub fn new(name: &str) -> PortFile {
        PortFile {
            name: name.to_string(),
            device: name.to_string(),
            backend: None,
            tunnel: None,
            role: PortUse::Auto,
            worker: None,
            settings: PortSettings::default(),
            faults: None,
        }
    }

    /// The place of a port that a running node has given up, so that the others keep their numbers.
    /// It carries no VLAN, and no file can name it.
    pub fn vacant() -> PortFile {
        let mut port = PortFile::new("");
        port.settings.vlan = VlanMode::Trunk { allowed: Vec::new(), native: None };
        port
    }

    /// Whether no port is here any more.
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty()
    }
}

impl NodeFile {
    /// A port's name, for people; `?` if there is no such port.
    pub fn port_name(&self, port: usize) -> &str {
        self.ports.get(port).map_or("?", |port| &port.name)
    }

    /// A node with the usual settings and no ports.
    pub fn new(name: &str) -> NodeFile {
        NodeFile {
            name: name.to_string(),
            control: usual_control(name),
            metrics: None,
            workers: 1,
            frames: 8192,
            backend: Backend::Auto,
            fast_table: FastTable::default(),
            fast_table_persist: None,
            fabric: None,
            router: None,
            named: None,
            switch: SwitchSettings::default(),
            ports: Vec::new(),
        }
    }

    /// Reads a node file from disk.
    ///
    /// # Errors
    /// When it cannot be read, or with everything that is wrong in it.
    pub fn read(path: &Path) -> Result<NodeFile, FileError> {
        let text = read_text(path)?;
        NodeFile::parse(&path.display().to_string(), &text)
    }

    /// Reads a node file from its text; `file` is what messages call it.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse(file: &str, text: &str) -> Result<NodeFile, FileError> {
        read_document(file, text, "a node", read_node)
    }

    /// Writes the file; [`NodeFile::parse`] returns an equal value.
    pub fn to_toml(&self) -> String {
        let usual = NodeFile::new(&self.name);
        let mut lines = Lines::default();
        lines.text("name", &self.name);
        lines.unusual("control", &self.control, &usual.control);
        lines.given("metrics", self.metrics);
        lines.entry("workers", self.workers);
        lines.entry("frames", self.frames);
        lines.value("backend", &self.backend);
        lines.unusual("fast_table", &self.fast_table, &usual.fast_table);
        lines.given("fast_table_persist", self.fast_table_persist);
        self.switch.write(&mut lines);
        if let Some(fabric) = &self.fabric {
            fabric.write(&mut lines);
        }
        for port in &self.ports {
            lines.heading("[[port]]");
            lines.text("name", &port.name);
            lines.unusual("device", &port.device, &port.name);
            lines.given("backend", port.backend);
            if let Some(tunnel) = &port.tunnel {
                tunnel.write(&mut lines);
            }
            lines.unusual("role", &port.role, &PortUse::Auto);
            lines.given("worker", port.worker);
            port.settings.write(&mut lines);
            if let Some(faults) = &port.faults {
                faults.write(&mut lines);
            }
        }
        if let Some(router) = &self.router {
            router.write(&mut lines, "");
        }
        if let Some(named) = &self.named {
            named.write(&mut lines, "");
        }
        self.switch.write_static_macs("[[static_mac]]", &mut lines);
        lines.finish()
    }
}

pub(crate) fn usual_control(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/plexus/{name}.sock"))
}

pub(crate) fn parse_heartbeat(text: &str) -> Result<Duration, ValueError> {
    let help = "write a time from \"5ms\" to \"10s\", the same on every node of the group";
    parse_within(text, Duration::from_millis(5)..=Duration::from_secs(10), help)
}

fn parse_persist(text: &str) -> Result<Duration, ValueError> {
    let help = "write a time from \"1s\" to \"1h\"";
    parse_within(text, Duration::from_secs(1)..=Duration::from_secs(3600), help)
}

fn parse_within(
    text: &str,
    range: RangeInclusive<Duration>,
    help: &str,
) -> Result<Duration, ValueError> {
    let time = parse_duration(text)?;
    if !range.contains(&time) {
        return Err(ValueError::new(format!("{} is out of range", quote(text)), help));
    }
    Ok(time)
}

fn read_node(root: &Section<'_>) -> Option<NodeFile> {
    let problems = root.problems();
    let name = root.required_text("name", "\"sw1\"");
    if let Some(name) = &name {
        problems.note(name.span.clone(), check_name("node", name.value));
    }
    let name = name.map_or("", |n| n.value);
    let usual = NodeFile::new(name);
    let workers = root.integer_or("workers", 1..=WORKERS_MAX, 1);
    let mut switch = SwitchSettings::read(root);
    if switch.deep_buffer.chip.take().is_some()
        && let Some(span) = root.span_of("deep_buffer")
    {
        let message = "only the simulator has a switching chip";
        root.problems().add(span, message, "take \"chip\" out: this box does all in software");
    }
    let ports = read_ports(root, workers);
    let entries = StaticMacEntry::read(root);
    let names: Vec<_> = ports.iter().map(|p| (p.name.as_str(), &p.settings)).collect();
    switch.static_macs = StaticMacEntry::resolve(entries, &names, problems);
    let router = RouterSettings::read(root);
    if let Some((router, spans)) = &router {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        router.check(spans, &names, problems);
        if root.has("fabric") {
            let ports: Vec<_> =
                ports.iter().map(|p| (p.name.as_str(), p.role, &p.settings)).collect();
            router.check_beside_fabric(spans, &ports, problems);
        }
    }
    let backend = root.choice_or("backend", &Backend::of_devices(), usual.backend);
    // Of a TAP device the port has one end, and the kernel the other, which is a device like any.
    let takes = |p: &&PortFile| p.tunnel.is_none() && p.backend.unwrap_or(backend) != Backend::Tap;
    let taken: Vec<&str> = ports.iter().filter(takes).map(|p| p.device.as_str()).collect();
    let named = NamedSettings::read(root, &taken);
    let fast_table = root.choice_or("fast_table", &FastTable::NAMES, usual.fast_table);
    let fast_table_persist = root.quantity("fast_table_persist", parse_persist);
    if let Some(At { span, .. }) = &fast_table_persist
        && matches!(fast_table, FastTable::Xdp | FastTable::Off)
    {
        let help = "take it out, or write fast_table = \"tcx\"";
        problems.add(span.clone(), format!("fast_table = \"{fast_table}\" cannot persist"), help);
    }
    Some(NodeFile {
        name: name.to_string(),
        control: root.parsed("control", parse_socket_path).map_or(usual.control, |c| c.value),
        metrics: root.parsed("metrics", parse_listen_address).map(|m| m.value),
        workers,
        frames: root.integer_or("frames", FRAMES, usual.frames),
        backend,
        fast_table,
        fast_table_persist: fast_table_persist.map(|persist| persist.value),
        fabric: FabricFile::read(root),
        router: router.map(|(router, _)| router),
        named,
        switch,
        ports,
    })
}

pub(crate) fn parse_socket_path(text: &str) -> Result<PathBuf, ValueError> {
    let help = format!("write a path of at most {SOCKET_PATH_MAX} bytes (unix(7))");
    if text.is_empty() || text.contains('\0') {
        return Err(ValueError::new("this is no path for a socket", help));
    }
    if text.len() > SOCKET_PATH_MAX {
        return Err(ValueError::new(format!("the path has {} bytes", text.len()), help));
    }
    Ok(PathBuf::from(text))
}

pub(crate) fn parse_listen_address(text: &str) -> Result<SocketAddr, ValueError> {
    text.parse().map_err(|_| {
        ValueError::new(
            format!("{} is not an address to listen on", quote(text)),
            "write address and port, as in \"127.0.0.1:9464\" or \"[::1]:9464\"",
        )
    })
}

fn read_ports(root: &Section<'_>, workers: usize) -> Vec<PortFile> {
    let problems = root.problems();
    let mut ports = Vec::new();
    let mut names = HashMap::new();
    let mut devices = HashMap::new();
    for section in root.sections("port", "a port") {
        let name = section.required_text("name", "\"p1\"");
        let device = section.text("device");
        if let Some(name) = &name {
            if let Err(e) = check_name("port", name.value) {
                problems.add(name.span.clone(), e.message, e.help);
            } else if names.insert(name.value, ()).is_some() {
                let message = format!("there are two ports {}", quote(name.value));
                problems.add(name.span.clone(), message, "give each port its own name");
            }
        }
        let name_given = name.is_some();
        let name = name.unwrap_or(At { value: "", span: section.span() });
        let device_given = device.is_some();
        let device = device.unwrap_or(name.clone());
        let backend = section.choice("backend", &Backend::of_ports());
        let is_tunnel = backend.as_ref().is_some_and(|b| b.value == Backend::Udp);
        let tunnel = is_tunnel.then(|| read_tunnel(root, &section, &ports)).flatten();
        if is_tunnel {
            // It has no device that another port could use.
        } else if let Err(e) = check_device(device.value) {
            let help = if device_given {
                e.help
            } else {
                format!("{}; or keep the name and add device = \"…\"", e.help)
            };
            if name_given || device_given {
                problems.add(device.span.clone(), e.message, help);
            }
        } else if let Some(other) = devices.insert(device.value, name.value) {
            let message =
                format!("device {} is that of port {}", quote(device.value), quote(other));
            if other != name.value {
                problems.add(device.span.clone(), message, "give each port its own device");
            }
        }
        if !is_tunnel {
            Tunnel::refuse(&section);
        }
        let role = PortUse::read(&section, root.has("fabric"));
        if let (true, PortUse::Host | PortUse::Switch, Some(span)) =
            (is_tunnel, role, section.span_of("role"))
        {
            let message = "a tunnel leads to a node, never to hosts";
            section.problems().add(span, message, "take the role out");
        }
        let worker = section.integer("worker", 0..=WORKERS_MAX - 1);
        if let Some(worker) = &worker
            && worker.value >= workers as u64
        {
            let message = format!("there is no worker {}: workers count from 0", worker.value);
            let help = if workers == 1 {
                "this node has one worker, 0; add workers = N at the top for more".to_string()
            } else {
                format!("this node has workers 0 to {}", workers - 1)
            };
            problems.add(worker.span.clone(), message, help);
        }
        ports.push(PortFile {
            name: name.value.to_string(),
            device: device.value.to_string(),
            backend: backend.map(|b| b.value),
            tunnel,
            role,
            worker: worker.map(|w| w.value as usize),
            settings: PortSettings::read(&section),
            faults: FaultSettings::read(&section),
        });
    }
    ports
}

/// The ends of a tunnel; only a fabric node has tunnels, and no two of them have the same ends.
fn read_tunnel(root: &Section<'_>, section: &Section<'_>, ports: &[PortFile]) -> Option<Tunnel> {
    if !root.has("fabric") {
        let message = "a tunnel leads to a node of the same fabric, and this node is in none";
        let help = "add [fabric] with identity = \"/etc/plexus/n1.identity\" above the ports";
        section.problems().add(section.near("backend"), message, help);
    }
    let tunnel = Tunnel::read(section)?;
    let others = ports.iter().filter_map(|p| Some((p.name.as_str(), p.tunnel.as_ref()?)));
    tunnel.check_ends(section, others);
    Some(tunnel)
}
