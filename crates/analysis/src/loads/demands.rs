//! Demands from a CSV file: `src,dst,amount`, the first two being names of nodes, hosts or bridges.
//! The heading may be there or not; empty lines and what begins with `#` are passed over. Rows of
//! one pair add up, and are flows of their own where a routing gives each flow a path.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};
use plexus_config::{FileError, Problem};
use plexus_topo::{Graph, Topology};

use super::Demand;

/// Largest file that is read: some millions of rows.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Problems that are collected before the rest of the file is left unread.
const PROBLEMS_MAX: usize = 20;
const HELP: &str = "write src,dst,amount: two names of the topology, and a number";

/// Reads the demands of a file.
///
/// # Errors
/// When it cannot be read, with every name that the topology does not have, amount that is not a
/// number or is negative, and row from a device to itself.
pub fn read_demands(path: &Path, topology: &Topology) -> Result<Vec<Demand>, FileError> {
    let file = path.display().to_string();
    let whole = |message: String| FileError::whole(&file, message, HELP);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|f| f.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|e| whole(format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(whole(format!("is larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = good.iter().filter(|b| **b == b'\n').count() + 1;
        whole(format!("is not UTF-8 text, from line {line} on"))
    })?;
    parse(&file, &text, topology)
}

/// Reads demands from the text of a file.
fn parse(file: &str, text: &str, topology: &Topology) -> Result<Vec<Demand>, FileError> {
    let graph = Graph::new(topology);
    let devices = (0..graph.len()).map(|v| (topology.device_name(graph.device(v)), v));
    let vertices: HashMap<&str, usize> = devices.collect();
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let skipped = text.len() - body.len();
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(Trim::All)
        .from_reader(body.as_bytes());
    let mut record = StringRecord::new();
    let (mut demands, mut problems) = (Vec::new(), Vec::new());
    let mut first = true;
    loop {
        let start = skipped + reader.position().byte() as usize;
        let more = reader.read_record(&mut record);
        let end = (skipped + reader.position().byte() as usize).min(text.len());
        let start = row_start(text, start);
        let row = match more {
            Ok(false) => break,
            Ok(true) if std::mem::take(&mut first) && is_heading(&record) => continue,
            Ok(true) => demand(&record, &vertices),
            Err(e) => Err((e.to_string(), HELP.to_string())),
        };
        match row {
            Ok(demand) => demands.push(demand),
            Err((message, help)) => {
                let line = text.get(start..end).unwrap_or_default().trim_end();
                let span = start..start + line.len().max(1);
                problems.push(Problem { span: Some(span), message, help });
                if problems.len() == PROBLEMS_MAX {
                    break;
                }
            }
        }
    }
    if problems.is_empty() { Ok(demands) } else { Err(FileError::new(file, text, problems)) }
}

/// Where the next row begins: what is passed over counts for the reader as part of it.
fn row_start(text: &str, mut at: usize) -> usize {
    while let Some(line) = text.get(at..).and_then(|rest| rest.split_inclusive('\n').next()) {
        if !line.trim_end().is_empty() && !line.starts_with('#') {
            break;
        }
        at += line.len();
    }
    at
}

fn is_heading(record: &StringRecord) -> bool {
    let heading = ["src", "dst", "amount"];
    record.len() == 3 && record.iter().zip(heading).all(|(a, b)| a.eq_ignore_ascii_case(b))
}

/// The demand of a row, or what is wrong with it and what to do.
fn demand(
    record: &StringRecord,
    vertices: &HashMap<&str, usize>,
) -> Result<Demand, (String, String)> {
    let wrong = |message: String, help: &str| (message, help.to_string());
    let [src, dst, amount] = [0, 1, 2].map(|column| record.get(column).unwrap_or_default());
    if record.len() != 3 {
        return Err(wrong(format!("has {} fields, not 3", record.len()), HELP));
    }
    let vertex = |name: &str| {
        let unknown = || format!("there is no node, host or bridge {name:?} in the topology");
        let help = "`plexus topo show` lists the names";
        vertices.get(name).copied().ok_or_else(|| wrong(unknown(), help))
    };
    let (from, to) = (vertex(src)?, vertex(dst)?);
    if from == to {
        return Err(wrong(format!("leads from {src} to itself"), "leave the row out"));
    }
    let not_amount = || wrong(format!("{amount:?} is not an amount"), "write a number such as 2.5");
    let amount: f64 = amount.parse().map_err(|_| not_amount())?;
    if !amount.is_finite() || amount < 0.0 {
        let help = "write a number that is finite and not negative";
        return Err(wrong(format!("the amount is {amount}"), help));
    }
    Ok(Demand { from, to, amount })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_topo::{Options, Shape, generate};

    fn read(text: &str) -> Result<Vec<Demand>, String> {
        let line = generate(&Shape::Line { nodes: 2 }, Options::default()).unwrap();
        parse("d.csv", text, &line).map_err(|e| e.to_string())
    }

    #[test]
    fn names_are_of_nodes_and_hosts() {
        let demand = |from, to, amount| Demand { from, to, amount };
        let rows = vec![demand(0, 1, 1.5), demand(2, 3, 1e18), demand(2, 3, 0.0)];
        for text in [
            "src,dst,amount\ns1,s2,1.5\nh1,h2,1e18\nh1,h2,0\n",
            "\u{feff}Src, Dst, Amount\r\n s1 , s2,1.5\r\n\r\n# a remark\r\nh1,h2,1e18\r\nh1,h2,0",
            "s1,s2,1.5\n\"h1\",h2,1e18\nh1,h2,-0\n",
        ] {
            assert_eq!(read(text), Ok(rows.clone()), "{text:?}");
        }
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn mistakes_are_told_with_their_lines() {
        for (row, line, told) in [
            ("s1,s9,1", 3, "\"s9\""),
            ("s1,s1,1", 3, "itself"),
            ("s1,s2,-1", 3, "-1"),
            ("s1,s2,NaN", 3, "NaN"),
            ("s1,s2,inf", 3, "inf"),
            ("s1,s2,1e999", 3, "inf"),
            ("s1,s2,much", 3, "\"much\""),
            ("s1,s2", 3, "2 fields"),
            ("s1,s2,1,2", 3, "4 fields"),
            ("\n\ns1,s2,", 5, "\"\""),
        ] {
            let told_at = read(&format!("src,dst,amount\ns1,s2,1\n{row}\ns2,s1,1\n")).unwrap_err();
            assert!(told_at.contains(&format!("d.csv:{line}:")), "{row}: {told_at}");
            assert!(told_at.contains(told), "{row}: {told_at}");
        }
        let both = read("s1,s3,1\nx,s1,1\n").unwrap_err();
        assert!(both.contains("d.csv:1:") && both.contains("d.csv:2:"), "{both}");
    }
}
