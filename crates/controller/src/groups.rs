//! Groups of hosts, and which hosts may talk to each other.
//!
//! The rules decide which hosts may *ask* for which: asking sets up the routes of both directions.
//! For a pair of hosts, in this order: a `deny` rule from a group of one to a group of the other
//! forbids; an `allow` rule permits; a common group permits; then hosts that are in no group may
//! talk, and for all others `strangers_may_talk` decides.

use std::collections::BTreeMap;

use plexus_config::{ControllerSettings, GroupRule};
use plexus_wire::{MacAddr, Prefix};

use crate::hosts::Host;

/// A rule with its groups' numbers; `None` is any host.
type Rule = (Option<u16>, Option<u16>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    names: Vec<String>,
    macs: BTreeMap<MacAddr, Vec<u16>>,
    ports: BTreeMap<(String, u8), Vec<u16>>,
    prefixes: Vec<(Prefix, u16)>,
    strangers_may_talk: bool,
    allow: Vec<Rule>,
    deny: Vec<Rule>,
}

impl Groups {
    pub(crate) fn new(settings: &ControllerSettings) -> Groups {
        let mut groups =
            Groups { strangers_may_talk: settings.strangers_may_talk, ..Groups::default() };
        for (number, group) in settings.groups.iter().enumerate().take(usize::from(u16::MAX)) {
            let number = number as u16;
            groups.names.push(group.name.clone());
            for mac in &group.macs {
                groups.macs.entry(*mac).or_default().push(number);
            }
            for port in &group.ports {
                groups.ports.entry(port.clone()).or_default().push(number);
            }
            groups.prefixes.extend(group.prefixes.iter().map(|p| (*p, number)));
        }
        groups.allow = settings.allow.iter().filter_map(|r| groups.rule(r)).collect();
        groups.deny = settings.deny.iter().filter_map(|r| groups.rule(r)).collect();
        groups
    }

    fn rule(&self, rule: &GroupRule) -> Option<Rule> {
        // A rule about a group that does not exist matches no host.
        let end = |name: &Option<String>| match name {
            None => Some(None),
            Some(name) => self.number(name).map(Some),
        };
        Some((end(&rule.from)?, end(&rule.to)?))
    }

    pub(crate) fn number(&self, name: &str) -> Option<u16> {
        self.names.iter().position(|n| n == name).map(|n| n as u16)
    }

    pub(crate) fn name(&self, number: u16) -> &str {
        self.names.get(usize::from(number)).map_or("", String::as_str)
    }

    /// The groups of a host: by its address, its port (of the node of this name), its IP addresses.
    pub(crate) fn of(&self, mac: MacAddr, host: &Host, node: &str) -> Vec<u16> {
        let mut found = self.macs.get(&mac).cloned().unwrap_or_default();
        if !self.ports.is_empty() {
            found.extend(self.ports.get(&(node.to_string(), host.at.port)).into_iter().flatten());
        }
        for (prefix, number) in &self.prefixes {
            if host.ips.iter().any(|ip| prefix.contains(*ip)) {
                found.push(*number);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The rule that decides about hosts of these groups, if one does: whether it allows, and its
    /// two groups.
    pub(crate) fn rule_for(
        &self,
        from: &[u16],
        to: &[u16],
    ) -> Option<(bool, Option<String>, Option<String>)> {
        let matches = |end: Option<u16>, own: &[u16]| end.is_none_or(|g| own.contains(&g));
        let find =
            |rules: &[Rule]| rules.iter().find(|r| matches(r.0, from) && matches(r.1, to)).copied();
        let denies = find(&self.deny).map(|rule| (false, rule));
        let (allows, rule) = denies.or_else(|| find(&self.allow).map(|rule| (true, rule)))?;
        let [from, to] = [rule.0, rule.1].map(|end| end.map(|g| self.name(g).to_string()));
        Some((allows, from, to))
    }

    /// Whether hosts of the groups `from` may ask for hosts of the groups `to`.
    pub(crate) fn may_ask(&self, from: &[u16], to: &[u16]) -> bool {
        let matches = |end: Option<u16>, own: &[u16]| end.is_none_or(|g| own.contains(&g));
        let any = |rules: &[Rule]| rules.iter().any(|r| matches(r.0, from) && matches(r.1, to));
        if any(&self.deny) {
            return false;
        }
        any(&self.allow)
            || from.iter().any(|g| to.contains(g))
            || (from.is_empty() && to.is_empty())
            || self.strangers_may_talk
    }
}

#[cfg(test)]
mod tests {
    use plexus_config::HostGroup;

    use super::*;
    use crate::topology::Place;

    fn settings(strangers_may_talk: bool) -> ControllerSettings {
        let group = |name: &str, port: u8| HostGroup {
            name: name.into(),
            macs: vec![MacAddr([2, 0, 0, 0, 0, port])],
            ports: vec![("s1".into(), port)],
            prefixes: vec![Prefix::new([10, 0, port, 0].into(), 24).unwrap()],
        };
        let rule = |from: Option<&str>, to: &str| GroupRule {
            from: from.map(Into::into),
            to: Some(to.into()),
        };
        ControllerSettings {
            groups: vec![group("a", 1), group("b", 2), group("c", 3)],
            strangers_may_talk,
            allow: vec![rule(None, "c")],
            deny: vec![rule(Some("b"), "c"), rule(Some("a"), "gone")],
            ..ControllerSettings::default()
        }
    }

    #[test]
    fn a_host_belongs_by_address_port_and_prefix() {
        let groups = Groups::new(&settings(true));
        let host = |port, ips: &[[u8; 4]]| Host {
            at: Place { node: 0, port },
            ips: ips.iter().map(|ip| (*ip).into()).collect(),
            groups: vec![],
        };
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        assert_eq!(groups.of(mac(9), &host(9, &[]), "s1"), [0_u16; 0]);
        assert_eq!(groups.of(mac(2), &host(1, &[[10, 0, 3, 7]]), "s1"), [0, 1, 2]);
        assert_eq!(groups.of(mac(2), &host(1, &[[10, 1, 3, 7]]), "s2"), [1]);
    }

    #[test]
    fn a_denial_beats_a_permission_and_both_beat_the_rest() {
        let (open, shut) = (Groups::new(&settings(true)), Groups::new(&settings(false)));
        for (from, to, if_open, if_shut) in [
            (&[][..], &[][..], true, true),
            (&[0], &[0], true, true),
            (&[0], &[1], true, false),
            (&[0], &[2], true, true),
            (&[1], &[2], false, false),
            (&[0, 1], &[2], false, false),
            (&[2], &[1], true, false),
            (&[], &[1], true, false),
            (&[0, 1], &[1, 2], false, false),
        ] {
            assert_eq!(open.may_ask(from, to), if_open, "{from:?} {to:?}");
            assert_eq!(shut.may_ask(from, to), if_shut, "{from:?} {to:?}");
        }
    }
}
