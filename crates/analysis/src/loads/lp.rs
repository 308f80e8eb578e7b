//! The linear programs: least maximum utilisation over all ways, or over given paths.
//!
//! Solved by Clarabel's interior point method. What it answers is only near-feasible, so it is not
//! taken at its word: its flows are turned into shares that send on exactly what arrives, and its
//! prices of capacity are lengths that certify a bound whatever their error ([`certified`]).

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT, ZeroConeT,
};
use plexus_topo::UNREACHABLE;

use super::net::{Commodities, Net};
use super::spread::Spread;
use super::trees::{Trees, certified};

/// Most variables of a program: above, it takes longer than a person waits.
pub(crate) const VARIABLES_MAX: usize = 30_000;
/// What all flow together may cost, relative to the maximum: keeps it from going in circles.
const FLOW_COST: f64 = 1e-7;

/// How many variables [`all_ways`] would have.
pub(crate) fn variables(net: &Net, commodities: &Commodities) -> usize {
    let core = |v: u32| net.access(v as usize).is_none();
    let between = net.channels.iter().filter(|c| core(c.from) && core(c.to)).count();
    commodities.len().saturating_mul(between)
}

/// Rows of a program, each a sum of variables: first those that equal, then those at most.
struct Program {
    rows: usize,
    triplets: (Vec<usize>, Vec<usize>, Vec<f64>),
    right: Vec<f64>,
    equalities: usize,
}

impl Program {
    fn new() -> Program {
        let triplets = (Vec::new(), Vec::new(), Vec::new());
        Program { rows: 0, triplets, right: Vec::new(), equalities: 0 }
    }

    fn put(&mut self, variable: usize, factor: f64) {
        self.triplets.0.push(self.rows);
        self.triplets.1.push(variable);
        self.triplets.2.push(factor);
    }

    fn end_row(&mut self, right: f64) {
        self.rows += 1;
        self.right.push(right);
    }

    /// The variables, all at least 0, that cost least, and the price of each row.
    fn solve(mut self, costs: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        for variable in 0..costs.len() {
            self.put(variable, -1.0);
            self.end_row(0.0);
        }
        let n = costs.len();
        let (rows, columns, values) = self.triplets;
        let matrix = CscMatrix::new_from_triplets(self.rows, n, rows, columns, values);
        let quadratic = CscMatrix::zeros((n, n));
        let cones = [ZeroConeT(self.equalities), NonnegativeConeT(self.rows - self.equalities)];
        let settings = DefaultSettingsBuilder::default().verbose(false).build().ok()?;
        let mut solver =
            DefaultSolver::new(&quadratic, costs, &matrix, &self.right, &cones, settings).ok()?;
        solver.solve();
        let usable = solver.solution.x.iter().chain(&solver.solution.z).all(|v| v.is_finite());
        usable.then_some((solver.solution.x, solver.solution.z))
    }
}

/// Numbers near 1: a solver's tolerances are absolute. Demands are multiplied by `amount` and
/// capacities by `capacity`.
struct Scale {
    amount: f64,
    capacity: f64,
}

impl Scale {
    fn new(amounts: impl Iterator<Item = f64> + Clone, capacity: &[f64]) -> Option<Scale> {
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0.0), |(s, n), v| (s + v, n + 1.0));
            (sum > 0.0).then_some(count / sum)
        };
        Some(Scale {
            amount: mean(&mut amounts.clone())?,
            capacity: mean(&mut capacity.iter().copied().filter(|c| c.is_finite()))?,
        })
    }
}

