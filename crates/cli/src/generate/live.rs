//! `plexus gen --backend xdp_live`: the kernel sends by itself, and we watch.

use std::sync::atomic::{AtomicBool, Ordering};

use plexus_report::{PacketProgress, json};
use plexus_traffic::drive::now;
use plexus_traffic::{GeneratorConfig, XdpGenerator};

use super::{Args, Report, text};
use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Sends until the end, the count or the flag, and reports.
pub(super) fn run(args: &Args, config: &GeneratorConfig, stop: &AtomicBool) -> Outcome {
    let mut generator =
        XdpGenerator::open(config, &args.device, args.duration).map_err(Failure::unusable)?;
    let mut progress = PacketProgress::new(now(), std::time::Duration::from_secs(1));
    let result = generator.run(|sent| {
        progress.show(now(), "sent", sent.packets, sent.bytes);
        stop.load(Ordering::Relaxed)
    });
    progress.end();
    let result = result.map_err(Failure::unusable)?;
    let sent = result.sent;
    let vanished = sent.packets > 0 && result.carried == 0 && result.dropped == 0;
    let rejected = if vanished { sent.packets } else { result.dropped };
    let report = Report::new(args, config, "xdp_live", sent, rejected, result.elapsed);
    print(&if args.json { json(&report)? } else { text(&report) })?;
    if vanished {
        return Err(Failure::No(format!(
            "{device} counts none of them as sent: it must be up; of a virtual cable (veth), the \
             far end needs an XDP program or GRO turned on (`ethtool -K DEVICE gro off; ethtool -K \
             DEVICE gro on`); another device's driver must take redirected frames",
            device = args.device
        )));
    }
    Ok(())
}
