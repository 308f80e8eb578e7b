//! The pages that `--out` writes: one for each experiment, and one that leads to them.
//!
//! A page stands alone: its style and its charts are in it, no script is needed, nothing is loaded.
//! What comes from a report is escaped. Colours follow the reader's screen; paper is white.

use std::fmt::Write as _;

use super::about;
use super::plot::{Paint, Size, escaped};
use super::report::{Findings, Report, Row};
use super::verdict::Verdict;
use super::{EXPERIMENTS, Experiment, Request};

const STYLE: &str = include_str!("page/style.css");
/// Numbers of a chart that are written beside it, at most; the CSV has all.
const NUMBERS: usize = 200;
/// Rows that are seen at once, at most; behind them are all.
const ROWS: usize = 12;

/// The index of a run of all experiments.
pub(super) const INDEX: &str = "index.html";

/// What became of an experiment.
pub(super) enum Outcome {
    Ran(Report, Box<Findings>),
    /// It did not run, or not to its end, and why.
    Failed(String),
}

impl Outcome {
    pub(super) fn into_report(self) -> Option<Report> {
        match self {
            Outcome::Ran(report, _) => Some(report),
            Outcome::Failed(_) => None,
        }
    }
}

/// A file that lies beside a page, under the name of its experiment.
pub(super) fn figure_name(experiment: &str, figure: usize, kind: &str) -> String {
    format!("{experiment}-fig{figure}.{kind}")
}

pub(super) fn experiment(
    experiment: &Experiment,
    report: &Report,
    findings: &Findings,
    request: &Request,
) -> String {
    let name = experiment.name;
    let (paper, reference) = about::paper(experiment.paper);
    let mut body = String::new();
    if request.is_all() {
        let _ = writeln!(body, "<nav><a href=\"{INDEX}\">All experiments</a></nav>");
    }
    let _ = writeln!(
        body,
        "<header>\n<p class=\"kicker\">{}</p>\n<h1>{name}</h1>\n<p class=\"about\">{}</p>\n\
         <p class=\"reference\">{reference}</p>\n<p>{}{}</p>\n</header>\n<main>",
        escaped(paper),
        escaped(&capitalised(experiment.about)),
        badge(experiment),
        quick_badge(request.quick)
    );
    body.push_str(&verdict(report));
    let (claim, section) = about::section(experiment.paper, name);
    body.push_str(&claim);
    if !findings.doubts.is_empty() {
        body.push_str("<div class=\"doubt\" role=\"note\">\n");
        for doubt in &findings.doubts {
            let _ = writeln!(body, "<p><strong>Doubtful:</strong> {}</p>", escaped(doubt));
        }
        body.push_str("</div>\n");
    }
    body.push_str("<h2>The paper's figures and ours</h2>\n");
    body.push_str(&rows(&first_rows(&report.rows)));
    if report.rows.len() > ROWS {
        let all: Vec<&Row> = report.rows.iter().collect();
        let _ = writeln!(
            body,
            "<details class=\"all\"><summary>All {} figures</summary>\n{}</details>",
            all.len(),
            rows(&all)
        );
    }
    if !findings.remarks.is_empty() {
        let _ = writeln!(body, "<ul>");
        for remark in &findings.remarks {
            let _ = writeln!(body, "<li>{}</li>", escaped(remark));
        }
        let _ = writeln!(body, "</ul>");
    }
    for (i, chart) in findings.charts.iter().enumerate() {
        let number = i + 1;
        let links: Vec<String> = ["svg", "png", "csv"]
            .map(|kind| link(&figure_name(name, number, kind), &kind.to_uppercase()))
            .into();
        let _ = writeln!(
            body,
            "<figure id=\"fig{number}\">\n{}{}<figcaption>Figure {number} · {}</figcaption>\n{}\
             </figure>",
            chart.picture(Size::WHOLE).inline_svg("wide"),
            chart.picture(Size::NARROW).inline_svg("narrow"),
            links.join(" · "),
            numbers(&chart.table())
        );
    }
    if !section.is_empty() {
        let _ = writeln!(body, "<h2>How it is repeated</h2>\n{section}");
    }
    let _ = writeln!(
        body,
        "<h2>How it was run</h2>\n<dl>\n<dt>Command</dt><dd><code>{}</code></dd>\n\
         <dt>Mode</dt><dd>{}</dd>\n<dt>Seed</dt><dd>{}</dd>\n\
         <dt>Commit</dt><dd><code>{}</code></dd>\n\
         <dt>Files</dt><dd>{} (the table) · {} (every single run)</dd>\n</dl>\n</main>",
        escaped(&command(name, request)),
        mode(report.mode),
        report.seed,
        escaped(report.commit),
        link(&format!("{name}.json"), "JSON"),
        link(&format!("{name}.csv"), "CSV"),
    );
    page(&format!("{name} – {paper}"), experiment.about, &body)
}

