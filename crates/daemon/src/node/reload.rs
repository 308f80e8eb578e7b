//! Which parts of a node's file can change while it runs.

use plexus_config::{LaneChoice, NamedSettings, NodeFile, PortFile};
use plexus_io::PortId;
use plexus_plane::FABRIC_PORTS_MAX;

/// A changed file whose ports are where the running node has them.
pub(super) struct Placed {
    /// Its ports keep their numbers. A removed port leaves a vacant place, and new ports follow the
    /// others.
    pub(super) file: NodeFile,
    /// The removed ports.
    pub(super) removed: Vec<PortId>,
}

/// Puts the ports of a changed file where the running node has them. A new port goes to the worker
/// with the fewest, unless the file says to which.
pub(super) fn place(now: &NodeFile, mut new: NodeFile) -> Placed {
    let mut rest: Vec<Option<PortFile>> = new.ports.drain(..).map(Some).collect();
    let mut removed = Vec::new();
    for (id, old) in (0..).zip(&now.ports) {
        let same = |p: &&mut Option<PortFile>| p.as_ref().is_some_and(|p| p.name == old.name);
        let port = match rest.iter_mut().find(same).and_then(Option::take) {
            Some(port) => PortFile { worker: port.worker.or(old.worker), ..port },
            None => {
                removed.extend((!old.is_vacant()).then_some(id));
                PortFile::vacant()
            }
        };
        new.ports.push(port);
    }
    for port in rest.into_iter().flatten() {
        let load =
            |w: &usize| new.ports.iter().filter(|p| p.worker == Some(*w) && !p.is_vacant()).count();
        let worker = port.worker.or_else(|| (0..new.workers).min_by_key(load));
        new.ports.push(PortFile { worker, ..port });
    }
    Placed { file: new, removed }
}

/// Compares a changed file, [placed](place), with the one in force. Both are
/// [expanded](plexus_node::ports::expand).
///
/// # Errors
/// When it changes what only a restart can.
pub(super) fn check(now: &NodeFile, new: &NodeFile) -> Result<(), String> {
    if new.fabric.is_some() && new.ports.len() > FABRIC_PORTS_MAX {
        return Err(format!(
            "a fabric node has at most {FABRIC_PORTS_MAX} numbers for ports, and those of removed \
             ports are free only after a restart"
        ));
    }
    let dispatch = |file: &NodeFile| file.named.as_ref().map(|named| named.dispatch.clone());
    if now.named.is_some() && new.named.is_some() && dispatch(now) != dispatch(new) {
        return Err("[[named.dispatch]] changes only with a restart: the answers to what is \
                    pending would come to other workers than those that wait for them"
            .into());
    }
    // Added and removed ports are no difference.
    let both = |file: &NodeFile| {
        let mut fixed = fixed(file);
        let kept = now.ports.iter().zip(&new.ports).map(|(a, b)| !a.is_vacant() && !b.is_vacant());
        let mut kept = kept.chain(std::iter::repeat(false));
        fixed.ports.retain(|_| kept.next() == Some(true));
        fixed
    };
    if let Some(what) = difference(&both(now).to_toml(), &both(new).to_toml()) {
        return Err(format!("{what} changes only with a restart"));
    }
    let (Some(was), Some(router)) = (&now.router, &new.router) else { return Ok(()) };
    let carried = plexus_node::ports::carried(now, was)?
        .into_iter()
        .zip(plexus_node::ports::carried(new, router)?);
    for ((was, is), interface) in carried.zip(&router.interfaces) {
        let name = &interface.name;
        if was.vlan != is.vlan {
            return Err(format!(
                "a port would carry VLAN {}, which interface {name} has for its port alone: let \
                 the ports carry other VLANs, or restart the node",
                was.vlan
            ));
        }
        if was != is {
            return Err(format!(
                "which ports carry interface {name}'s VLAN {} changes only with a restart",
                is.vlan
            ));
        }
    }
    Ok(())
}

