//! Sizes of flows: published distributions, and the one of a capture.
//!
//! A distribution is a cumulative curve through points, straight in between. The points are those
//! that simulators of data centres share. They were read off the papers' figures and are facts; no
//! code comes with them.
//!
//! - Web search: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, as in pFabric (SIGCOMM
//!   2013). Points as in ndal-eth/netbench (MIT); `WebSearch_distribution.txt` of
//!   alibaba-edu/High-Precision-Congestion-Control has the same.
//! - Data mining: Greenberg et al., "VL2", SIGCOMM 2009, as in pFabric. Points as in
//!   ndal-eth/netbench (MIT); `VL2_CDF.txt` of HKUST-SING/TrafficGenerator has the same. pFabric's
//!   own curve, in whole packets, has 99 % in place of 98 % at 100 MB.
//! - Hadoop: Roy et al., "Inside the Social Network's (Datacenter) Network", SIGCOMM 2015. Points
//!   as in `traffic_gen/FbHdp_distribution.txt` of
//!   alibaba-edu/High-Precision-Congestion-Control, which names no licence.
//! - University: Jurkiewicz, Rzym and Boryło, "How Many Mice Make an Elephant?", arXiv:1809.03486:
//!   4,032,376,751 flows between a university and the Internet in 30 days of 2015, not sampled.
//!   Points as in the table of `data/agh_201506/README.md` of piotrjurkiewicz/flow-models. That
//!   table also has the bytes of these flows. To match them, a further point divides each of the
//!   wide steps at its geometric mean, and the last flow has 3.46 GB.

use rand::{Rng, RngExt};

/// A published distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// DCTCP's cluster for web search: most flows have tens of kilobytes, and most bytes are in
    /// flows of 1 to 30 MB.
    WebSearch,
    /// VL2's cluster for data mining: four of five flows have at most 10 kB, and nearly all bytes
    /// are in flows of more than 100 MB.
    DataMining,
    /// Facebook's Hadoop racks: seven of ten flows have at most 7 kB.
    Hadoop,
    /// A university's traffic with the Internet: half of the flows have at most 256 bytes, and nine
    /// tenths of all bytes are in flows of more than 1 MB.
    University,
}

/// Bytes, and the percentage of flows that have at most as many.
type Points = &'static [(u64, f64)];

const WEB_SEARCH: Points = &[
    (0, 0.0),
    (10_000, 15.0),
    (20_000, 20.0),
    (30_000, 30.0),
    (50_000, 40.0),
    (80_000, 53.0),
    (200_000, 60.0),
    (1_000_000, 70.0),
    (2_000_000, 80.0),
    (5_000_000, 90.0),
    (10_000_000, 97.0),
    (30_000_000, 100.0),
];
const DATA_MINING: Points = &[
    (0, 0.0),
    (180, 10.0),
    (216, 20.0),
    (560, 30.0),
    (900, 40.0),
    (1_100, 50.0),
    (1_870, 60.0),
    (3_160, 70.0),
    (10_000, 80.0),
    (400_000, 90.0),
    (3_160_000, 95.0),
    (100_000_000, 98.0),
    (1_000_000_000, 100.0),
];
const HADOOP: Points = &[
    (0, 0.0),
    (100, 1.0),
    (200, 2.0),
    (300, 5.0),
    (350, 15.0),
    (400, 20.0),
    (500, 30.0),
    (600, 40.0),
    (700, 50.0),
    (1_000, 60.0),
    (2_000, 67.0),
    (7_000, 70.0),
    (30_000, 72.0),
    (50_000, 82.0),
    (80_000, 87.0),
    (120_000, 90.0),
    (300_000, 95.0),
    (1_000_000, 97.5),
    (2_000_000, 99.0),
    (10_000_000, 100.0),
];
const UNIVERSITY: Points = &[
    (0, 0.0),
    (64, 4.3082),
    (128, 32.3376),
    (256, 56.8711),
    (512, 71.1101),
    (1_024, 79.0397),
    (1_500, 82.6085),
    (4_096, 89.7285),
    (10_000, 94.0991),
    (31_623, 97.4085),
    (100_000, 98.403),
    (316_228, 99.3594),
    (1_000_000, 99.605),
    (3_162_278, 99.8542),
    (10_000_000, 99.9165),
    (31_622_777, 99.9728),
    (100_000_000, 99.9876),
    (316_227_766, 99.99966),
    (1_000_000_000, 99.9997),
    (3_460_000_000, 100.0),
];

impl Published {
    /// All of them.
    pub const ALL: [Published; 4] =
        [Published::WebSearch, Published::DataMining, Published::Hadoop, Published::University];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Published::WebSearch => "web search",
            Published::DataMining => "data mining",
            Published::Hadoop => "Hadoop",
            Published::University => "university",
        }
    }
}

/// A distribution of flow sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSizes {
    /// Bytes, and the part of flows that have at most as many; both ascend, from 0 to 1.
    points: Vec<(f64, f64)>,
}

impl From<Published> for FlowSizes {
    fn from(published: Published) -> FlowSizes {
        let points = match published {
            Published::WebSearch => WEB_SEARCH,
            Published::DataMining => DATA_MINING,
            Published::Hadoop => HADOOP,
            Published::University => UNIVERSITY,
        };
        let points = points.iter().map(|(bytes, percent)| (*bytes as f64, percent / 100.0));
        FlowSizes { points: points.collect() }
    }
}

