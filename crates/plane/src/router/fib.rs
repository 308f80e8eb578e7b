//! The forwarding tables of both families, as workers read them. STUB until the table is there.
use std::sync::{Arc, RwLock};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId(pub u16);
pub const NO_GROUP: GroupId = GroupId(u16::MAX);

/// Both tables.
#[derive(Clone, Debug, Default)]
pub struct Fib(pub Arc<RwLock<Vec<(bool, u128, u8, u16)>>>);

impl Fib {
    pub fn insert(&self, v6: bool, bits: u128, len: u8, group: u16) {
        self.0.write().unwrap().push((v6, bits, len, group));
    }
    fn find(&self, v6: bool, a: u128) -> GroupId {
        let w = if v6 { 128 } else { 32 };
        let all = self.0.read().unwrap();
        let best = all
            .iter()
            .filter(|r| r.0 == v6 && (r.2 == 0 || (a ^ r.1) >> (w - r.2) == 0))
            .max_by_key(|r| r.2);
        best.map_or(NO_GROUP, |r| GroupId(r.3))
    }
    pub(crate) fn lookup_v4(&self, keys: &[u32], groups: &mut [GroupId]) {
        for (k, g) in keys.iter().zip(groups) {
            *g = self.find_v4(*k);
        }
    }
    pub(crate) fn lookup_v6(&self, keys: &[u128], groups: &mut [GroupId]) {
        for (k, g) in keys.iter().zip(groups) {
            *g = self.find_v6(*k);
        }
    }
    pub(crate) fn find_v4(&self, a: u32) -> GroupId {
        self.find(false, a.into())
    }
    pub(crate) fn find_v6(&self, a: u128) -> GroupId {
        self.find(true, a)
    }
}
