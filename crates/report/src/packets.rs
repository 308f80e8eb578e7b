//! The results of a generator and of a meter, as text.

use plexus_traffic::Latency;
use plexus_traffic::live::{MeteredFlow, Metering, Sending};

use crate::si;

/// The result of a generator, for `plexus gen`.
pub fn sending(report: &Sending) -> String {
    let Sending { sent, seconds, .. } = report;
    let mut text = format!(
        "sent       {} packets in {seconds:.3} s by {}\n\
         rate       {}packets/s\n           {}bit/s of frames with FCS\n",
        sent.packets,
        report.backend,
        si(report.packets_per_s),
        si(report.bits_per_s)
    );
    if sent.late > 0 {
        let ms = sent.lag_ns_max as f64 / 1e6;
        text += &format!(
            "behind     {} packets left over 100 us late, the latest {ms:.3} ms\n",
            sent.late
        );
    }
    if report.rejected > 0 {
        text += &format!(
            "rejected   {} packets that the device had no room for or cannot send\n",
            report.rejected
        );
    }
    text
}

/// The result of a meter, for `plexus meter`.
pub fn metering(report: &Metering) -> String {
    let mut lines = Vec::new();
    let total = &report.total;
    lines.push(format!("received   {} packets by {}", total.received, report.backend));
    lines.push(format!("lost       {} ({:.4} %)", total.lost, total.loss * 100.0));
    lines.push(format!("duplicates {}", total.duplicates));
    lines.push(format!("reordered  {}", total.reordered));
    lines.push(format!("rate       {}packets/s", si(total.packets_per_s)));
    lines.push(format!("           {}bit/s of frames with FCS", si(total.bits_per_s)));
    if let Some(l) = &total.latency {
        lines.push(format!("latency    {}", latency(l)));
    }
    for (count, what) in [
        (report.overflow, "packets dropped here, before the meter: the loss is not the network's"),
        (report.arrived.foreign, "frames that were no probes"),
        (total.ancient, "packets too late to tell from duplicates"),
        (total.restarts, "new beginnings of a sender"),
        (total.clock_errors, "packets stamped by another clock"),
    ] {
        if count > 0 {
            lines.push(format!("           {count} {what}"));
        }
    }
    if (2..=16).contains(&report.flow_count) {
        lines.push(format!(
            "{:>10} {:>12} {:>10} {:>14}  latency",
            "flow", "received", "lost", "packets/s"
        ));
        for MeteredFlow { flow, summary: s } in &report.flows {
            let rate = si(s.packets_per_s);
            let l = s.latency.as_ref().map(latency).unwrap_or_default();
            lines.push(format!("{flow:>10} {:>12} {:>10} {rate:>14}  {l}", s.received, s.lost));
        }
    }
    lines.join("\n") + "\n"
}

fn latency(l: &Latency) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    format!(
        "{:.1} us median, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
        us(l.p50_ns),
        us(l.p90_ns),
        us(l.p99_ns),
        us(l.p999_ns),
        us(l.max_ns)
    )
}
