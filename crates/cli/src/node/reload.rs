//! What of a node's file can change while it runs.

use plexus_config::{FabricFile, LaneChoice, NamedSettings, NodeFile, PortFile, RouterSettings};

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
    if fixed(now) != fixed(new) {
        return Err("name, control, metrics, workers, frames, the fabric's settings but its \
                    lanes, the router's but its routes, those of named data but its routes, \
                    strategies, regions, anchors, certificates and secrets, and the ports' names, \
                    devices, roles, back-ends, tunnels, workers and faults change only with a \
                    restart"
            .into());
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

/// What no running node can change.
fn fixed(file: &NodeFile) -> impl PartialEq {
    let port = |p: &PortFile| {
        let name = (p.name.clone(), p.device.clone(), p.role);
        (name, p.backend, p.tunnel, p.worker, p.faults.clone())
    };
    let ports: Vec<_> = file.ports.iter().map(port).collect();
    let lanes = LaneChoice::default();
    let fabric = file.fabric.clone().map(|fabric| FabricFile { lanes, ..fabric });
    let routes = Vec::new();
    let router = file.router.clone().map(|router| RouterSettings { routes, ..router });
    let named = file.named.clone().map(|named| NamedSettings {
        routes: Vec::new(),
        strategies: Vec::new(),
        regions: Vec::new(),
        anchors: Vec::new(),
        certificates: Vec::new(),
        secrets: Vec::new(),
        ..named
    });
    let node = (file.name.clone(), file.control.clone(), file.metrics, fabric, router, named);
    (node, file.workers, file.frames, file.backend, ports)
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
        assert!(told.contains("change only with a restart"), "{told}");
    }
}
