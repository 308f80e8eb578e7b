//! `router-double`: the paper's star, in which two boxes route each packet, beside the group's
//! router, in which one does (distributed-router.txt, §IV B).

use std::fmt::Write as _;
use std::time::Duration;

use plexus_report::Failure;

use super::Setting;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread};
use super::router_bench::{SEED, internet};
use super::router_group::{Fast, IDLE_PPS, Kind, Layout, Load, Plan, Rig};
use super::router_star::{CPU, capacity, pps};
use super::verdict::Verdict;

const SIZES: [u32; 3] = [64, 576, 1470];
const TABLES: [usize; 3] = [10, 10_000, 167_000];
const LOADS: [(Load, &str); 3] =
    [(Load::One(0), "one flow"), (Load::Each, "two flows"), (Load::Many, "many flows")];
const KINDS: [(Kind, &str); 2] = [(Kind::Naive, "routed twice"), (Kind::Group, "routed once")];

/// What is found of a kind of star.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    hops: u32,
    latency_us: f64,
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let (tables, sizes, runs, time): (&[usize], &[u32], _, _) = match setting.quick {
        true => (&TABLES[..1], &SIZES[..1], 1, Duration::from_millis(300)),
        false => (&TABLES, &SIZES, 1, Duration::from_millis(800)),
    };
    let table = internet().map_err(Failure::unusable)?;
    let progress = &mut *setting.progress;
    let head = "kind,routes,size,load,run,offered_pps,received_pps\n";
    let mut findings = Findings::new(SEED, head);
    // Idle boxes without a quota: one box, and both kinds of star.
    let (mut found, mut single) = ([Found::default(); 2], 0.0);
    let idle = [
        (Kind::Group, Layout::Single, None),
        (Kind::Naive, Layout::Star, Some(0)),
        (Kind::Group, Layout::Star, Some(1)),
    ];
    for (kind, layout, at) in idle {
        progress.say(&format!("hops and latency of {}, {kind:?}", layout.name()));
        let plan = Plan { kind, layout, table, routes: TABLES[0], cpu: None, fast: Fast::No };
        let rig = Rig::up(&plan, &mut |text| progress.detail(text)).map_err(Failure::unusable)?;
        let doubts = &mut findings.doubts;
        let latency_us = rig.latencies_us(SIZES[0], time, setting.quick, doubts);
        let [latency_us] = latency_us.map_err(Failure::unusable)?;
        let Some(at) = at else {
            single = latency_us;
            continue;
        };
        let hops = rig.hops().ok_or_else(|| Failure::unusable("no ping arrives"))?;
        found[at] = Found { hops, latency_us };
    }
    progress.say("what one box forwards");
    let most = capacity(table, CPU, time, &mut |text| progress.detail(text));
    let most = most.map_err(Failure::unusable)?.received();
    // By kind: the medians of each case, in the same order.
    let mut forwarded: [Vec<(String, f64)>; 2] = Default::default();
    for &routes in tables {
        for (k, (kind, kind_name)) in KINDS.into_iter().enumerate() {
            progress.say(&format!("{routes} routes, {kind_name}"));
            let layout = Layout::Star;
            let plan = Plan { kind, layout, table, routes, cpu: Some(CPU), fast: Fast::No };
            let rig = Rig::up(&plan, &mut |text| progress.detail(text));
            let rig = rig.map_err(Failure::unusable)?;
            for &size in sizes {
                for (load, load_name) in LOADS {
                    let title = format!("{routes} routes, {size} bytes, {load_name}");
                    progress.detail(&format!("{title}, {kind_name}"));
                    let mut received = Vec::new();
                    for run in 1..=runs {
                        let outcome = rig.run(load, size, pps(layout, load, most), time);
                        let outcome = outcome.map_err(Failure::unusable)?;
                        let _ = writeln!(
                            findings.runs,
                            "{kind_name},{routes},{size},{load_name},{run},{:.0},{:.0}",
                            outcome.offered(),
                            outcome.received()
                        );
                        received.push(outcome.received());
                    }
                    forwarded[k].push((title, Spread::of(received).median));
                }
            }
        }
    }
    judge(&mut findings, found, single, &forwarded);
    findings.remarks = vec![format!(
        "throughput: each of the four boxes has {CPU} processors; latency: without quotas, at \
         {IDLE_PPS} packets/s"
    )];
    Ok(findings)
}

