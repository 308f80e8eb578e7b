//! Draws a topology as SVG: boxes and hosts with their names, links with what they carry when one
//! points at them. A host's name runs from its dot away from the box; hosts stand where their names
//! cross the fewest links.

use std::fmt::{self, Write as _};

use plexus_config::units::format_rate;
use plexus_topo::{Device, End, Link, Topology};

use super::layout::layout;
use super::write::xml_escaped;
use crate::analysis::Boxes;

/// Most boxes that are drawn.
pub const DRAWN_BOXES_MAX: usize = 1000;
/// Most links between boxes that are drawn.
const DRAWN_LINKS_MAX: usize = 20_000;
/// Hosts of a box that are drawn one by one; more are a number.
const DOTS_MAX: usize = 16;
/// Pixels from a box to the next, and of a box.
const STEP: f64 = 110.0;
const BOX: [f64; 2] = [52.0, 22.0];
/// Pixels from a box's middle to its hosts.
const HOST_DISTANCE: f64 = 40.0;
const MARGIN: f64 = 70.0;
/// Pixels from a box's middle to where its hosts' names begin, and about those of a letter.
const NAME_DISTANCE: f64 = HOST_DISTANCE + 8.0;
const LETTER: f64 = 6.5;
/// Directions in which a host can be drawn.
const DIRECTIONS: usize = 48;

/// Why a topology is not drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawError {
    boxes: usize,
    links: usize,
}

impl fmt::Display for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} boxes and {} links cannot be read as a drawing (at most {DRAWN_BOXES_MAX} and \
             {DRAWN_LINKS_MAX}): export it as DOT, and let Graphviz's sfdp draw it",
            self.boxes, self.links
        )
    }
}

impl std::error::Error for DrawError {}

pub(super) fn svg(topology: &Topology) -> Result<String, DrawError> {
    let count = topology.nodes.len() + topology.bridges.len();
    if count > DRAWN_BOXES_MAX || topology.links.len() > DRAWN_LINKS_MAX + topology.hosts.len() {
        return Err(DrawError { boxes: count, links: topology.links.len() });
    }
    let boxes = Boxes::new(topology);
    let layout = layout(topology, &boxes);
    let places: Vec<[f64; 2]> = layout.at.iter().map(|at| at.map(|c| c * STEP)).collect();
    let range = |axis: usize| {
        let along = || places.iter().map(move |p| p[axis]);
        let (low, high) = along().fold((f64::MAX, f64::MIN), |(l, h), c| (l.min(c), h.max(c)));
        if low > high { (0.0, 0.0) } else { (low, high) }
    };
    let ((left, right), (top, bottom)) = (range(0), range(1));
    let longest = topology.hosts.iter().map(|h| h.name.chars().count()).max().unwrap_or(0);
    let margin = MARGIN.max(NAME_DISTANCE + LETTER * longest as f64 + 4.0);
    let mut drawing = Drawing {
        topology,
        boxes: &boxes,
        places: places.iter().map(|p| [p[0] - left + margin, p[1] - top + margin]).collect(),
        rows: layout.rows,
        out: String::new(),
    };
    let (width, height) = (right - left + 2.0 * margin, bottom - top + 2.0 * margin + 20.0);
    drawing.head(width, height);
    drawing.links();
    drawing.hosts();
    drawing.boxes();
    drawing.out.push_str("</svg>\n");
    Ok(drawing.out)
}

struct Drawing<'a> {
    topology: &'a Topology,
    boxes: &'a Boxes,
    /// Middle of each box in pixels.
    places: Vec<[f64; 2]>,
    rows: bool,
    out: String,
}

