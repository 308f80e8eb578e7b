use plexus_wire::MacAddr;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::deep::Address;

const GIGABIT: u64 = 1_000_000_000;

/// A source's bytes in each millisecond.
type Pattern = Box<dyn FnMut(u64) -> u32>;

fn arrival(source: u64, bytes: u32) -> Arrival {
    let address = Address::Mac(MacAddr([2, 0, 0, 0, 0, 1]));
    let from = Source { port: source as u16, address };
    Arrival { flow: source, from, is_tcp: false, bytes, frames: 1 }
}

fn burst(every: u64, lasts: u64, offset: u64, bytes_per_ms: u32) -> Pattern {
    Box::new(move |ms| u32::from((ms + offset) % every < lasts) * bytes_per_ms)
}

/// The sources that a detector suspects after so many seconds. The port's own queue is modelled:
/// it is long from 80 packets on.
fn suspects(detector: Detector, seconds: u64, sources: &mut [Pattern]) -> Vec<u64> {
    let mut watch = Watch::new(Settings {
        detector,
        rto_min: Duration::from_millis(300),
        ..Settings::default()
    });
    run(&mut watch, 0..seconds * 1000, sources);
    let mut suspects: Vec<u64> =
        watch.suspects().map(|suspect| suspect.from.unwrap().port.into()).collect();
    suspects.sort_unstable();
    suspects
}

fn run(watch: &mut Watch, milliseconds: std::ops::Range<u64>, sources: &mut [Pattern]) {
    watch.set_port(0, Some(GIGABIT));
    let mut queue = 0u64;
    for ms in milliseconds {
        let now = Time::from_millis(ms);
        for (source, pattern) in (1..).zip(sources.iter_mut()) {
            let bytes = pattern(ms);
            queue += u64::from(bytes);
            if bytes > 0 {
                let arrival = arrival(source, bytes);
                watch.see(now, 0, &arrival, false, queue >= 80 * 1500, false);
            }
        }
        queue = queue.saturating_sub(GIGABIT / 8 / 1000);
        watch.tick(now, |_| false);
    }
}

/// The paper's attack: 200 KB at 200 Mbit/s every 320 ms.
fn attack(count: usize) -> Vec<Pattern> {
    (0..count).map(|_| burst(320, 8, 0, 25_000)).collect()
}

#[test]
fn both_find_the_papers_attack_and_its_sources() {
    for detector in [Detector::Paper, Detector::Harm] {
        let all: Vec<u64> = (1..=14).collect();
        assert_eq!(suspects(detector, 5, &mut attack(14)), all, "{detector:?}");
    }
}

#[test]
fn a_steady_flow_beside_the_attack_is_no_suspect() {
    let mut sources = attack(14);
    sources.push(burst(1, 1, 0, 5_000));
    assert_eq!(suspects(Detector::Harm, 5, &mut sources), (1..=14).collect::<Vec<_>>());
    // Its bytes are more than a tenth of all, so the paper's detector sees no attack.
    assert_eq!(suspects(Detector::Paper, 5, &mut sources), []);
}

#[test]
fn bursts_at_changing_intervals_are_found_by_harm() {
    let mut random = Pcg64::seed_from_u64(1);
    let mut starts = vec![0u64];
    while *starts.last().unwrap() < 8000 {
        starts.push(starts.last().unwrap() + random.random_range(160..480));
    }
    let pattern = |starts: Vec<u64>| -> Pattern {
        Box::new(move |ms| 25_000 * u32::from(starts.iter().any(|s| (*s..s + 8).contains(&ms))))
    };
    let mut sources: Vec<Pattern> = (0..14).map(|_| pattern(starts.clone())).collect();
    assert_eq!(suspects(Detector::Harm, 7, &mut sources).len(), 14);
}