/// Over all ways. `None` when there is nothing to decide or the solver gave up.
pub(crate) fn all_ways(net: &Net, commodities: &Commodities, capacity: &[f64]) -> Option<Spread> {
    let amounts = commodities.iter().flat_map(|c| c.1.iter().map(|s| s.1));
    let scale = Scale::new(amounts, capacity)?;
    let mut order = Vec::new();
    // Of each commodity: its variables' channels, and the distances to its destination.
    let mut used: Vec<Vec<u32>> = Vec::new();
    let mut first = Vec::new();
    let mut variables = 1;
    let mut program = Program::new();
    for (to, sources) in commodities {
        let hops = net.hops_to(*to, &mut order);
        let is_source = |v: usize| sources.binary_search_by_key(&v, |s| s.0).is_ok();
        let usable = |c: &u32| {
            let channel = &net.channels[*c as usize];
            let from = channel.from as usize;
            from != *to
                && hops[channel.to as usize] != UNREACHABLE
                && net.passes(channel, *to)
                && (net.forwards[from] || is_source(from))
        };
        let channels: Vec<u32> = (0..net.channels.len() as u32).filter(usable).collect();
        first.push(variables);
        variables += channels.len();
        used.push(channels);
    }
    for (((to, sources), channels), first) in commodities.iter().zip(&used).zip(&first) {
        // Row numbers of the vertices that the commodity passes.
        let mut sums: Vec<Vec<(usize, f64)>> = vec![Vec::new(); net.vertices()];
        for (i, c) in channels.iter().enumerate() {
            let channel = &net.channels[*c as usize];
            sums[channel.from as usize].push((first + i, 1.0));
            sums[channel.to as usize].push((first + i, -1.0));
        }
        let mut amount = vec![0.0; net.vertices()];
        sources.iter().for_each(|(from, a)| amount[*from] = a * scale.amount);
        let rows = sums.iter().zip(amount).enumerate();
        for (_, (row, amount)) in rows.filter(|(v, (row, _))| v != to && !row.is_empty()) {
            row.iter().for_each(|(variable, factor)| program.put(*variable, *factor));
            program.end_row(amount);
        }
    }
    program.equalities = program.rows;
    let mut sharing: Vec<Vec<usize>> = vec![Vec::new(); net.channels.len()];
    for (channels, first) in used.iter().zip(&first) {
        channels.iter().enumerate().for_each(|(i, c)| sharing[*c as usize].push(first + i));
    }
    let mut priced = Vec::new();
    for (channel, variables) in sharing.iter().enumerate() {
        if capacity[channel].is_finite() && !variables.is_empty() {
            variables.iter().for_each(|variable| program.put(*variable, 1.0));
            program.put(0, -capacity[channel] * scale.capacity);
            priced.push((program.rows, channel));
            program.end_row(0.0);
        }
    }
    // Flow is counted in mean demands, of which a channel carries many or few.
    let mut costs = vec![FLOW_COST / variables as f64; variables];
    costs[0] = 1.0;
    let (flows, prices) = program.solve(&costs)?;
    let mut loads = vec![0.0; net.channels.len()];
    for (((to, sources), channels), first) in commodities.iter().zip(&used).zip(&first) {
        let flow = &flows[*first..first + channels.len()];
        super::shares::lay(net, *to, sources, channels, flow, &mut loads);
    }
    let mut lengths = vec![0.0; net.channels.len()];
    for (row, channel) in priced {
        lengths[channel] = prices[row].max(0.0);
    }
    let bound = certified(Trees::new(net).lay(commodities, &lengths, None), &lengths, capacity);
    Some(Spread { loads, bound })
}

/// Over these paths only: of each pair its amount and its paths. `None` as above.
pub(crate) fn given_paths(
    pairs: &[(f64, Vec<Vec<u32>>)],
    channels: usize,
    capacity: &[f64],
) -> Option<Vec<f64>> {
    let scale = Scale::new(pairs.iter().map(|p| p.0), capacity)?;
    let mut program = Program::new();
    let mut variables = 1;
    let mut sharing: Vec<Vec<usize>> = vec![Vec::new(); channels];
    for (amount, paths) in pairs {
        for path in paths {
            path.iter().for_each(|c| sharing[*c as usize].push(variables));
            program.put(variables, 1.0);
            variables += 1;
        }
        program.end_row(amount * scale.amount);
    }
    program.equalities = program.rows;
    for (channel, variables) in sharing.iter().enumerate() {
        if capacity[channel].is_finite() && !variables.is_empty() {
            variables.iter().for_each(|variable| program.put(*variable, 1.0));
            program.put(0, -capacity[channel] * scale.capacity);
            program.end_row(0.0);
        }
    }
    let mut costs = vec![FLOW_COST / variables as f64; variables];
    costs[0] = 1.0;
    let (flows, _) = program.solve(&costs)?;
    let mut loads = vec![0.0; channels];
    let mut first = 1;
    for (amount, paths) in pairs {
        let flow: Vec<f64> = flows[first..first + paths.len()].iter().map(|f| f.max(0.0)).collect();
        first += paths.len();
        let total: f64 = flow.iter().sum();
        for (i, path) in paths.iter().enumerate() {
            // The solver may have answered nothing for what is tiny beside the rest.
            let share = if total > 0.0 { flow[i] / total } else { f64::from(u8::from(i == 0)) };
            path.iter().for_each(|c| loads[*c as usize] += amount * share);
        }
    }
    Some(loads)
}
