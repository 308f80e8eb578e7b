//! What a run of a topology file's traffic found, the same whether real kernels or the simulator
//! carried it: what became of each flow ([`Outcome`]), the verdict on it ([`judge`]), and the JSON
//! and the table that people get ([`RunReport`]), and how one run differs from another
//! ([`Comparison`]). Besides, what all that runs for long tells alike: [`Progress`], [`Failure`].

mod compare;
mod counts;
mod failure;
mod gaps;
mod judge;
mod named;
mod outcome;
mod progress;
mod report;
mod text;

pub use compare::{Comparison, Difference};
pub use counts::Counts;
pub use failure::Failure;
pub use gaps::Gaps;
pub use judge::{Counted, Cut, judge};
pub use named::{NamedAccount, NamedLinks, NamedPackets, PendingInterests};
pub use outcome::{Outcome, bits_per_s, sending_time};
pub use progress::Progress;
pub use report::{Account, AssertionReport, Facts, FlowReport, Outage, RunReport, columns};
pub use text::{json, si};