#[test]
fn a_source_that_stops_is_let_go() {
    let mut watch = Watch::new(Settings::default());
    run(&mut watch, 0..5000, &mut attack(14));
    assert_eq!((watch.suspects().count(), watch.found()), (14, 14));
    run(&mut watch, 5000..9000, &mut [burst(1, 1, 0, 1_000)]);
    assert_eq!((watch.suspects().count(), watch.found()), (0, 14));
}

#[test]
fn honest_traffic_that_fills_no_queue_is_no_suspect() {
    for detector in [Detector::Paper, Detector::Harm] {
        // 25 frames of video a second, a backup, a segment of video every two seconds.
        let mut sources =
            vec![burst(40, 4, 0, 25_000), burst(1, 1, 0, 60_000), burst(2000, 100, 0, 60_000)];
        assert_eq!(suspects(detector, 10, &mut sources), [], "{detector:?}");
    }
}

#[test]
fn made_up_sources_of_one_port_leave_places_to_others() {
    let mut watch = Watch::new(Settings::default());
    watch.set_port(0, Some(GIGABIT));
    let from_port = |port, source: u64| {
        let address = Address::Ip(std::net::IpAddr::V4((source as u32).into()));
        Arrival { from: Source { port, address }, ..arrival(source, 100) }
    };
    for source in 1..1_000_000u64 {
        watch.see(Time::from_nanos(source * 1_000), 0, &from_port(1, source), false, false, false);
    }
    watch.see(Time::from_secs(1), 0, &from_port(2, 7), false, false, false);
    let line = watch.lines[0].as_ref().unwrap();
    let own = |port| line.sources.iter().filter(move |s| s.from.is_some_and(|f| f.port == port));
    assert_eq!(own(1).count(), SOURCES_OF_PORT + 1);
    assert!(own(2).any(|s| s.ring.total() == 100), "a host of another port has a place");
    let together = own(1).find(|s| s.from.unwrap().address == Address::Others).unwrap();
    assert!(together.ring.total() > line.all.total() * 9 / 10);
}

#[test]
fn a_trickle_between_bursts_does_not_hide_them() {
    let mut sources: Vec<Pattern> = (0..14)
        .map(|_| -> Pattern {
            Box::new(|ms| if ms % 320 < 8 { 25_000 } else { 84 * u32::from(ms % 5 == 0) })
        })
        .collect();
    assert_eq!(suspects(Detector::Harm, 5, &mut sources).len(), 14);
}

#[test]
fn a_host_that_fills_the_queue_all_the_time_makes_nobody_else_a_suspect() {
    let mut sources = vec![
        burst(21, 1, 0, 250_000),
        burst(33, 1, 5, 10_000),
        burst(40, 1, 9, 10_000),
        burst(100, 1, 3, 10_000),
    ];
    assert_eq!(suspects(Detector::Harm, 6, &mut sources), []);
}

#[test]
fn a_clock_that_jumps_is_no_burst() {
    let mut watch = Watch::new(Settings::default());
    run(&mut watch, 0..1000, &mut [burst(1, 1, 0, 1_000)]);
    run(&mut watch, 3_600_000..3_601_000, &mut [burst(1, 1, 0, 1_000)]);
    run(&mut watch, 10_000..11_000, &mut [burst(1, 1, 0, 1_000)]);
    assert_eq!(watch.suspects().count(), 0);
    assert_eq!(watch.lines[0].as_ref().unwrap().all.len(), 3000);
}

#[test]
fn servers_that_answer_at_once_are_no_suspects_by_harm() {
    let found = |is_tcp| {
        let mut watch = Watch::new(Settings::default());
        watch.set_port(0, Some(GIGABIT));
        for ms in 0..6000 {
            let now = Time::from_millis(ms);
            for source in (1..15).filter(|_| ms % 200 < 8) {
                let answer = Arrival { is_tcp, ..arrival(source, 25_000) };
                watch.see(now, 0, &answer, false, true, false);
            }
            watch.tick(now, |_| false);
        }
        watch.found()
    };
    assert_eq!([found(false), found(true)], [14, 0]);
}