/// The page that leads to those of all experiments, in the order in which they ran.
pub(super) fn index(outcomes: &[(&Experiment, Outcome)], request: &Request) -> String {
    let ran = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Ran(..))).count();
    let mut body = format!(
        "<header>\n<p class=\"kicker\">Plexus</p>\n<h1>Experiments</h1>\n\
         <p class=\"about\">What the papers behind Plexus report, run again: {ran} of {} \
         experiments. Filled and whole is ours, hollow and dashed the papers’.</p>\n\
         <p>{}</p>\n</header>\n<main>\n",
        EXPERIMENTS.len(),
        quick_badge(request.quick)
    );
    // Each once, in the order of the experiments, whose papers may alternate.
    let mut papers: Vec<&str> = Vec::new();
    for (experiment, _) in outcomes {
        if !papers.contains(&experiment.paper) {
            papers.push(experiment.paper);
        }
    }
    for paper in papers {
        let (heading, reference) = about::paper(paper);
        let _ = writeln!(
            body,
            "<h2>{}</h2>\n<p class=\"reference\">{reference}</p>\n<div class=\"cards\">",
            escaped(heading)
        );
        for (experiment, outcome) in outcomes.iter().filter(|(e, _)| e.paper == paper) {
            if let Outcome::Ran(report, findings) = outcome {
                body.push_str(&card(experiment, report, findings));
            }
        }
        body.push_str("</div>\n");
    }
    let failed: Vec<_> = outcomes
        .iter()
        .filter_map(|(experiment, outcome)| match outcome {
            Outcome::Failed(why) => Some((experiment, why)),
            Outcome::Ran(..) => None,
        })
        .collect();
    if !failed.is_empty() {
        body.push_str(
            "<h2>Did not run</h2>\n<div class=\"scroll\"><table>\n<thead><tr>\
             <th scope=\"col\">Experiment</th><th scope=\"col\">Why</th></tr></thead>\n<tbody>\n",
        );
        for (experiment, why) in failed {
            let _ = writeln!(
                body,
                "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                experiment.name,
                escaped(why)
            );
        }
        body.push_str("</tbody></table></div>\n");
    }
    let _ = writeln!(
        body,
        "<h2>How it was run</h2>\n<dl>\n<dt>Command</dt><dd><code>{}</code></dd>\n\
         <dt>Mode</dt><dd>{}</dd>\n<dt>Commit</dt><dd><code>{}</code></dd>\n</dl>\n</main>",
        escaped(&command("all", request)),
        mode(if request.quick { "quick" } else { "full" }),
        request.commit
    );
    page("Plexus: experiments", "What the papers behind Plexus report, run again", &body)
}

fn card(experiment: &Experiment, report: &Report, findings: &Findings) -> String {
    let name = experiment.name;
    let file = format!("{name}.html");
    let mut text = format!(
        "<section class=\"card\">\n<h3>{}</h3>\n<p>{}</p>\n",
        link(&file, name),
        escaped(&capitalised(experiment.about))
    );
    text.push_str(&verdict(report));
    if let Some(row) = first_rows(&report.rows).first() {
        let paper = row.paper.map(|_| format!(", paper {}", row.paper_text())).unwrap_or_default();
        let _ = writeln!(
            text,
            "<p class=\"caption\">{}: <strong>{}</strong> {}{paper}{}</p>",
            escaped(&row.quantity),
            row.ours_text(),
            escaped(row.unit),
            if row.beside.is_empty() { String::new() } else { format!(" ({})", beside(row)) }
        );
    }
    if let Some(chart) = findings.charts.first() {
        let svg = chart.picture(Size::NARROW).inline_svg("card");
        let _ = writeln!(text, "<figure><a href=\"{file}\">{svg}</a></figure>");
    }
    let doubtful = if findings.doubts.is_empty() {
        ""
    } else {
        "<span class=\"badge look\">doubtful: see its page</span>"
    };
    let _ = writeln!(text, "<p>{}{doubtful}</p>\n</section>", badge(experiment));
    text
}

