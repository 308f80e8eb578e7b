//! A model of the store that several controllers share, for simulations and tests: revisions,
//! leases by its own clock, and writes that name the leader's epoch.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::fabric::message::PROVISIONAL_EPOCH;

use super::{Answer, Ask, Leader, Member};
use crate::{Record, RecordKey};

/// The store. It serves one request after the other, each at once.
#[derive(Debug)]
pub struct Model {
    revision: u64,
    /// The end of each lease, and its length.
    pub(super) leases: BTreeMap<u64, (Time, Duration)>,
    last_lease: u64,
    pub(super) leader: Option<Leader>,
    members: BTreeMap<String, (u64, Member)>,
    records: BTreeMap<RecordKey, Record>,
}

impl Default for Model {
    /// As a new cluster of etcd: revision 1 has nothing in it, so no leader has it as its epoch.
    fn default() -> Model {
        Model {
            revision: PROVISIONAL_EPOCH,
            leases: BTreeMap::new(),
            last_lease: 0,
            leader: None,
            members: BTreeMap::new(),
            records: BTreeMap::new(),
        }
    }
}

impl Model {
    /// The news for a controller that begins to watch: reports, then the leader.
    pub fn state(&self) -> Vec<Answer> {
        let members = self.members.iter();
        let members = members.map(|(name, (_, m))| Answer::Member(name.clone(), Some(*m)));
        members.chain([Answer::Leader(self.leader.clone())]).collect()
    }

    /// When the next lease ends.
    pub fn next_end(&self) -> Option<Time> {
        self.leases.values().map(|(until, _)| *until).min()
    }

    /// All leases begin anew, as when its members have elected a leader of their own.
    pub fn prolong(&mut self, now: Time) {
        self.leases.values_mut().for_each(|(until, time)| *until = now + *time);
    }

    /// Ends the leases whose time is over, and gives the news for all who watch.
    pub fn expire(&mut self, now: Time) -> Vec<Answer> {
        let ended = self.leases.iter().filter(|(_, (until, _))| *until <= now);
        let ended: Vec<u64> = ended.map(|(lease, _)| *lease).collect();
        ended.into_iter().flat_map(|lease| self.end(lease)).collect()
    }

    fn end(&mut self, lease: u64) -> Vec<Answer> {
        let mut news = Vec::new();
        if self.leases.remove(&lease).is_none() {
            return news;
        }
        if self.leader.as_ref().is_some_and(|leader| leader.lease == lease) {
            self.leader = None;
            self.revision += 1;
            news.push(Answer::Leader(None));
        }
        let gone = self.members.extract_if(.., |_, (of, _)| *of == lease);
        news.extend(gone.map(|(name, _)| Answer::Member(name, None)));
        news
    }

    /// Serves a request of the controller of this name: the answer, and the news for all who watch.
    pub fn serve(&mut self, now: Time, name: &str, ask: Ask) -> (Option<Answer>, Vec<Answer>) {
        let mut news = self.expire(now);
        let answer = match ask {
            Ask::Lease { time, asked } => {
                self.last_lease += 1;
                let lease = self.last_lease;
                self.leases.insert(lease, (now + time, time));
                Some(Answer::Leased { lease, time: Some(time), asked })
            }
            Ask::Keep { lease, asked } => match self.leases.get_mut(&lease) {
                Some((until, time)) => {
                    *until = now + *time;
                    Some(Answer::Kept { lease, asked })
                }
                None => Some(Answer::Ended { lease }),
            },
            Ask::Campaign { lease, instead_of } => {
                let epoch = self.leader.as_ref().map_or(0, |leader| leader.epoch);
                if !self.leases.contains_key(&lease) {
                    Some(Answer::Ended { lease })
                } else if epoch != instead_of {
                    Some(Answer::Beaten)
                } else {
                    self.revision += 1;
                    let leader = Leader { name: name.to_string(), lease, epoch: self.revision };
                    news.push(Answer::Leader(Some(leader.clone())));
                    self.leader = Some(leader);
                    let stored = self.records.values().cloned().collect();
                    Some(Answer::Won { lease, epoch: self.revision, stored })
                }
            }
            Ask::Report { lease, member } => {
                if self.leases.contains_key(&lease) {
                    self.members.insert(name.to_string(), (lease, member));
                    news.push(Answer::Member(name.to_string(), Some(member)));
                    None
                } else {
                    Some(Answer::Ended { lease })
                }
            }
            Ask::Write { epoch, ticket, changes } => {
                if self.leader.as_ref().map(|leader| leader.epoch) == Some(epoch) {
                    self.revision += 1;
                    changes.into_iter().for_each(|change| change.make(&mut self.records));
                    Some(Answer::Written { epoch, ticket })
                } else {
                    Some(Answer::Fenced { epoch })
                }
            }
            Ask::Release { lease } => {
                news.extend(self.end(lease));
                None
            }
        };
        (answer, news)
    }
}
