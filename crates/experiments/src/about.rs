//! What the folder of a paper says of an experiment, for its page: the very text that people read
//! in the repository, embedded.

use super::plot::escaped;
use super::record;

/// The papers, by the names of their folders, with what these say.
const PAPERS: &[(&str, &str)] = &[
    ("augustus", include_str!("../../../experiments/augustus/README.md")),
    ("axon", include_str!("../../../experiments/axon/README.md")),
    ("distributed-router", include_str!("../../../experiments/distributed-router/README.md")),
    ("netfpga-aurora", include_str!("../../../experiments/netfpga-aurora/README.md")),
    ("traffic-coprocessor", include_str!("../../../experiments/traffic-coprocessor/README.md")),
];

/// The first heading of a paper's folder, and the line under it, which names the paper.
pub(super) fn paper(folder: &str) -> (&'static str, String) {
    let text = text(folder);
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let heading = lines.next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
    let reference: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
    (heading, inline(&reference.join(" ")))
}

fn text(folder: &str) -> &'static str {
    PAPERS.iter().find(|(name, _)| *name == folder).map_or("", |(_, text)| text)
}

/// What is said of an experiment, as HTML: the claim, which is the first paragraph of its section,
/// and all else, but for commands and tables.
pub(super) fn section(folder: &str, name: &str) -> (String, String) {
    let heading = format!("## {name}");
    let lines = record::without_findings(text(folder)).skip_while(|line| *line != heading).skip(1);
    let mut lines = lines.take_while(|line| !line.starts_with("## ")).skip_while(|l| l.is_empty());
    let claim: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    (rendered(claim.into_iter()), rendered(lines))
}

/// Paragraphs and lists.
fn rendered<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    /// What was written so far of a paragraph or an item.
    enum Block {
        Paragraph(String),
        Item(String),
    }
    let mut blocks: Vec<Block> = Vec::new();
    // Whether a line goes on with the block before.
    let (mut open, mut command) = (false, false);
    for line in lines {
        if line.starts_with("```") {
            command = !command;
        }
        if command || line.is_empty() || line.starts_with("```") || line.starts_with('|') {
            open = false;
            continue;
        }
        match (line.strip_prefix("- "), blocks.last_mut()) {
            (Some(item), _) => blocks.push(Block::Item(item.into())),
            (None, Some(Block::Paragraph(text) | Block::Item(text))) if open => {
                text.push(' ');
                text.push_str(line.trim_start());
            }
            (None, _) => blocks.push(Block::Paragraph(line.into())),
        }
        open = true;
    }
    let mut html = String::new();
    let mut in_list = false;
    for block in &blocks {
        let is_item = matches!(block, Block::Item(_));
        if is_item != in_list {
            html.push_str(if is_item { "<ul>\n" } else { "</ul>\n" });
            in_list = is_item;
        }
        let (Block::Paragraph(text) | Block::Item(text)) = block;
        let tag = if is_item { "li" } else { "p" };
        html.push_str(&format!("<{tag}>{}</{tag}>\n", inline(text)));
    }
    if in_list {
        html.push_str("</ul>\n");
    }
    html
}

/// A paragraph's text: bold, emphasis and code as such, of links their text only, for they lead
/// into the repository.
fn inline(text: &str) -> String {
    let text = escaped(text);
    let mut html = String::new();
    let (mut bold, mut emphasis, mut code) = (false, false, false);
    let toggle = |html: &mut String, on: &mut bool, tag: &str| {
        html.push_str(&if *on { format!("</{tag}>") } else { format!("<{tag}>") });
        *on = !*on;
    };
    let mut rest = &text[..];
    while let Some(c) = rest.chars().next() {
        let link = || -> Option<(&str, &str)> {
            let (text, behind) = rest.strip_prefix('[')?.split_once("](")?;
            let (_, behind) = behind.split_once(')')?;
            (!text.contains(']')).then_some((text, behind))
        };
        let lone = rest.starts_with("* ") && html.ends_with(' ');
        if c == '`' {
            toggle(&mut html, &mut code, "code");
        } else if !code && rest.starts_with("**") {
            toggle(&mut html, &mut bold, "strong");
            rest = &rest[1..];
        } else if !code && c == '*' && !lone {
            toggle(&mut html, &mut emphasis, "em");
        } else if let (false, Some((text, behind))) = (code, link()) {
            html.push_str(&text.replace('`', ""));
            rest = behind;
            continue;
        } else {
            html.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    // What was left open ends here, innermost first.
    for (on, tag) in [(&mut code, "code"), (&mut emphasis, "em"), (&mut bold, "strong")] {
        if *on {
            toggle(&mut html, on, tag);
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EXPERIMENTS;

    #[test]
    fn every_experiment_is_told_of_in_the_folder_of_its_paper() {
        for experiment in EXPERIMENTS {
            let (heading, reference) = paper(experiment.paper);
            assert!(!heading.is_empty() && !reference.is_empty(), "{}", experiment.paper);
            let (claim, rest) = section(experiment.paper, experiment.name);
            let html = format!("<div>{claim}{rest}{reference}</div>");
            assert!(claim.starts_with("<p><strong>Claim"), "{claim}");
            assert!(!rest.is_empty() && !rest.contains("<strong>Claim"), "{rest}");
            assert!(roxmltree::Document::parse(&html).is_ok(), "{html}");
        }
        assert_eq!((section("axon", "none"), paper("none").0), Default::default());
    }

    #[test]
    fn paragraphs_lists_and_marks_are_kept_and_commands_are_not() {
        let text = "**Claim** (a < b):\nmore.\n\n```console\n$ x\n```\n- one\n  goes on\n\
                    - `2 * 3`\n\n\
                    See [the `file`](a/b.md), *h* * 2.";
        let html = "<p><strong>Claim</strong> (a &lt; b): more.</p>\n<ul>\n<li>one goes on</li>\n\
                    <li><code>2 * 3</code></li>\n</ul>\n\
                    <p>See the file, <em>h</em> * 2.</p>\n";
        assert_eq!(rendered(text.lines()), html);
        assert_eq!(inline("**open `code"), "<strong>open <code>code</code></strong>");
        assert_eq!(inline("a[1] (b)"), "a[1] (b)");
    }
}
