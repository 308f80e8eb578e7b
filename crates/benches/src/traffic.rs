//! The generator and the meter with nothing behind their ports: what the tools themselves cost.

use std::time::Duration;

use plexus_traffic::{
    BenchError, Choice, FlowSpec, GeneratorConfig, Sizes, bench_count, bench_generate,
};

use super::{Row, Setting};

/// Packets of the run that finds out how many fill the time.
const TRIAL: u64 = 200_000;

type Run = fn(&GeneratorConfig, u64) -> Result<f64, BenchError>;

pub(super) fn generate(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    rows(name, bench_generate, setting)
}

pub(super) fn count(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    rows(name, bench_count, setting)
}

/// One flow of smallest frames, and a thousand of which some send often.
fn rows(name: &str, run: Run, setting: &Setting) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (flows, kind, choice) in
        [(1, "1-flow", Choice::RoundRobin), (1000, "1k-flows", Choice::Zipf(1.0))]
    {
        let config = GeneratorConfig {
            flows: FlowSpec { count: flows, ..FlowSpec::default() },
            choice,
            sizes: Sizes::Fixed(64),
            ..GeneratorConfig::default()
        };
        let trial = TRIAL / setting.effort.shrink as u64;
        let mpps = run(&config, trial).map_err(|e| e.to_string())?;
        let packets = packets_for(setting.effort.time, mpps).max(trial);
        let turn = || Ok((run(&config, packets).map_err(|e| e.to_string())?, None));
        let name = format!("{name}-{kind}");
        rows.push(Row::measure(&name, "Mpps", None, setting.effort.runs, turn)?);
    }
    Ok(rows)
}

fn packets_for(time: Duration, mpps: f64) -> u64 {
    (time.as_secs_f64() * mpps * 1e6) as u64
}
