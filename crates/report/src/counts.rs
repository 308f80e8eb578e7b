//! Counters of a node, and their differences.

use std::collections::BTreeMap;

use plexus_api::answer::node::Drops;

use crate::report::Account;

type Reasons = BTreeMap<String, u64>;

/// Counters of a node since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Where every packet went.
    pub account: Account,
    /// Packets dropped, lost on arrival or rejected by a device, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Frames that the control plane took and did not serve, by reason.
    pub unserved: BTreeMap<String, u64>,
}

impl Counts {
    /// Those that `show drops` answers.
    pub fn of(answer: &Drops) -> Counts {
        let a = &answer.account;
        let account = Account {
            received: a.received,
            copied: a.copied,
            injected: a.injected,
            sent: a.sent,
            consumed: a.consumed,
            rejected: a.rejected,
            dropped: a.dropped,
            lost: a.lost,
            held: a.held,
        };
        let mut drops = BTreeMap::new();
        for (reason, count) in answer.losses.values().chain([&answer.drops]).flatten() {
            *drops.entry(reason.clone()).or_default() += count;
        }
        Counts { account, drops, unserved: answer.unserved.clone() }
    }

    /// Adds the counters of an earlier life, which holds nothing any more.
    #[must_use]
    pub fn and(mut self, past: &Counts) -> Counts {
        let (own, past_own) = (&mut self.account, &past.account);
        own.received += past_own.received;
        own.copied += past_own.copied;
        own.injected += past_own.injected;
        own.sent += past_own.sent;
        own.consumed += past_own.consumed;
        own.rejected += past_own.rejected;
        own.dropped += past_own.dropped;
        own.lost += past_own.lost;
        for (own, past) in [(&mut self.drops, &past.drops), (&mut self.unserved, &past.unserved)] {
            for (reason, count) in past {
                *own.entry(reason.clone()).or_default() += count;
            }
        }
        self
    }

    /// The difference to `earlier`; packets queued then or now count as queued.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        let (a, b) = (&self.account, &earlier.account);
        let account = Account {
            received: a.received.saturating_sub(b.received) + b.held,
            copied: a.copied.saturating_sub(b.copied),
            injected: a.injected.saturating_sub(b.injected),
            sent: a.sent.saturating_sub(b.sent),
            consumed: a.consumed.saturating_sub(b.consumed),
            rejected: a.rejected.saturating_sub(b.rejected),
            dropped: a.dropped.saturating_sub(b.dropped),
            lost: a.lost.saturating_sub(b.lost),
            held: a.held,
        };
        let [drops, unserved] =
            [(&self.drops, &earlier.drops), (&self.unserved, &earlier.unserved)].map(more);
        Counts { account, drops, unserved }
    }
}

/// The counts that have grown, by how much.
fn more((now, before): (&Reasons, &Reasons)) -> Reasons {
    let growth = |(reason, count): (&String, &u64)| {
        let before = before.get(reason).copied().unwrap_or(0);
        (*count > before).then(|| (reason.clone(), count - before))
    };
    now.iter().filter_map(growth).collect()
}

#[cfg(test)]
mod tests {
    use plexus_api::answer::node;

    use super::*;

    fn counts(account: node::Account, drops: &[(&str, u64)], losses: &[(&str, u64)]) -> Counts {
        let counted = |all: &[(&str, u64)]| all.iter().map(|(r, n)| (r.to_string(), *n)).collect();
        let at_ports = losses.iter().enumerate();
        Counts::of(&Drops {
            node: "n".into(),
            account,
            drops: counted(drops),
            ports: BTreeMap::new(),
            losses: at_ports.map(|(i, one)| (format!("p{i}"), counted(&[*one]))).collect(),
            meaning: BTreeMap::new(),
            unserved: BTreeMap::new(),
        })
    }

    #[test]
    fn losses_at_ports_are_part_of_the_account() {
        let account = node::Account {
            received: 1510,
            sent: 60,
            lost: 1444,
            dropped: 6,
            ..Default::default()
        };
        let losses = [("rx_overflow", 1028), ("rx_overflow", 416)];
        let counts = counts(account, &[("runt", 6)], &losses);
        assert!(counts.account.balances(), "{}", counts.account);
        assert!(counts.account.to_string().contains("+ 1444 lost"));
        let drops = [("runt".to_string(), 6), ("rx_overflow".to_string(), 1444)];
        assert_eq!(counts.drops, BTreeMap::from(drops));
    }

    #[test]
    fn differences_of_counts_still_balance() {
        let at = |received, sent, held, runts| {
            let account =
                node::Account { received, sent, dropped: runts, held, ..Default::default() };
            counts(account, &[("runt", runts), ("mac_limit", 0)], &[])
        };
        let (before, after) = (at(10, 7, 2, 1), at(30, 25, 1, 4));
        let run = after.since(&before);
        assert!(before.account.balances() && after.account.balances());
        assert!(run.account.balances(), "{}", run.account);
        assert_eq!(run.drops, BTreeMap::from([("runt".to_string(), 3)]));
    }
}
