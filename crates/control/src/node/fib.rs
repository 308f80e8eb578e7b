//! This node's copy of the group's forwarding table (SPEC.md, 15).
//!
//! The controller sends changes in the order of their versions; whatever is out of order is not
//! taken, and the answer tells which version this node has. A controller that starts anew, and one
//! that this node has told of a fault, begins another table. Until that one is complete, packets go
//! by the one before: what it does not name leaves at its end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use plexus_wire::Prefix;
use plexus_wire::fabric::message::{FibAck, FibChange, FibTarget, FibUpdate};

/// Messages in order after which one answer is sent.
const ACK_EVERY: u8 = 8;

/// The table.
#[derive(Debug, Default)]
pub struct Fib {
    /// Its number; 0 before the first.
    table: u64,
    /// The controller's last question for the version.
    question: u64,
    version: u64,
    /// The version that the controller had when it made the last message taken.
    made_at: u64,
    sum: u64,
    /// The router may use it, or still uses the one before.
    is_complete: bool,
    /// Its sum was not the one that the controller told.
    is_wrong: bool,
    /// Messages taken since the last answer.
    unanswered: u8,
    content: Content,
    /// The last table that was complete, until this one is.
    before: Option<Box<Content>>,
    /// Prefixes of earlier tables that this one has not named yet.
    earlier: HashSet<Prefix>,
    /// The hosts that lead to other networks, as last told.
    leading: BTreeSet<IpAddr>,
}

/// Sets and routes.
#[derive(Debug, Default)]
struct Content {
    sets: BTreeMap<u32, Set>,
    /// The set of each prefix.
    routes: HashMap<Prefix, u32>,
    /// Prefixes of each length, IPv4 and IPv6: a search tries only lengths that occur.
    lengths: [BTreeMap<u8, u32>; 2],
}

#[derive(Debug, Default)]
struct Set {
    /// Absent: not told yet, or gone while routes still name it.
    target: Option<FibTarget>,
    routes: u32,
}

/// The consequences of a message.
#[derive(Debug, Default)]
pub struct Taken {
    /// Routes that have changed, in order.
    pub routes: Vec<(Prefix, Option<FibTarget>)>,
    /// The answer.
    pub ack: Option<FibAck>,
    /// Its sum has just turned out wrong.
    pub(crate) is_wrong: bool,
    /// The table has become complete, or is not any more.
    pub turned: Option<bool>,
    /// The hosts that lead to other networks, if they have changed.
    pub leading: Option<Vec<IpAddr>>,
}

impl Fib {
    /// The version of the table, and whether it is complete.
    pub fn version(&self) -> (u64, bool) {
        (self.version, self.is_complete)
    }

    /// Takes a message of the controller.
    ///
    /// # Errors
    /// When its changes cannot be read.
    pub fn take(&mut self, update: &FibUpdate) -> Result<Taken, plexus_wire::Error> {
        let changes = FibChange::read_all(&update.changes)?;
        let mut taken = Taken::default();
        if update.table > self.table {
            self.begin(update.table);
        }
        if update.from == update.to && update.table == self.table {
            self.question = update.from;
        }
        // Messages to an empty table do not name all that has gone.
        let is_next = !self.is_wrong
            && (update.from..update.to).contains(&self.version)
            && (update.from > 0 || self.version == 0)
            && update.made_at >= self.made_at;
        if update.table != self.table || !is_next {
            taken.ack = Some(self.ack());
            return Ok(taken);
        }
        let mut has_sets = false;
        for change in changes {
            has_sets |= matches!(change, FibChange::Set { .. });
            self.change(change, &mut taken.routes);
        }
        (self.version, self.made_at) = (update.to, update.made_at);
        self.unanswered += 1;
        if let Some(sum) = update.sum {
            if sum != self.sum {
                (self.is_wrong, taken.is_wrong) = (true, true);
                taken.ack = Some(self.ack());
                taken.turned = self.is_complete.then_some(false);
                // The controller begins the next one; until then these routes stay.
                self.is_complete = false;
                return Ok(taken);
            }
            let mut earlier: Vec<Prefix> = std::mem::take(&mut self.earlier).into_iter().collect();
            earlier.sort_unstable();
            taken.routes.extend(earlier.into_iter().map(|prefix| (prefix, None)));
            taken.turned = (!self.is_complete).then_some(true);
            has_sets |= self.before.is_some();
            (self.is_complete, self.before) = (true, None);
        }
        if has_sets {
            taken.leading = self.leading();
        }
        if update.sum.is_some() || self.unanswered >= ACK_EVERY {
            taken.ack = Some(self.ack());
        }
        Ok(taken)
    }

    fn ack(&mut self) -> FibAck {
        self.unanswered = 0;
        let Fib { table, question, version, is_wrong: wrong, .. } = *self;
        FibAck { table, question, version, wrong }
    }

