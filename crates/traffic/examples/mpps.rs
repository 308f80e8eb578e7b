//! Prints how fast packets are generated and counted: `cargo run --release --example mpps`.

use plexus_traffic::{Choice, FlowSpec, GeneratorConfig, Sizes, bench_count, bench_generate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (flows, choice) in [(1, Choice::RoundRobin), (1_000, Choice::Zipf(1.0))] {
        for sizes in [Sizes::Fixed(64), Sizes::Imix] {
            let config = GeneratorConfig {
                flows: FlowSpec { count: flows, ..FlowSpec::default() },
                choice,
                sizes,
                ..GeneratorConfig::default()
            };
            let made = bench_generate(&config, 20_000_000)?;
            let counted = bench_count(&config, 20_000_000)?;
            println!("flows {flows} size {sizes}: {made:.1} Mpps made, {counted:.1} counted");
        }
    }
    Ok(())
}
