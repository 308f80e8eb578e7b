//! `plexus meter --backend xdp`: a program on the device counts, and we read what it counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_traffic::drive::{Watch, now};
use plexus_traffic::{MeterConfig, XdpMeter};

use super::{Args, FlowReport, LISTED, Report, finish};
use crate::exit::{Failure, Outcome};

/// How often the counters are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Counts until the end, the count, silence or the flag, and reports.
pub(super) fn run(args: &Args, config: &MeterConfig, stop: &AtomicBool) -> Outcome {
    let mut meter = XdpMeter::open(&args.device, config).map_err(Failure::unusable)?;
    if !meter.is_native() {
        eprintln!("plexus: {} by generic XDP: slower than in the driver", args.device);
    }
    let gone = |e| Failure::unusable(format!("{}: reading its counters: {e}", args.device));
    let overflow = meter.overflow().map_err(gone)?;
    let begin = now();
    count(args, &meter, stop);
    meter.stop();
    let seconds = now().since(begin).as_secs_f64();
    let overflow = meter.overflow().map_err(gone)?.wrapping_sub(overflow);
    let flows = meter.flows().take(LISTED);
    finish(
        args,
        &Report {
            device: &args.device,
            backend: "xdp".into(),
            seconds,
            arrived: meter.arrived(),
            overflow,
            total: meter.total(),
            flow_count: meter.flows().count(),
            flows: flows.map(|(flow, s)| FlowReport { flow, summary: s.summary() }).collect(),
        },
    )
}

fn count(args: &Args, meter: &XdpMeter, stop: &AtomicBool) {
    let begin = now();
    let mut progress = args.progress(begin);
    let mut watch = Watch::new(args.until(), begin);
    while !stop.load(Ordering::Relaxed) {
        let (arrived, at) = (meter.arrived(), now());
        if watch.is_over(at, arrived) {
            break;
        }
        progress.show(at, "received", arrived.probes, arrived.bytes);
        std::thread::sleep(LOOK);
    }
    progress.end();
}