impl Drawing<'_> {
    fn head(&mut self, width: f64, height: f64) {
        let name = xml_escaped(&self.topology.name);
        let _ = write!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\">\n\
             <title>{name}</title>\n\
             <style>\n\
             .link {{ stroke: #5b7083; fill: none; }}\n\
             .cable {{ stroke: #b3bfca; }}\n\
             .node {{ fill: #dcebf7; stroke: #22557f; }}\n\
             .bridge {{ fill: #f7ecd0; stroke: #8a6414; }}\n\
             .host {{ fill: #4a4a4a; }}\n\
             text {{ font-size: 11px; text-anchor: middle; fill: #1c1c1c; }}\n\
             .many, .name {{ font-size: 10px; fill: #4a4a4a; }}\n\
             .name {{ text-anchor: start; paint-order: stroke; stroke: #ffffff; \
             stroke-width: 3px; }}\n\
             .left {{ text-anchor: end; }}\n\
             </style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{:.0}\" y=\"{:.0}\">{name}</text>\n",
            width / 2.0,
            height - 12.0
        );
    }

    fn links(&mut self) {
        for link in &self.topology.links {
            let ends = link.devices().map(|d| box_number(self.topology, d));
            let [Some(a), Some(b)] = ends else { continue };
            let ([ax, ay], [bx, by]) = (self.places[a], self.places[b]);
            let path = match self.bend([ax, ay], [bx, by]) {
                Some([cx, cy]) => {
                    format!("M{ax:.1} {ay:.1}Q{cx:.1} {cy:.1} {bx:.1} {by:.1}")
                }
                None => format!("M{ax:.1} {ay:.1}L{bx:.1} {by:.1}"),
            };
            let width = 1.0 + (link.cables.len() as f64).log2().min(4.0);
            let told = xml_escaped(&told(self.topology, link));
            let _ = writeln!(
                self.out,
                "<path class=\"link\" d=\"{path}\" stroke-width=\"{width:.1}\">\
                 <title>{told}</title></path>"
            );
        }
    }

    /// The point that bends a link along a row around the boxes between its ends.
    fn bend(&self, a: [f64; 2], b: [f64; 2]) -> Option<[f64; 2]> {
        let [dx, dy] = [b[0] - a[0], b[1] - a[1]];
        let length = dx.hypot(dy);
        let along = dx.abs() < 1.0 || dy.abs() < 1.0;
        if !self.rows || !along || length < 1.2 * STEP {
            return None;
        }
        let aside = 0.5 * STEP + 0.06 * length;
        let middle = [(a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0];
        Some([middle[0] + dy / length * aside, middle[1] - dx / length * aside])
    }

    fn hosts(&mut self) {
        let mut of: Vec<Vec<usize>> = vec![Vec::new(); self.places.len()];
        for link in &self.topology.links {
            for (i, end) in link.cables[0].iter().enumerate() {
                let other = link.cables[0][1 - i].device();
                if let (End::Host { host, interface }, Some(at)) =
                    (end, box_number(self.topology, other))
                {
                    // A host with several cables is drawn at the first; the others are lines.
                    if *interface == 0 {
                        of[at].push(*host);
                    }
                }
            }
        }
        let mut drawn = vec![None; self.topology.hosts.len()];
        for (at, hosts) in of.iter().enumerate() {
            let away = self.away(at);
            let [x, y] = self.places[at];
            if hosts.len() > DOTS_MAX {
                let [x, y] = [x + HOST_DISTANCE * away.cos(), y + HOST_DISTANCE * away.sin()];
                let _ = writeln!(
                    self.out,
                    "<text class=\"many\" x=\"{x:.1}\" y=\"{y:.1}\">{} hosts</text>",
                    hosts.len()
                );
                continue;
            }
            let names = hosts.iter().map(|host| self.topology.hosts[*host].name.chars().count());
            let longest = LETTER * names.max().unwrap_or(0) as f64;
            let angles = self.directions(at, away, hosts.len(), longest);
            for (host, angle) in hosts.iter().zip(angles) {
                let place = [x + HOST_DISTANCE * angle.cos(), y + HOST_DISTANCE * angle.sin()];
                self.cable([x, y], place);
                let name = xml_escaped(&self.topology.hosts[*host].name);
                let [nx, ny] = [x + NAME_DISTANCE * angle.cos(), y + NAME_DISTANCE * angle.sin()];
                // The right way up.
                let (class, turn) = match angle.cos() < -1e-9 {
                    true => ("name left", angle.to_degrees() + 180.0),
                    false => ("name", angle.to_degrees()),
                };
                let _ = writeln!(
                    self.out,
                    "<circle class=\"host\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\">\
                     <title>{name}</title></circle>\n\
                     <text class=\"{class}\" x=\"{nx:.1}\" y=\"{ny:.1}\" dy=\"0.35em\" \
                     transform=\"rotate({turn:.1} {nx:.1} {ny:.1})\">{name}</text>",
                    place[0], place[1]
                );
                drawn[*host] = Some(place);
            }
        }
        for link in &self.topology.links {
            for (i, end) in link.cables[0].iter().enumerate() {
                let other = link.cables[0][1 - i].device();
                let End::Host { host, interface: 1.. } = end else { continue };
                if let (Some(at), Some(place)) = (box_number(self.topology, other), drawn[*host]) {
                    self.cable(self.places[at], place);
                }
            }
        }
    }

    /// In which directions a box's hosts are drawn: those whose names, `longest` pixels long, cross
    /// the fewest links, and among them the nearest to `away`.
    fn directions(&self, at: usize, away: f64, hosts: usize, longest: f64) -> Vec<f64> {
        let [x, y] = self.places[at];
        let reach = NAME_DISTANCE + longest;
        let near: Vec<[[f64; 2]; 2]> = self.lines_near([x, y], reach);
        let step = std::f64::consts::TAU / DIRECTIONS as f64;
        // Names of neighbouring hosts are as far apart as they are high.
        let apart = (0.4 / step).ceil().min((DIRECTIONS / hosts.max(1)) as f64) as usize;
        let mut ranked: Vec<(usize, usize, i64)> = (0..DIRECTIONS as i64)
            .map(|i| {
                // 0, 1, -1, 2, -2, …
                let aside = if i % 2 == 0 { -i / 2 } else { (i + 1) / 2 };
                let angle = away + aside as f64 * step;
                let point = |r: f64| [x + r * angle.cos(), y + r * angle.sin()];
                let name = [point(BOX[1]), point(reach)];
                let crossed = near.iter().filter(|line| distance(name, **line) < 6.0).count();
                (crossed, i as usize, aside)
            })
            .collect();
        ranked.sort_unstable();
        let mut taken: Vec<i64> = Vec::new();
        let around = DIRECTIONS as i64;
        for (_, _, aside) in ranked {
            let free = |other: &i64| {
                let between = (aside - other).rem_euclid(around);
                between.min(around - between) >= apart as i64
            };
            if taken.len() < hosts && taken.iter().all(free) {
                taken.push(aside);
            }
        }
        // Where they do not all fit so, all around.
        if taken.len() < hosts {
            taken = (0..hosts as i64).map(|i| i * around / hosts as i64).collect();
        }
        taken.sort_unstable();
        taken.into_iter().map(|aside| away + aside as f64 * step).collect()
    }

    /// The parts of links between boxes that pass within `reach` pixels of a place.
    fn lines_near(&self, place: [f64; 2], reach: f64) -> Vec<[[f64; 2]; 2]> {
        let mut near = Vec::new();
        for link in &self.topology.links {
            let [Some(a), Some(b)] = link.devices().map(|d| box_number(self.topology, d)) else {
                continue;
            };
            let (a, b) = (self.places[a], self.places[b]);
            let pieces = match self.bend(a, b) {
                None => vec![a, b],
                // A quadratic Bézier curve, in eight pieces.
                Some(c) => (0..=8)
                    .map(|i| {
                        let t = f64::from(i) / 8.0;
                        let (p, q, r) = ((1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t);
                        [p * a[0] + q * c[0] + r * b[0], p * a[1] + q * c[1] + r * b[1]]
                    })
                    .collect(),
            };
            let lines = pieces.windows(2).map(|w| [w[0], w[1]]);
            near.extend(lines.filter(|line| distance([place, place], *line) < reach));
        }
        near
    }

    fn cable(&mut self, from: [f64; 2], to: [f64; 2]) {
        let _ = writeln!(
            self.out,
            "<line class=\"cable\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from[0], from[1], to[0], to[1]
        );
    }

    /// The direction in which a box has no neighbours, as far as there is one; down where they are
    /// all around.
    fn away(&self, at: usize) -> f64 {
        let [x, y] = self.places[at];
        let mut sum = [0.0; 2];
        for (to, _) in self.boxes.edges(at) {
            let [dx, dy] = [self.places[*to as usize][0] - x, self.places[*to as usize][1] - y];
            let length = dx.hypot(dy).max(1.0);
            sum = [sum[0] + dx / length, sum[1] + dy / length];
        }
        let clear = sum[0].hypot(sum[1]) > 0.1;
        if clear { (-sum[1]).atan2(-sum[0]) } else { std::f64::consts::FRAC_PI_2 }
    }

    fn boxes(&mut self) {
        for (i, [x, y]) in self.places.iter().enumerate() {
            let (class, name) = match i.checked_sub(self.topology.nodes.len()) {
                None => ("node", &self.topology.nodes[i].name),
                Some(bridge) => ("bridge", &self.topology.bridges[bridge].name),
            };
            let name = xml_escaped(name);
            // Letters are about 6.5 pixels wide.
            let width = BOX[0].max(6.5 * name.chars().count() as f64 + 10.0);
            let _ = writeln!(
                self.out,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" \
                 height=\"{}\" rx=\"4\"/>\n<text x=\"{x:.1}\" y=\"{:.1}\">{name}</text>",
                x - width / 2.0,
                y - BOX[1] / 2.0,
                BOX[1],
                y + 4.0
            );
        }
    }
}

/// The least distance between two lines' points, in pixels.
fn distance(one: [[f64; 2]; 2], other: [[f64; 2]; 2]) -> f64 {
    let cross = |o: [f64; 2], a: [f64; 2], b: [f64; 2]| {
        (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])
    };
    let sides = |l: [[f64; 2]; 2], m: [[f64; 2]; 2]| {
        cross(l[0], l[1], m[0]) * cross(l[0], l[1], m[1]) < 0.0
    };
    if sides(one, other) && sides(other, one) {
        return 0.0;
    }
    let to_line = |p: [f64; 2], [a, b]: [[f64; 2]; 2]| {
        let [dx, dy] = [b[0] - a[0], b[1] - a[1]];
        let length = dx * dx + dy * dy;
        let along = if length > 0.0 {
            (((p[0] - a[0]) * dx + (p[1] - a[1]) * dy) / length).clamp(0.0, 1.0)
        } else {
            0.0
        };
        (p[0] - a[0] - along * dx).hypot(p[1] - a[1] - along * dy)
    };
    let ends = [to_line(one[0], other), to_line(one[1], other)];
    ends.into_iter()
        .chain([to_line(other[0], one), to_line(other[1], one)])
        .fold(f64::MAX, f64::min)
}

fn box_number(topology: &Topology, device: Device) -> Option<usize> {
    match device {
        Device::Node(node) => Some(node),
        Device::Bridge(bridge) => Some(topology.nodes.len() + bridge),
        Device::Host(_) => None,
    }
}

fn told(topology: &Topology, link: &Link) -> String {
    let [a, b] = link.cables[0].map(|end| topology.end_name(end));
    let mut text = format!("{a} — {b}");
    if link.cables.len() > 1 {
        let _ = write!(text, ", {} cables", link.cables.len());
    }
    if let Some(rate) = link.rate_bits_per_s {
        let _ = write!(text, ", {} each way", format_rate(rate));
    }
    text
}