impl FlowSizes {
    /// The distribution of these sizes, in bytes: the empirical one of a capture. None if there are
    /// none.
    pub fn of(mut sizes: Vec<u64>) -> Option<FlowSizes> {
        sizes.sort_unstable();
        let last = sizes.len().checked_sub(1)?;
        let at = |(i, bytes): (usize, &u64)| (*bytes as f64, i as f64 / last.max(1) as f64);
        let mut points: Vec<_> = sizes.iter().enumerate().map(at).collect();
        if last == 0 {
            points.push((points[0].0, 1.0));
        }
        Some(FlowSizes { points })
    }

    /// The mean, in bytes.
    pub fn mean(&self) -> f64 {
        let parts = self.points.windows(2).map(|w| (w[1].1 - w[0].1) * (w[0].0 + w[1].0) / 2.0);
        parts.sum()
    }

    /// The same shape with this mean: every size is multiplied by one number.
    pub fn with_mean(mut self, bytes: f64) -> FlowSizes {
        let factor = bytes / self.mean().max(f64::MIN_POSITIVE);
        self.points.iter_mut().for_each(|point| point.0 *= factor);
        self
    }

    /// The size, in bytes, that this part of flows does not exceed.
    pub fn quantile(&self, part: f64) -> f64 {
        let behind = self.points.partition_point(|point| point.1 < part);
        let Some(to) = self.points.get(behind) else { return self.points[self.points.len() - 1].0 };
        let Some(from) = behind.checked_sub(1).map(|at| self.points[at]) else { return to.0 };
        from.0 + (to.0 - from.0) * (part - from.1) / (to.1 - from.1)
    }

    /// A random size, 1 byte at least.
    pub fn sample(&self, rng: &mut impl Rng) -> u64 {
        self.quantile(rng.random::<f64>()).ceil().max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn published_curves_ascend_to_one_and_have_the_known_means() {
        // Of web search, the literature says 1.6 to 1.7 MB.
        let means = [1_711_250.0, 12_658_198.6, 120_420.75, 68_488.2];
        for (published, mean) in Published::ALL.into_iter().zip(means) {
            let sizes = FlowSizes::from(published);
            assert!(sizes.points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            assert_eq!(
                (sizes.points[0], sizes.points[sizes.points.len() - 1].1),
                ((0.0, 0.0), 1.0)
            );
            assert!((sizes.mean() / mean - 1.0).abs() < 1e-4, "{published:?} {}", sizes.mean());
        }
    }

    #[test]
    fn the_bytes_of_the_university_are_where_its_table_has_them() {
        let sizes = FlowSizes::from(Published::University);
        let of_flows_up_to = |bytes: f64| {
            let part = |w: &[(f64, f64)]| (w[1].1 - w[0].1) * (w[0].0 + w[1].0) / 2.0;
            let up_to = sizes.points.windows(2).filter(|w| w[1].0 <= bytes);
            100.0 * up_to.map(part).sum::<f64>() / sizes.mean()
        };
        for (bytes, percent) in
            [(1e4, 0.99), (1e5, 2.95), (1e6, 8.22), (1e7, 21.80), (1e8, 53.15), (1e9, 90.22)]
        {
            let ours = of_flows_up_to(bytes);
            assert!((ours - percent).abs() < 0.11, "{bytes}: {ours} and {percent}");
        }
        assert!((sizes.mean() / 68_410.894_128 - 1.0).abs() < 0.002, "{}", sizes.mean());
    }

    #[test]
    fn samples_follow_the_curve() {
        for published in Published::ALL {
            let sizes = FlowSizes::from(published).with_mean(300_000.0);
            assert!((sizes.mean() - 300_000.0).abs() < 1e-3);
            let mut rng = Pcg64Mcg::seed_from_u64(1);
            let mut drawn: Vec<u64> = (0..100_000).map(|_| sizes.sample(&mut rng)).collect();
            drawn.sort_unstable();
            for part in [0.1, 0.5, 0.9] {
                let ratio = drawn[(part * 1e5) as usize] as f64 / sizes.quantile(part).ceil();
                assert!((0.9..1.1).contains(&ratio), "{published:?} {part}: {ratio}");
            }
            let mean = drawn.iter().sum::<u64>() as f64 / 1e5;
            assert!((mean / 300_000.0 - 1.0).abs() < 0.05, "{published:?} {mean}");
        }
    }

    #[test]
    fn a_capture_gives_its_own_sizes() {
        assert_eq!(FlowSizes::of(vec![]), None);
        let one = FlowSizes::of(vec![700]).unwrap();
        assert_eq!((one.quantile(0.0), one.quantile(1.0), one.mean()), (700.0, 700.0, 700.0));
        let three = FlowSizes::of(vec![300, 100, 100]).unwrap();
        assert_eq!(three.quantile(0.0), 100.0);
        assert_eq!((three.quantile(0.5), three.quantile(0.75)), (100.0, 200.0));
        assert_eq!(three.quantile(2.0), 300.0);
    }
}