fn judge(
    findings: &mut Findings,
    [naive, group]: [Found; 2],
    single_us: f64,
    [twice, once]: &[Vec<(String, f64)>; 2],
) {
    let hops = [("routed twice", naive, Some(2.0)), ("routed once", group, None)];
    for (name, found, paper) in hops {
        let row = Row::new(format!("routers on the way, {name}"), "hops", found.hops.into());
        let row = row.note("as traceroute sees them: the time to live falls by as much");
        findings.rows.push(match paper {
            Some(paper) => row.paper(paper),
            None => row,
        });
    }
    for (name, us) in [
        ("one box", single_us),
        ("routed twice", naive.latency_us),
        ("routed once", group.latency_us),
    ] {
        findings.rows.push(Row::new(format!("median latency, {name}"), "us", us));
    }
    let pairs = twice.iter().zip(once);
    let ratios: Vec<(&str, f64)> = pairs
        .filter(|((_, twice), _)| *twice > 0.0)
        .map(|((title, twice), (_, once))| (title.as_str(), once / twice))
        .collect();
    let logs: f64 = ratios.iter().map(|(_, ratio)| ratio.ln()).sum();
    let mean = (logs / ratios.len().max(1) as f64).exp();
    let Spread { min, max, .. } = Spread::of(ratios.iter().map(|(_, ratio)| *ratio));
    let row = Row::new("throughput, routed once to routed twice", "ratio", mean);
    findings.rows.push(row.note(format!("geometric mean; {min:.2} to {max:.2}")));
    for (name, cases) in [("routed twice", twice), ("routed once", once)] {
        for (title, pps) in cases {
            let row = Row::new(format!("{name}, {title}"), "kpackets/s", pps / 1e3);
            findings.rows.push(row.detail());
        }
    }
    let group_of = |((title, twice), (_, once)): (&(String, f64), &(String, f64))| {
        (title.clone(), vec![twice / 1e3, once / 1e3])
    };
    findings.charts.push(Chart::Bars(Bars {
        title: "The star of four boxes: each packet routed twice, or once".into(),
        axis: "forwarded (kpackets/s)".into(),
        series: KINDS.map(|(_, name)| Series::ours(name)).into(),
        // The least table stands for all: eight bars can be told apart.
        groups: twice.iter().zip(once).take(8).map(group_of).collect(),
    }));
    let holds = naive.hops == 2 && naive.latency_us > single_us;
    findings.verdict = Some(Verdict::new(
        holds,
        format!(
            "two boxes that route are {} hops and add {:.1} us to one box's {single_us:.1}; the \
             group's router is {} hop and adds {:.1} us",
            naive.hops,
            naive.latency_us - single_us,
            group.hops,
            group.latency_us - single_us
        ),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Answer;

    #[test]
    fn the_claim_is_two_hops_and_more_latency() {
        let judged = |hops, latency_us| {
            let mut findings = Findings::default();
            let found = [Found { hops, latency_us }, Found { hops: 1, latency_us: 12.0 }];
            let case = |pps| vec![("a".to_string(), pps)];
            judge(&mut findings, found, 10.0, &[case(50.0), case(75.0)]);
            assert_eq!(findings.row("throughput, routed once to routed twice").ours, 1.5);
            findings.verdict.unwrap().answer
        };
        assert_eq!(judged(2, 15.0), Answer::Holds);
        assert_eq!(judged(1, 15.0), Answer::DoesNotHold);
        assert_eq!(judged(2, 9.0), Answer::DoesNotHold);
    }
}
