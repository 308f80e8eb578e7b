//! The results of applications of named data and the content of certificates, as `plexus ndn`
//! prints them.

use plexus_ndn_apps::certificate::Description;
use plexus_ndn_apps::save::Saved;
use plexus_ndn_apps::side_by_side::Measured;
use plexus_report::si;

/// An object that was fetched.
pub fn saved(saved: &Saved) -> String {
    let mut text = format!(
        "{}\n{} bytes in {:.3} s, {}bit/s, {} segments, {} asked for again\n",
        saved.name,
        saved.bytes,
        saved.seconds,
        si(saved.goodput_bits_per_s),
        saved.stats.segments,
        saved.stats.retransmissions
    );
    if let (Some(p50), Some(p99)) = (saved.rtt_us_p50, saved.rtt_us_p99) {
        text += &format!("round trip {p50} us median, p99 {p99}\n");
    }
    text + &counts(
        "",
        &[
            (saved.stats.marks, "marks of congestion"),
            (saved.stats.nacks, "Nacks"),
            (saved.stats.damaged, "packets with a wrong digest, asked for again"),
            (saved.stats.unverified, "packets with a signature that was not verified"),
        ],
    )
}

/// The figures of consumers.
pub fn measured(measured: &Measured) -> String {
    let mut text = format!(
        "asked      {} Interests in {:.3} s\n\
         answered   {}\n\
         rate       {}Data/s\n           {}bit/s of content\n",
        measured.interests,
        measured.seconds,
        measured.satisfied,
        si(measured.data_per_s),
        si(measured.goodput_bits_per_s)
    );
    if measured.satisfied > 0 {
        text += &format!(
            "latency    {:.1} us median, p99 {:.1}, max {:.1}\n",
            measured.latency_us_p50, measured.latency_us_p99, measured.latency_us_max
        );
    }
    text + &counts(
        "           ",
        &[
            (measured.timed_out, "got no answer in time"),
            (measured.nacked.no_route, "came back: no route"),
            (measured.nacked.congestion, "came back: congestion"),
            (measured.nacked.duplicate, "came back: duplicate"),
            (measured.nacked.other, "came back without a reason"),
            (measured.damaged, "answers with a wrong digest"),
            (measured.marked, "answers with a mark of congestion"),
            (measured.merged, "draws of a name that was on its way, drawn again"),
            (measured.late, "left later than their rate says"),
        ],
    )
}

/// A certificate.
pub fn certificate(of: &Description) -> String {
    let valid = match (&of.not_before, &of.not_after) {
        (Some(first), Some(last)) => {
            let now = if of.valid { "now" } else { "not now" };
            format!("{first} to {last}: {now}")
        }
        _ => "it does not say".into(),
    };
    let by = match of.self_signed {
        true => format!("itself ({})", of.signature),
        false => {
            let by = of.signed_by.as_deref().unwrap_or("nobody who is named");
            format!("{by} ({}, not verified)", of.signature)
        }
    };
    format!(
        "name         {}\n\
         key          {} of {}\n\
         fingerprint  {} (SHA-256 of the public key)\n\
         valid        {valid}\n\
         issuer       {}\n\
         signed by    {by}\n",
        of.name,
        of.algorithm,
        of.identity,
        of.sha256,
        of.issuer.as_deref().unwrap_or_default()
    )
}

/// A line for each count that is not zero.
fn counts(indent: &str, counts: &[(u64, &str)]) -> String {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| format!("{indent}{count} {what}\n")).collect()
}