/// A file without the parts that can change.
fn fixed(file: &NodeFile) -> NodeFile {
    let mut fixed = NodeFile { switch: NodeFile::new(&file.name).switch, ..file.clone() };
    for port in &mut fixed.ports {
        port.settings = PortFile::new(&port.name).settings;
    }
    if let Some(fabric) = &mut fixed.fabric {
        fabric.lanes = LaneChoice::default();
    }
    if let Some(router) = &mut fixed.router {
        router.routes = Vec::new();
    }
    fixed.named = fixed.named.map(|named| NamedSettings {
        routes: Vec::new(),
        strategies: Vec::new(),
        regions: Vec::new(),
        anchors: Vec::new(),
        certificates: Vec::new(),
        secrets: Vec::new(),
        prefetch: 0,
        ..named
    });
    fixed
}

/// The first key that differs in two files; `None` if they are equal.
fn difference(now: &str, new: &str) -> Option<String> {
    let key = |line: &str| line.split(" = ").next().unwrap_or_default().to_string();
    let mut heading = "";
    let [mut old_lines, mut new_lines] =
        [now, new].map(|text| text.lines().filter(|line| !line.is_empty()));
    loop {
        let (old, new) = match (old_lines.next(), new_lines.next()) {
            (None, None) => return None,
            (Some(old), Some(new)) if old == new => {
                heading = if old.starts_with('[') { old } else { heading };
                continue;
            }
            pair => pair,
        };
        // A line that is in one file only was added or removed.
        let line = match (old, new) {
            (Some(old), Some(new)) if new_lines.any(|line| line == old) => new,
            (old, new) => old.or(new).unwrap_or_default(),
        };
        return Some(match (key(line), heading) {
            (line, _) if line.starts_with('[') => line,
            (key, "") => key,
            (key, heading) => format!("{key} of {heading}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_keep_their_numbers_and_new_ones_follow() {
        let file = |names: &[&str]| {
            let ports = names.iter().map(|n| format!("[[port]]\nname = \"{n}\"\n"));
            let text = format!("name = \"n\"\nworkers = 2\n{}", ports.collect::<String>());
            NodeFile::parse("n", &text).unwrap()
        };
        let names = |file: &NodeFile| {
            file.ports.iter().map(|p| p.name.clone()).collect::<Vec<_>>().join(",")
        };
        let now = crate::node::ports::pinned(file(&["a", "b", "c"]));
        let placed = place(&now, file(&["d", "c", "a"]));
        assert_eq!((names(&placed.file), placed.removed), ("a,,c,d".into(), vec![1]));
        // Ports a and c are the first worker's.
        let owners = placed.file.ports.iter().map(|p| p.worker);
        assert_eq!(owners.collect::<Vec<_>>(), [Some(0), None, Some(0), Some(1)]);
        // A place that is vacant stays so.
        let again = place(&placed.file, file(&["b", "a"]));
        assert_eq!((names(&again.file), again.removed), ("a,,,,b".into(), vec![2, 3]));
    }

    #[test]
    fn a_fabric_node_takes_no_more_ports_than_hops_can_name() {
        let file = |names: std::ops::Range<usize>| {
            let ports = names.map(|n| format!("[[port]]\nname = \"p{n}\"\n"));
            let fabric = "[fabric]\nidentity = \"n.identity\"\n";
            let text = format!("name = \"n\"\n{fabric}{}", ports.collect::<String>());
            NodeFile::parse("n", &text).unwrap()
        };
        let now = file(0..200);
        let check = |new| check(&now, &place(&now, new).file);
        assert_eq!(check(file(0..254)), Ok(()));
        let told = check(file(100..255)).unwrap_err();
        assert!(told.contains("at most 254 numbers for ports"), "{told}");
    }

    #[test]
    fn which_worker_has_a_name_stays_as_it_is_and_its_routes_change() {
        let file = |more: &str| {
            NodeFile::parse("n", &format!("name = \"n\"\n[named]\nworkers = 2\n{more}")).unwrap()
        };
        let table = |components: u8| {
            format!("[[named.dispatch]]\nprefix = \"/web\"\ncomponents = {components}\n")
        };
        let region = format!("regions = [\"/r\"]\n{}", table(4));
        assert_eq!(check(&file(&table(4)), &file(&region)), Ok(()));
        for (was, is) in [(table(4), table(3)), (table(4), String::new())] {
            let told = check(&file(&was), &file(&is)).unwrap_err();
            assert!(told.starts_with("[[named.dispatch]] changes only with a restart"), "{told}");
        }
    }

    #[test]
    fn what_ports_carry_changes_but_for_an_interfaces_vlan() {
        let file = |p1: &str, p2: &str| {
            let text = format!(
                "name = \"r\"\n[[port]]\nname = \"p1\"\ndevice = \"e1\"\n{p1}\n\
                 [[port]]\nname = \"p2\"\ndevice = \"e2\"\n{p2}\n\
                 [[port]]\nname = \"p3\"\ndevice = \"e3\"\n\
                 [[interface]]\nname = \"lan\"\nvlan = 10\naddress = \"10.0.0.1/24\"\n\
                 [[interface]]\nname = \"wan\"\nport = \"p3\"\naddress = \"10.1.0.1/24\"\n"
            );
            plexus_node::ports::expand(NodeFile::parse("r", &text).unwrap()).unwrap()
        };
        let now = file("trunk = [10, 20]", "vlan = 20");
        assert_eq!(check(&now, &file("trunk = [10, \"20-30\"]", "vlan = 30")), Ok(()));
        // The routed port's own VLAN is one that nobody carries.
        let told = check(&now, &file("trunk = [10, 4094]", "vlan = 20")).unwrap_err();
        assert!(told.contains("carry VLAN 4094, which interface wan has"), "{told}");
        for (p1, p2) in [("trunk = [20]", "vlan = 20"), ("trunk = [10, 20]", "vlan = 10")] {
            let told = check(&now, &file(p1, p2)).unwrap_err();
            assert!(told.contains("which ports carry interface lan's VLAN 10"), "{told}");
        }
        let told = check(&now, &file("trunk = [10, 20]\nworker = 0", "vlan = 20")).unwrap_err();
        assert_eq!(told, "worker of [[port]] changes only with a restart");
    }

    #[test]
    fn what_only_a_restart_changes_is_named() {
        let check = |now: &str, new: &str| {
            let [now, new] = [now, new].map(|text| NodeFile::parse("n", text).unwrap());
            let new = place(&now, new).file;
            check(&now, &new).map_err(|told| {
                told.strip_suffix(" changes only with a restart").unwrap().to_string()
            })
        };
        let node = "name = \"n\"\n";
        let named = format!("{node}[named]\nudp = [\"127.0.0.1:6363\"]\nopen = true\n");
        let port = format!("{node}[[port]]\nname = \"p1\"\n");
        for (now, new, told) in [
            (node, "name = \"m\"\n", "name"),
            (node, &format!("{node}workers = 2\n"), "workers"),
            (node, &format!("{node}metrics = \"127.0.0.1:1\"\n"), "metrics"),
            (node, &named, "[named]"),
            (&named, node, "[named]"),
            (&named, &named.replace("6363", "6364"), "udp of [named]"),
            (&named, &named.replace("open = true\n", ""), "open of [named]"),
            (&named, &format!("{named}mtu = 1400\n"), "mtu of [named]"),
            (&named.replace("udp", "tcp"), &named, "tcp of [named]"),
            (&port, &format!("{port}device = \"e1\"\n"), "device of [[port]]"),
        ] {
            assert_eq!(check(now, new), Err(told.into()), "{now}\n{new}");
        }
        let strategy = "[[named.strategy]]\nprefix = \"/a\"\nstrategy = \"asf\"\n";
        let changed = format!("{named}prefetch = 16\nregions = [\"/r\"]\n{strategy}");
        assert_eq!(check(&named, &changed), Ok(()));
        for new in [&format!("{port}vlan = 7\n"), &port.replace("p1", "p2"), node] {
            assert_eq!(check(&port, new), Ok(()), "{new}");
        }
    }
}
