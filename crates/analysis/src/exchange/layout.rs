//! Where the boxes of a drawing are: tidy for shapes that are known, by their distances for others.

use std::f64::consts::TAU;

use plexus_topo::{Known, Shape, Topology};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::analysis::Boxes;

/// Places in units of a box's usual distance from the next, y growing downwards.
pub(super) struct Layout {
    /// Of each box.
    pub(super) at: Vec<[f64; 2]>,
    /// Boxes stand in rows: a link along one passes others, and is bent around them.
    pub(super) rows: bool,
}

pub(super) fn layout(topology: &Topology, boxes: &Boxes) -> Layout {
    let count = boxes.len();
    let on_circle = |n: usize, i: usize, radius: f64| {
        let angle = TAU * i as f64 / n as f64 - TAU / 4.0;
        [radius * angle.cos(), radius * angle.sin()]
    };
    // Neighbours on a circle are one unit apart.
    let radius = |n: usize| (0.5 / (TAU / 2.0 / n.max(2) as f64).sin()).max(1.0);
    let free = |at| Layout { at, rows: false };
    let Some(Known { shape, .. }) = Known::of(topology) else {
        return free(by_stress(boxes));
    };
    match shape {
        Shape::Line { .. } => free((0..count).map(|i| [i as f64, 0.0]).collect()),
        Shape::Ring { .. } => {
            free((0..count).map(|i| on_circle(count, i, radius(count))).collect())
        }
        Shape::Star { leaves } => {
            let leaf = |i: usize| on_circle(leaves, i, radius(leaves));
            free(std::iter::once([0.0; 2]).chain((0..leaves).map(leaf)).collect())
        }
        Shape::Torus { sides } => Layout { at: grid(&sides), rows: true },
        Shape::Butterfly { ary, flat, .. } => Layout { at: grid(&vec![ary; flat - 1]), rows: true },
        Shape::FatTree { ports: k } => {
            free(levels(&[(k * k / 2, 2), (k * k / 2, 1), (k * k / 4, 0)]))
        }
        Shape::Clos { leaves, spines } => free(levels(&[(leaves, 1), (spines, 0)])),
        Shape::TwoStage { fronts, backs } => free(levels(&[(fronts, 1), (backs, 0)])),
        Shape::UnfoldedClos { outer, middle } => {
            // Stages stand side by side, as traffic passes them.
            let rows = levels(&[(outer, 0), (middle, 1), (outer, 2)]);
            free(rows.into_iter().map(|[x, y]| [y * 1.5, x]).collect())
        }
        Shape::Dragonfly { routers, groups, .. } => {
            let inner = radius(routers);
            let outer = radius(groups) * 2.0 * (inner + 1.0);
            let place = |i: usize| {
                let middle = on_circle(groups, i / routers, outer);
                let own = on_circle(routers, i % routers, inner);
                [middle[0] + own[0], middle[1] + own[1]]
            };
            free((0..count).map(place).collect())
        }
        Shape::Random { .. } | Shape::Jellyfish { .. } => free(by_stress(boxes)),
    }
}

/// Dimensions in turn along x and y, the fastest first; each further one sets blocks of what the
/// ones before make beside each other.
fn grid(sides: &[usize]) -> Vec<[f64; 2]> {
    let count = sides.iter().product();
    let place = |mut rest: usize| {
        let (mut at, mut block) = ([0.0; 2], [1.0; 2]);
        for (i, side) in sides.iter().rev().enumerate() {
            at[i % 2] += (rest % side) as f64 * block[i % 2];
            block[i % 2] *= *side as f64 + 0.5;
            rest /= side;
        }
        at
    };
    (0..count).map(place).collect()
}

/// Rows of boxes, all as wide, in the order in which the topology has them: how many boxes, and
/// which row from the top.
fn levels(rows: &[(usize, usize)]) -> Vec<[f64; 2]> {
    let widest = rows.iter().map(|r| r.0).max().unwrap_or(1) as f64;
    let height = (widest / 6.0).clamp(1.5, 8.0);
    let row = |&(count, from_top): &(usize, usize)| {
        let step = widest / count as f64;
        (0..count).map(move |i| [(i as f64 + 0.5) * step, from_top as f64 * height])
    };
    rows.iter().flat_map(row).collect()
}