fn badge(experiment: &Experiment) -> String {
    format!("<span class=\"badge\">{}</span>", experiment.kind.name())
}

fn quick_badge(quick: bool) -> &'static str {
    if quick { "<span class=\"badge look\">quick: a look, not a measurement</span>" } else { "" }
}

fn verdict(report: &Report) -> String {
    let Verdict { answer, why } = &report.verdict;
    format!(
        "<p class=\"verdict {}\"><strong>{}</strong>: {}</p>\n",
        answer.class(),
        capitalised(answer.name()),
        escaped(why)
    )
}

/// The rows that tell most: those with a figure of the paper's, then the others, in their order.
pub(super) fn first_rows(rows: &[Row]) -> Vec<&Row> {
    let rank = |row: &&Row| (row.is_detail, row.paper.is_none());
    let mut ranked: Vec<(usize, &Row)> = rows.iter().enumerate().collect();
    ranked.sort_by_key(|(_, row)| rank(row));
    ranked.truncate(ROWS);
    ranked.sort_by_key(|(at, _)| *at);
    ranked.into_iter().map(|(_, row)| row).collect()
}

/// Some rows as a table, which is a list where the screen is narrow.
fn rows(rows: &[&Row]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table class=\"rows\">\n<thead><tr><th scope=\"col\">Quantity</th>\
         <th scope=\"col\">Unit</th><th scope=\"col\" class=\"n\">Paper</th>\
         <th scope=\"col\" class=\"n\">Ours</th><th scope=\"col\" class=\"n\">Compared</th>\
         <th scope=\"col\">Note</th></tr></thead>\n<tbody>\n",
    );
    for row in rows {
        let paper = match row.paper {
            Some(_) => format!("<td class=\"n\" data-of=\"Paper\">{}</td>", row.paper_text()),
            None => "<td class=\"n none\">–</td>".into(),
        };
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td class=\"unit\" data-of=\"Unit\">{}</td>{paper}\
             <td class=\"n ours\" data-of=\"Ours\">{}</td>\
             <td class=\"n\" data-of=\"Compared\">{}</td><td class=\"note\">{}</td></tr>",
            escaped(&row.quantity),
            escaped(row.unit),
            row.ours_text(),
            beside(row),
            escaped(&row.note)
        );
    }
    text + "</tbody></table></div>\n"
}

/// Ours beside the paper's.
fn beside(row: &Row) -> String {
    match row.beside.strip_prefix("x ") {
        Some(ratio) => format!("× {ratio}"),
        None => escaped(&row.beside.replace('-', "\u{2212}")),
    }
}

/// What a chart draws, for those who do not see it.
fn numbers(table: &[[String; 4]]) -> String {
    let mut text = String::from("<details><summary>The numbers</summary>\n<table>\n");
    for (i, row) in table.iter().take(1 + NUMBERS).enumerate() {
        let tag = if i == 0 { "th scope=\"col\"" } else { "td" };
        let end = if i == 0 { "th" } else { "td" };
        let cells = row.iter().map(|cell| format!("<{tag}>{}</{end}>", escaped(cell)));
        let cells = cells.collect::<String>();
        let _ = match i {
            0 => writeln!(text, "<thead><tr>{cells}</tr></thead>\n<tbody>"),
            _ => writeln!(text, "<tr>{cells}</tr>"),
        };
    }
    text.push_str("</tbody></table>\n");
    if table.len() > 1 + NUMBERS {
        let _ = writeln!(text, "<p>The first {NUMBERS} of {}.</p>", table.len() - 1);
    }
    text + "</details>\n"
}

fn link(to: &str, text: &str) -> String {
    format!("<a href=\"{}\">{}</a>", escaped(to), escaped(text))
}

fn mode(mode: &str) -> &'static str {
    if mode == "quick" { "quick: shorter and fewer runs, a look" } else { "full" }
}

