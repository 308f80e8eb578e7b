//! Picking interfaces from a list that says what each is.

use std::io::{self, BufRead, IsTerminal};

use plexus_setup::interface::Candidate;

use crate::text;

/// Shows the interfaces, and asks which of them become ports.
///
/// # Errors
/// In words, when nobody can be asked, or the answer is none.
pub(super) fn ask(candidates: &[Candidate]) -> Result<Vec<String>, String> {
    let list = list(candidates);
    if candidates.is_empty() {
        return Err("this box has no Ethernet interface".into());
    }
    if !io::stdin().is_terminal() {
        return Err(format!("name the interfaces that become ports, with --interface:\n{list}"));
    }
    text::ask(&format!("{list}\nWhich become ports? Numbers or names, with spaces between: "));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|e| e.to_string())?;
    let name = |word: &str| match word.parse::<usize>() {
        Ok(number) => match number.checked_sub(1).and_then(|at| candidates.get(at)) {
            Some(candidate) => Ok(candidate.info.name.clone()),
            None => Err(format!("there is no number {number} in the list")),
        },
        Err(_) => Ok(word.to_string()),
    };
    let words = line.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty());
    let named: Vec<String> = words.map(name).collect::<Result<_, _>>()?;
    match named.is_empty() {
        true => Err("no interface was named".into()),
        false => Ok(named),
    }
}

/// The list, with a number for each interface.
fn list(candidates: &[Candidate]) -> String {
    let head = ["", "INTERFACE", "DRIVER", "SPEED", "CABLE", "MAC", "REMARKS"];
    let rows: Vec<Vec<String>> = candidates
        .iter()
        .enumerate()
        .map(|(i, Candidate { info, objections })| {
            let speed = info.speed_mbit_per_s.filter(|_| info.has_carrier);
            let cable = match (info.is_up, info.has_carrier) {
                (_, true) => "yes",
                (true, false) => "no",
                // A device that is down does not know.
                (false, false) => "(down)",
            };
            let force = if objections.iter().any(|o| o.is_grave) { "IN USE: " } else { "" };
            let candidate = &candidates[i];
            vec![
                (i + 1).to_string(),
                info.name.clone(),
                info.driver.clone().unwrap_or_else(|| "-".into()),
                speed.map_or_else(|| "-".into(), |speed| format!("{speed}Mbit")),
                cable.into(),
                info.mac.map(|mac| mac.to_string()).unwrap_or_default(),
                format!("{force}{}", candidate.remarks()),
            ]
        })
        .collect();
    plexus_report::table(&head, &rows)
}