    /// Begins another table. The routes of the last one stay with the router.
    fn begin(&mut self, table: u64) {
        let Fib { content, before, mut earlier, is_complete, is_wrong, leading, .. } =
            std::mem::take(self);
        earlier.extend(content.routes.keys());
        let is_whole = before.is_none() && is_complete && !is_wrong;
        let before = if is_whole { Some(Box::new(content)) } else { before };
        *self = Fib { table, before, earlier, is_complete, leading, ..Fib::default() };
    }

    fn change(&mut self, change: FibChange, changed: &mut Vec<(Prefix, Option<FibTarget>)>) {
        match change {
            FibChange::Set { set: number, target } => {
                let set = self.content.sets.entry(number).or_default();
                if set.target == target {
                    return;
                }
                let before = std::mem::replace(&mut set.target, target.clone());
                let routes = set.routes;
                if target.is_none() && routes == 0 {
                    self.content.sets.remove(&number);
                }
                let digest = |target| FibChange::Set { set: number, target }.digest();
                if before.is_some() {
                    self.sum = self.sum.wrapping_sub(digest(before));
                }
                if target.is_some() {
                    self.sum = self.sum.wrapping_add(digest(target.clone()));
                }
                // Routes keep the target that they have until they get another set.
                if let (Some(target), 1..) = (target, routes) {
                    let of_set = self.content.routes.iter().filter(|(_, set)| **set == number);
                    let mut of_set: Vec<Prefix> = of_set.map(|(prefix, _)| *prefix).collect();
                    of_set.sort_unstable();
                    changed.extend(of_set.into_iter().map(|p| (p, Some(target.clone()))));
                }
            }
            FibChange::Route { prefix, set } => {
                let was_earlier = self.earlier.remove(&prefix);
                let before = match set {
                    Some(set) => self.content.routes.insert(prefix, set),
                    None => self.content.routes.remove(&prefix),
                };
                if before == set {
                    if set.is_none() && was_earlier {
                        changed.push((prefix, None));
                    }
                    return;
                }
                let digest = |set| FibChange::Route { prefix, set: Some(set) }.digest();
                if let Some(before) = before {
                    self.sum = self.sum.wrapping_sub(digest(before));
                    self.leave(before);
                }
                let Some(number) = set else {
                    self.count(prefix, -1);
                    return changed.push((prefix, None));
                };
                self.sum = self.sum.wrapping_add(digest(number));
                if before.is_none() {
                    self.count(prefix, 1);
                }
                let set = self.content.sets.entry(number).or_default();
                set.routes += 1;
                if let Some(target) = &set.target {
                    changed.push((prefix, Some(target.clone())));
                }
            }
        }
    }

    /// A route no longer names a set.
    fn leave(&mut self, number: u32) {
        if let Some(set) = self.content.sets.get_mut(&number) {
            set.routes -= 1;
            if set.routes == 0 && set.target.is_none() {
                self.content.sets.remove(&number);
            }
        }
    }

    fn count(&mut self, prefix: Prefix, more: i32) {
        let lengths = &mut self.content.lengths[usize::from(prefix.addr().is_ipv6())];
        let count = lengths.entry(prefix.len()).or_default();
        *count = count.saturating_add_signed(more);
        if *count == 0 {
            lengths.remove(&prefix.len());
        }
    }

    /// The hosts of all sets, also of the table before until this one is complete, if they are
    /// others than before.
    fn leading(&mut self) -> Option<Vec<IpAddr>> {
        let contents = [Some(&self.content), self.before.as_deref()].into_iter().flatten();
        let sets = contents.flat_map(|content| content.sets.values());
        let leading: BTreeSet<IpAddr> = sets.flat_map(|set| hosts_of(Some(set))).collect();
        if leading == self.leading {
            return None;
        }
        self.leading = leading;
        Some(self.leading.iter().copied().collect())
    }

    /// What the router goes by, but for what has changed since.
    fn in_use(&self) -> &Content {
        self.before.as_deref().unwrap_or(&self.content)
    }

    /// The hosts that the longest prefix of an address leads to.
    pub(crate) fn hosts(&self, address: IpAddr) -> impl Iterator<Item = IpAddr> + Clone {
        let content = self.in_use();
        let lengths = content.lengths[usize::from(address.is_ipv6())].keys().rev();
        let mut found = lengths.filter_map(|len| {
            let set = content.routes.get(&Prefix::around(address, *len).ok()?)?;
            content.sets.get(set)
        });
        hosts_of(found.next())
    }

    /// Those that share flows with a host by any set.
    pub(crate) fn alike(&self, host: IpAddr) -> impl Iterator<Item = IpAddr> {
        let sets = self.in_use().sets.values();
        sets.filter(move |set| hosts_of(Some(set)).any(|via| via == host))
            .flat_map(|set| hosts_of(Some(set)))
    }
}

fn hosts_of(set: Option<&Set>) -> impl Iterator<Item = IpAddr> + Clone {
    let hops = match set.and_then(|set| set.target.as_ref()) {
        Some(FibTarget::Hosts(hops)) => &hops[..],
        _ => &[],
    };
    hops.iter().map(|hop| hop.via)
}