/// The command that leads to a page like it.
fn command(name: &str, request: &Request) -> String {
    let mut command = format!("plexus experiment run {name}");
    if request.quick {
        command.push_str(" --quick");
    }
    for (option, path) in [("--input", &request.input), ("--out", &request.out)] {
        if let Some(path) = path {
            let _ = write!(command, " {option} {}", path.display());
        }
    }
    command
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A whole page, as HTML that is XML as well.
fn page(title: &str, description: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{}</title>\n<meta name=\"description\" content=\"{}\"/>\n\
         <style>\n{STYLE}{}</style>\n\
         </head>\n<body>\n{body}<footer>Plexus, MIT or Apache-2.0. The papers’ figures are the \
         papers’; ours come from the command above.</footer>\n</body>\n</html>\n",
        escaped(title),
        escaped(description),
        paints()
    )
}

/// The colours of charts on a page, by screen.
fn paints() -> String {
    let rules = |colour: fn(Paint) -> u32| -> String {
        Paint::all()
            .map(|paint| {
                let (class, colour) = (paint.class(), colour(paint));
                format!(".f-{class}{{fill:#{colour:06x}}}.k-{class}{{stroke:#{colour:06x}}}\n")
            })
            .collect()
    };
    format!("@media screen and (prefers-color-scheme: dark) {{\n{}}}\n", rules(Paint::dark))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</p></td></title><script>x()</script> \"'&<!--";

    /// The text of a page whose only markup is ours.
    fn checked(page: &str) -> String {
        let xml = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
        let document = roxmltree::Document::parse(xml).unwrap();
        assert!(!document.descendants().any(|n| n.has_tag_name("script")));
        let body = document.descendants().find(|n| n.has_tag_name("body")).unwrap();
        body.descendants().filter(|n| n.is_text()).filter_map(|n| n.text()).collect()
    }

    #[test]
    fn what_a_report_says_stays_text() {
        let row = Row::new(HOSTILE, "Mbit/s", 2906.0).paper(1453.0).note(HOSTILE);
        let findings = Findings {
            rows: vec![row],
            remarks: vec![HOSTILE.into()],
            doubts: vec![HOSTILE.into()],
            ..Findings::default()
        };
        let request = Request {
            name: "all".into(),
            quick: true,
            input: None,
            out: Some(HOSTILE.into()),
            record: None,
            commit: "c",
            profile: "p",
        };
        let [first, second, ..] = EXPERIMENTS else { panic!("there are two") };
        let report = Report::new(first, &findings, true, "c");
        let text = checked(&experiment(first, &report, &findings, &request));
        // A quantity, its note, a remark, a doubt, the verdict and the command.
        assert_eq!(text.matches(HOSTILE).count(), 6, "{text}");
        assert!(text.contains("1,4532,906× 2.00"), "{text}");
        assert!(text.contains("Cannot be told: the figures are doubtful"), "{text}");
        let failed = Outcome::Failed(HOSTILE.into());
        let outcomes = [(first, Outcome::Ran(report, findings.into())), (second, failed)];
        let page = index(&outcomes, &request);
        let text = checked(&page);
        assert!(text.contains("doubtful") && text.contains("Did not run"), "{text}");
        assert_eq!(text.matches(HOSTILE).count(), 4, "{text}");
        assert!(!page.contains(&format!("href=\"{}.html\"", second.name)));
    }

    #[test]
    fn a_dozen_rows_come_first_those_of_the_paper_before_others_and_then_all() {
        let mut rows: Vec<Row> =
            (0..20).map(|i| Row::new(format!("ours {i}"), "B", f64::from(i))).collect();
        rows.push(Row::new("detail", "B", 1.0).paper(1.0).detail());
        rows.push(Row::new("paper", "B", 1.0).paper(1.0));
        let first = first_rows(&rows);
        assert_eq!((first.len(), &*first[11].quantity), (ROWS, "paper"));
        assert!(first.iter().all(|row| row.quantity != "detail"));
        let findings = Findings { rows, ..Findings::default() };
        let (name, input, out, record) = ("x".into(), None, None, None);
        let (commit, profile) = ("c", "p");
        let request = Request { name, quick: false, input, out, record, commit, profile };
        let named = &EXPERIMENTS[0];
        let page =
            experiment(named, &Report::new(named, &findings, false, "c"), &findings, &request);
        let (before, behind) = page.split_once("<summary>All 22 figures</summary>").unwrap();
        assert_eq!(before.matches("<tr><th scope=\"row\">").count(), ROWS);
        assert_eq!(behind.matches("<tr><th scope=\"row\">").count(), 22);
    }
}
