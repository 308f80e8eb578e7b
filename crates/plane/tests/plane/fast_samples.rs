//! Onlookers that leave a port's flows in the fast table, and get samples of them. The table is in
//! memory and takes each so many-th packet; the test gives the port its samples.

use std::num::NonZeroU32;
use std::sync::mpsc::{Receiver, channel};

use crate::common::{Plan, frame, mac};
use crate::fast::Fast;

/// An onlooker's frame: whether it left, its first bytes, its length, whether it is a sample, and
/// how many were missed before.
type Saw = (bool, Vec<u8>, usize, bool, u64);

const BYTES: usize = 40;

fn one_in(n: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(n)
}

impl Fast {
    fn watch(&mut self, port: u16, number: u64, one_in: Option<NonZeroU32>) -> Receiver<Saw> {
        let (saw, sees) = channel();
        let see = move |seen: plexus_plane::Seen<'_>| {
            let bytes = seen.bytes.to_vec();
            saw.send((seen.outgoing, bytes, seen.len, seen.is_sample, seen.missed)).unwrap();
        };
        self.rig.workers[0].watch(self.rig.now, port, number, one_in, Box::new(see));
        sees
    }

    fn unwatch(&mut self, number: u64) {
        self.rig.workers[0].unwatch(self.rig.now, number);
    }

    /// A number of frames go by the table, and its samples come in by their port.
    fn forward(&mut self, port: usize, frame: &[u8], count: usize) {
        for _ in 0..count {
            assert!(self.is_fast(port, frame), "flows stay in the table");
        }
        while let Some(sample) = self.table.take_sample(port as u16) {
            self.rig.plugs[port].sample(sample[..BYTES].to_vec(), sample.len());
        }
        self.rig.settle();
    }

    fn assert_balances(&mut self) {
        let now = self.rig.now;
        self.rig.workers[0].count_fast(now);
        assert!(self.rig.account().balances());
    }
}

fn sample_of(frame: &[u8], missed: u64) -> Saw {
    (false, frame[..BYTES].to_vec(), frame.len(), true, missed)
}

#[test]
fn an_onlooker_gets_samples_and_flows_stay_in_the_table() {
    let mut fast = Fast::new(&Plan::new(3));
    fast.offload(0, 1);
    let (to_1, to_2) = (frame(mac(1), mac(0)), frame(mac(2), mac(0)));
    let received = |fast: &mut Fast| {
        let now = fast.rig.now;
        fast.rig.workers[0].count_fast(now);
        let account = fast.rig.account();
        (account.received, account.sent)
    };
    let before = received(&mut fast);
    let sees = fast.watch(0, 5, one_in(4));
    fast.forward(0, &to_1, 20);
    assert_eq!(sees.try_iter().collect::<Vec<_>>(), vec![sample_of(&to_1, 0); 5]);
    let after = received(&mut fast);
    assert_eq!((after.0 - before.0, after.1 - before.1), (20, 20), "samples are no packets");
    fast.assert_balances();
    // Those that pass the pipeline are all seen, in and out.
    fast.rig.send(0, &to_2);
    fast.rig.send(2, &frame(mac(0), mac(2)));
    let (whole, back) = (to_2.clone(), frame(mac(0), mac(2)));
    let all: Vec<Saw> = sees.try_iter().collect();
    assert_eq!(all, [(false, whole, 60, false, 0), (true, back, 60, false, 0)]);
    // The next sample tells how many the table did not take.
    fast.table.miss_samples(0, 7);
    fast.forward(0, &to_1, 8);
    let all: Vec<Saw> = sees.try_iter().collect();
    assert_eq!(all, [sample_of(&to_1, 7), sample_of(&to_1, 0)]);
    // Flows that leave by the port give none.
    fast.offload(2, 0);
    fast.forward(2, &frame(mac(0), mac(2)), 20);
    assert!(sees.try_iter().all(|saw| !saw.3));
    // Then it goes. A sample that comes late is nobody's, also not a later onlooker's.
    fast.unwatch(5);
    assert_eq!(fast.table.samples(0), None);
    fast.rig.plugs[0].sample(to_1.clone(), 60);
    fast.forward(0, &to_1, 8);
    assert!(fast.is_fast(0, &to_1));
    let sees = fast.watch(0, 6, one_in(100));
    fast.rig.settle();
    assert_eq!(sees.try_iter().count(), 0);
    fast.assert_balances();
}

#[test]
fn two_onlookers_get_as_many_as_each_wants() {
    let mut fast = Fast::new(&Plan::new(2));
    fast.offload(0, 1);
    let to_1 = frame(mac(1), mac(0));
    let few = fast.watch(0, 5, one_in(10));
    assert_eq!(fast.table.samples(0), one_in(10));
    let many = fast.watch(0, 6, one_in(4));
    assert_eq!(fast.table.samples(0), one_in(4), "the smaller number");
    fast.table.miss_samples(0, 50);
    fast.forward(0, &to_1, 200);
    let [few_seen, many_seen] = [&few, &many].map(|sees| sees.try_iter().collect::<Vec<_>>());
    assert_eq!((few_seen.len(), many_seen.len()), (20, 50));
    let missed = |seen: &[Saw]| seen.iter().map(|saw| saw.4).sum::<u64>();
    assert_eq!((missed(&few_seen), missed(&many_seen)), (20, 50), "of its own");
    fast.unwatch(6);
    assert_eq!(fast.table.samples(0), one_in(10));
    fast.unwatch(5);
    assert_eq!(fast.table.samples(0), None);
}

#[test]
fn one_who_wants_all_frames_ends_the_flows_and_one_who_gets_samples_sees_them_too() {
    let mut fast = Fast::new(&Plan::new(2));
    fast.offload(0, 1);
    let to_1 = frame(mac(1), mac(0));
    let samples = fast.watch(0, 5, one_in(4));
    let all = fast.watch(0, 6, None);
    assert!(!fast.is_fast(0, &to_1));
    for sees in [&samples, &all] {
        let seen: Vec<Saw> = sees.try_iter().collect();
        assert_eq!(seen, [(false, to_1.clone(), 60, false, 0)]);
    }
    fast.unwatch(6);
    fast.table.open_without_kernel(0);
    fast.offload(0, 1);
    samples.try_iter().count();
    fast.forward(0, &to_1, 20);
    assert_eq!(samples.try_iter().count(), 5, "as before");
}

#[test]
fn samples_end_with_the_port() {
    let mut fast = Fast::new(&Plan::new(2));
    let _sees = fast.watch(0, 5, one_in(4));
    assert_eq!(fast.table.samples(0), one_in(4));
    let now = fast.rig.now;
    fast.rig.workers[0].remove_port(now, 0);
    assert_eq!(fast.table.samples(0), None);
    fast.unwatch(5);
}
