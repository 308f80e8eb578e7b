//! Counters of a node, and their differences.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::report::Account;

/// Counters of a node since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Where every packet went.
    pub account: Account,
    /// Packets dropped, lost on arrival or rejected by a device, by reason.
    pub drops: BTreeMap<String, u64>,
}

impl Counts {
    /// Reads what `show drops` answers: `{"account": {"received", …}, "drops": {reason: count},
    /// "losses": {port: {reason: count}}}`.
    pub fn read(answer: &Value) -> Counts {
        let account = serde_json::from_value(answer["account"].clone()).unwrap_or_default();
        let of_ports = answer["losses"].as_object().into_iter().flatten();
        let reasons = of_ports.map(|(_, losses)| losses).chain([&answer["drops"]]);
        let mut drops = BTreeMap::new();
        for (reason, count) in reasons.filter_map(Value::as_object).flatten() {
            *drops.entry(reason.clone()).or_default() += count.as_u64().unwrap_or(0);
        }
        Counts { account, drops }
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
        for (reason, count) in &past.drops {
            *self.drops.entry(reason.clone()).or_default() += count;
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
        let before = |reason| earlier.drops.get(reason).copied().unwrap_or(0);
        let drops = self.drops.iter().map(|(r, n)| (r.clone(), n.saturating_sub(before(r))));
        Counts { account, drops: drops.filter(|(_, n)| *n > 0).collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn losses_at_ports_are_part_of_the_account() {
        let counts = Counts::read(&json!({
            "account": {"received": 1510, "sent": 60, "lost": 1444, "dropped": 6},
            "drops": {"runt": 6},
            "losses": {"p1": {"rx_overflow": 1028}, "p2": {"rx_overflow": 416}},
        }));
        assert!(counts.account.balances(), "{}", counts.account);
        assert!(counts.account.to_string().contains("+ 1444 lost"));
        let drops = [("runt".to_string(), 6), ("rx_overflow".to_string(), 1444)];
        assert_eq!(counts.drops, BTreeMap::from(drops));
    }

    #[test]
    fn differences_of_counts_still_balance() {
        let at = |received, sent, held, runts| {
            let drops = json!({"runt": runts, "mac_limit": 0});
            let account = json!({
                "received": received, "copied": 0, "sent": sent, "dropped": runts, "held": held,
            });
            Counts::read(&json!({"account": account, "drops": drops}))
        };
        let (before, after) = (at(10, 7, 2, 1), at(30, 25, 1, 4));
        let run = after.since(&before);
        assert!(before.account.balances() && after.account.balances());
        assert!(run.account.balances(), "{}", run.account);
        assert_eq!(run.drops, BTreeMap::from([("runt".to_string(), 3)]));
    }
}