/// By the distances between boxes: each pair is drawn to a distance of as many units as it has
/// hops, one pair after another (Zheng, Pawar, Goodman 2018, "Graph Drawing by Stochastic Gradient
/// Descent").
fn by_stress(boxes: &Boxes) -> Vec<[f64; 2]> {
    const ROUNDS: i32 = 30;
    const LAST_STEP: f64 = 0.1;
    let count = boxes.len();
    // Parts that no path joins stand as far apart as they are large.
    let apart = 1.0 + (count as f64).sqrt();
    let mut pairs = Vec::new();
    for from in 0..count {
        let hops = boxes.hops_from(from);
        for (to, hops) in hops.into_iter().enumerate().skip(from + 1) {
            pairs.push((from, to, hops.map_or(apart, f64::from)));
        }
    }
    let mut pcg = Pcg64::new(1, 1);
    let mut draw = |n: usize| ((u128::from(pcg.next_u64()) * n as u128) >> 64) as usize;
    let spread = (count as f64).sqrt();
    let mut at: Vec<[f64; 2]> = (0..count)
        .map(|_| [0, 1].map(|_| draw(1 << 20) as f64 / f64::from(1 << 20) * spread))
        .collect();
    let farthest = pairs.iter().map(|p| p.2).fold(1.0, f64::max);
    let first_step = farthest * farthest;
    for round in 0..ROUNDS {
        let progress = f64::from(round) / f64::from(ROUNDS - 1);
        let step = first_step * (LAST_STEP / first_step).powf(progress);
        for i in (1..pairs.len()).rev() {
            pairs.swap(i, draw(i + 1));
        }
        for &(a, b, wanted) in &pairs {
            let weight = (step / (wanted * wanted)).min(1.0);
            let [dx, dy] = [at[a][0] - at[b][0], at[a][1] - at[b][1]];
            let distance = dx.hypot(dy).max(1e-6);
            let pull = weight * (distance - wanted) / 2.0 / distance;
            for (axis, d) in [dx, dy].into_iter().enumerate() {
                at[a][axis] -= pull * d;
                at[b][axis] += pull * d;
            }
        }
    }
    part(&mut at);
    at
}

/// Moves boxes apart that would cover each other.
fn part(at: &mut [[f64; 2]]) {
    const ROUNDS: usize = 20;
    const NEAREST: f64 = 0.75;
    for _ in 0..ROUNDS {
        for a in 1..at.len() {
            for b in 0..a {
                let [dx, dy] = [at[a][0] - at[b][0], at[a][1] - at[b][1]];
                let distance = dx.hypot(dy);
                if distance < NEAREST {
                    // Two in one place part sidewards.
                    let (ux, uy) =
                        if distance > 1e-6 { (dx / distance, dy / distance) } else { (1.0, 0.0) };
                    let step = (NEAREST - distance) / 2.0;
                    for (axis, unit) in [ux, uy].into_iter().enumerate() {
                        at[a][axis] += unit * step;
                        at[b][axis] -= unit * step;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_topo::{Options, generate};

    fn laid_out(shape: &Shape) -> (Layout, usize) {
        let topology = generate(shape, Options::default()).unwrap();
        let boxes = Boxes::new(&topology);
        (layout(&topology, &boxes), boxes.len())
    }

    #[test]
    fn no_two_boxes_are_in_one_place() {
        for shape in [
            Shape::Line { nodes: 5 },
            Shape::Ring { nodes: 40 },
            Shape::Star { leaves: 9 },
            Shape::Torus { sides: vec![3, 4, 2, 3] },
            Shape::FatTree { ports: 6 },
            Shape::Butterfly { ary: 3, flat: 4, dilation: 1, fast: 0 },
            Shape::Clos { leaves: 7, spines: 3 },
            Shape::UnfoldedClos { outer: 4, middle: 5 },
            Shape::Dragonfly { routers: 4, global: 2, groups: 9 },
            Shape::TwoStage { fronts: 4, backs: 2 },
            Shape::Jellyfish { nodes: 30, degree: 3, seed: 1 },
        ] {
            let (layout, count) = laid_out(&shape);
            assert_eq!(layout.at.len(), count, "{shape:?}");
            for (i, a) in layout.at.iter().enumerate() {
                for b in &layout.at[..i] {
                    let distance = (a[0] - b[0]).hypot(a[1] - b[1]);
                    assert!(distance > 0.6, "{shape:?}: {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn a_fat_trees_core_is_above_its_edge() {
        let (layout, _) = laid_out(&Shape::FatTree { ports: 4 });
        let (edge, aggregation, core) = (layout.at[0][1], layout.at[8][1], layout.at[16][1]);
        assert!(core < aggregation && aggregation < edge);
    }

    #[test]
    fn neighbours_are_drawn_nearer_than_what_is_far() {
        let topology = generate(&Shape::Line { nodes: 12 }, Options::default()).unwrap();
        let at = by_stress(&Boxes::new(&topology));
        let between = |a: usize, b: usize| (at[a][0] - at[b][0]).hypot(at[a][1] - at[b][1]);
        assert!((between(0, 11) - 11.0).abs() < 0.5, "{}", between(0, 11));
        assert!((0..11).all(|i| (between(i, i + 1) - 1.0).abs() < 0.3));
    }
}
