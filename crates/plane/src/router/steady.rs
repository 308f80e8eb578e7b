//! The router's decision for every sound packet of a flow, for rules of the fast table.

use std::net::IpAddr;

use plexus_config::ReversePath;
use plexus_io::fast::Routed;
use plexus_table::lpm::GroupId;

use super::fib::FibBatch;
use super::plan::{Adjacency, GROUP_VLAN, GroupKind, InterfacePlan, RouterPlan};
use super::{ipv4, ipv6};

/// The neighbour that packets of a flow go to that come in by an interface, if that is the same for
/// all of them. Packets that are damaged, too long or at the end of their time to live are not
/// meant. `lies_beyond`: whether the group's router takes them without a route to their source.
pub(crate) fn next_hop<'a>(
    plan: &'a RouterPlan,
    fib: &FibBatch<'_>,
    interface: &InterfacePlan,
    flow: &Routed,
    lies_beyond: impl FnOnce() -> bool,
    seed: u64,
) -> Option<(u16, &'a Adjacency)> {
    let (source, destination) = (flow.source, flow.destination);
    let may_go = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ![source, destination].into_iter().any(|end| ipv4::is_martian(end.to_bits()))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            [source, destination].into_iter().all(|end| ipv6::is_beyond_the_link(end.to_bits()))
        }
        _ => false,
    };
    let group = |address: IpAddr| plan.group(find(fib, address));
    let may_come = match interface.reverse_path {
        ReversePath::Off => true,
        ReversePath::Loose => {
            matches!(group(source).kind, GroupKind::Forward | GroupKind::Glean)
        }
        ReversePath::Strict if interface.vlan == GROUP_VLAN => {
            let group = group(source);
            group.kind != GroupKind::Glean
                && (plan.is_behind(group, &flow.flow.source.0) || lies_beyond())
        }
        ReversePath::Strict => plan.leads_to(group(source), interface.vlan),
    };
    if !may_go || !may_come {
        return None;
    }
    let group = group(destination);
    let key = flow.five_tuple().filter(|_| group.has_several());
    plan.resolved_member(group, key.map(|key| key.hash(seed)))
}

/// Whether the ports of a packet decide which neighbour it goes to.
pub(crate) fn has_several(plan: &RouterPlan, fib: &FibBatch<'_>, destination: IpAddr) -> bool {
    plan.has_groups_of_several() && plan.group(find(fib, destination)).has_several()
}

/// The neighbour that all packets to an address go to, if there is one.
pub(crate) fn only_neighbour<'a>(
    plan: &'a RouterPlan,
    fib: &FibBatch<'_>,
    destination: IpAddr,
) -> Option<&'a Adjacency> {
    let (_, adjacency) = plan.resolved_member(plan.group(find(fib, destination)), None)?;
    Some(adjacency)
}

fn find(fib: &FibBatch<'_>, address: IpAddr) -> Option<GroupId> {
    match address {
        IpAddr::V4(address) => fib.find_v4(address.to_bits()),
        IpAddr::V6(address) => fib.find_v6(address.to_bits()),
    }
}
