//! Results of a run of a topology file's traffic, the same for real kernels and the simulator: the
//! outcome of each flow ([`Outcome`]), the verdict ([`judge`]), the JSON and the table
//! ([`RunReport`]), and the comparison of two runs ([`Comparison`]).
//! [`packets`] has the text for a generator or a meter alone. Parts of all long runs are here too:
//! [`Progress`], [`PacketProgress`] and [`Failure`].

mod compare;
mod counts;
mod failure;
mod gaps;
mod judge;
mod named;
mod outcome;
pub mod packets;
mod progress;
mod report;
pub mod spread;
mod table;
mod text;

pub use compare::{Comparison, Difference};
pub use counts::Counts;
pub use failure::Failure;
pub use gaps::Gaps;
pub use judge::{Counted, Cut, judge};
pub use named::{NamedAccount, NamedLinks, NamedPackets, PendingInterests};
pub use outcome::{Outcome, bits_per_s, sending_time};
pub use progress::{PacketProgress, Progress};
pub use report::{Account, AssertionReport, Facts, FlowReport, Outage, Quota, RunReport, rate};
pub use table::{aligned, columns, table};
pub use text::{first_of, json, plural, si};
