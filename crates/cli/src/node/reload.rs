//! What of a node's file can change while it runs.

use plexus_config::{LaneChoice, NamedSettings, NodeFile, PortFile};

use super::router;

/// Holds a changed file against the one in force, both [expanded](router::expand).
///
/// # Errors
/// When it changes what only a restart can.
pub(super) fn check(now: &NodeFile, new: &NodeFile) -> Result<(), String> {
    let dispatch = |file: &NodeFile| file.named.as_ref().map(|named| named.dispatch.clone());
    if now.named.is_some() && new.named.is_some() && dispatch(now) != dispatch(new) {
        return Err("[[named.dispatch]] changes only with a restart: the answers to what is \
                    pending would come to other workers than those that wait for them"
            .into());
    }
    if let Some(what) = difference(&fixed(now).to_toml(), &fixed(new).to_toml()) {
        return Err(format!("{what} changes only with a restart"));
    }
    let (Some(was), Some(router)) = (&now.router, &new.router) else { return Ok(()) };
    let carried = router::carried(now, was)?.into_iter().zip(router::carried(new, router)?);
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

/// A file without what a running node can change.
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
        ..named
    });
    fixed
}

/// What differs first in two files, as files call it; `None` if nothing does.
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
        // A line that is in one file alone has come, or gone.
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
            router::expand(NodeFile::parse("r", &text).unwrap()).unwrap()
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
            (&port, &port.replace("p1", "p2"), "name of [[port]]"),
            (&port, node, "[[port]]"),
        ] {
            assert_eq!(check(now, new), Err(told.into()), "{now}\n{new}");
        }
        let strategy = "[[named.strategy]]\nprefix = \"/a\"\nstrategy = \"asf\"\n";
        let changed = format!("{named}regions = [\"/r\"]\n{strategy}");
        assert_eq!(check(&named, &changed), Ok(()));
        assert_eq!(check(&port, &format!("{port}vlan = 7\n")), Ok(()));
    }
}
