//! A recording, played again: what a live node was told, told to a new one.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plexus_control::identity::Role;
use plexus_control::link::Pace;
use plexus_control::node::{Node, Output};
use plexus_wire::Time;
use serde::Serialize;
use serde_json::Value;

use crate::identity;
use crate::recording::{Line, Start};

/// What came of it.
#[derive(Serialize)]
pub struct Replay {
    /// Its file.
    pub recording: PathBuf,
    /// Whether every output was the recorded one, byte by byte.
    pub identical: bool,
    /// Inputs that were played.
    pub inputs: u64,
    /// Outputs that were as recorded.
    pub outputs: u64,
    /// From the first input to the last one.
    pub seconds: f64,
    /// The first thing that was not as recorded.
    pub difference: Option<Difference>,
}

/// Where a replay leaves its recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The line of the recording that is not as played; absent: it ends before.
    pub line: Option<u64>,
    /// The line of the input that the played output follows from, or else of the last one.
    pub input_line: u64,
    /// Which part of the output, such as `transmit.frame[17]`.
    pub part: String,
    /// What stands in the recording there; absent: nothing.
    pub recorded: Option<Value>,
    /// What was played; absent: nothing.
    pub played: Option<Value>,
}

/// An output of the new node, and the line of the input that it follows from.
struct Played {
    output: Output,
    input_line: u64,
}

/// Plays a recording. `identity` is the node's, where it is not at the place that the recording
/// names.
///
/// # Errors
/// In words, when a file cannot be read or is none.
pub fn play(path: &Path, identity: Option<&Path>) -> Result<Replay, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| format!("{shown}: {e}"))?;
    let mut lines = (1..).zip(BufReader::new(file).lines());
    let mut next = || -> Result<Option<(u64, String)>, String> {
        let Some((number, line)) = lines.next() else { return Ok(None) };
        Ok(Some((number, line.map_err(|e| format!("{shown}:{number}: {e}"))?)))
    };
    let (_, first) = next()?.ok_or_else(|| format!("{shown} is empty"))?;
    let start: Start = serde_json::from_str(&first)
        .map_err(|e| format!("{shown}:1: this is not how a node's recording begins: {e}"))?;
    let identity = identity.or(start.identity.as_deref()).ok_or_else(|| {
        format!("{shown} names no identity: say which is the node's with --identity FILE")
    })?;
    let identity = identity::read(identity, Role::Node)
        .map_err(|e| format!("{e} (--identity says where it is)"))?;
    let pace = Pace { heartbeat: Duration::from_nanos(start.heartbeat_ns) };
    let mut node = Node::new(Arc::new(identity), pace, start.seed);
    let mut replay = Replay {
        recording: path.into(),
        identical: true,
        inputs: 0,
        outputs: 0,
        seconds: 0.0,
        difference: None,
    };
    let mut played: VecDeque<Played> = VecDeque::new();
    let (mut begin, mut input_line) = (None::<Time>, 1);
    while let Some((number, text)) = next()? {
        let line = serde_json::from_str(&text).map_err(|e| {
            format!("{shown}:{number}: neither an input nor an output of a node: {e}")
        })?;
        match line {
            Line::Input { now, input } => {
                (input_line, replay.inputs) = (number, replay.inputs + 1);
                replay.seconds = now.since(*begin.get_or_insert(now)).as_secs_f64();
                node.handle(now, input);
                let outputs = std::iter::from_fn(|| node.poll_output());
                played.extend(outputs.map(|output| Played { output, input_line }));
            }
            Line::Output { output } => {
                let found = difference(number, input_line, &output, played.pop_front())?;
                if found.is_some() {
                    replay.difference = found;
                    break;
                }
                replay.outputs += 1;
            }
        }
    }
    if replay.difference.is_none()
        && let Some(Played { output, input_line }) = played.pop_front()
    {
        let part = "the whole output".into();
        let played = Some(value(&output)?);
        let found = Difference { line: None, input_line, part, recorded: None, played };
        replay.difference = Some(found);
    }
    replay.identical = replay.difference.is_none();
    Ok(replay)
}

/// Compares what stands at a line with what was played.
fn difference(
    line: u64,
    last_input: u64,
    recorded: &Output,
    played: Option<Played>,
) -> Result<Option<Difference>, String> {
    let Some(Played { output, input_line }) = played else {
        let part = "the whole output".into();
        let recorded = Some(value(recorded)?);
        let line = Some(line);
        return Ok(Some(Difference { line, input_line: last_input, part, recorded, played: None }));
    };
    if output == *recorded {
        return Ok(None);
    }
    let (part, recorded, played) = apart(String::new(), value(recorded)?, value(&output)?);
    Ok(Some(Difference { line: Some(line), input_line, part, recorded, played }))
}

fn value(output: &Output) -> Result<Value, String> {
    serde_json::to_value(output).map_err(|e| e.to_string())
}

/// The first part in which two values differ, and what it is in either.
fn apart(part: String, one: Value, two: Value) -> (String, Option<Value>, Option<Value>) {
    match (one, two) {
        (Value::Object(one), Value::Object(mut two)) if one.keys().eq(two.keys()) => {
            for (key, one) in one {
                let two = two.remove(&key).unwrap_or_default();
                if one != two {
                    let dot = if part.is_empty() { "" } else { "." };
                    return apart(format!("{part}{dot}{key}"), one, two);
                }
            }
            (part, None, None)
        }
        (Value::Array(one), Value::Array(two)) => {
            let at = one.iter().zip(&two).position(|(a, b)| a != b);
            let at = at.unwrap_or(one.len().min(two.len()));
            match (one.get(at).cloned(), two.get(at).cloned()) {
                (Some(one), Some(two)) => apart(format!("{part}[{at}]"), one, two),
                (one, two) => (format!("{part}[{at}]"), one, two),
            }
        }
        (one, two) => (part, Some(one), Some(two)),
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replay { inputs, outputs, seconds, .. } = self;
        let shown = self.recording.display();
        write!(f, "{inputs} inputs of {seconds:.3} s")?;
        let Some(found) = &self.difference else {
            return write!(f, " gave the {outputs} recorded outputs, byte by byte: identical");
        };
        writeln!(f, " gave the first {outputs} recorded outputs; then something else:")?;
        let said = |v: &Option<Value>| v.as_ref().map_or("nothing".into(), shortened);
        let line = found.line.map_or("where it ends".into(), |line| format!("line {line}"));
        writeln!(f, "{shown}, {line}: {} is {}", found.part, said(&found.recorded))?;
        let input = found.input_line;
        write!(f, "played, from the input of line {input}: {}", said(&found.played))
    }
}

/// A value for a line on a terminal.
fn shortened(value: &Value) -> String {
    const MOST: usize = 160;
    let text = value.to_string();
    if text.chars().count() <= MOST {
        return text;
    }
    text.chars().take(MOST).chain(" ...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_told_to_the_byte() {
        let frame = |bytes: &[u8]| json!({"transmit": {"frame": bytes, "port": 1}});
        let (part, one, two) = apart(String::new(), frame(&[1, 2, 3]), frame(&[1, 9, 3]));
        assert_eq!(
            (part.as_str(), one, two),
            ("transmit.frame[1]", Some(2.into()), Some(9.into()))
        );
        let (part, one, two) = apart(String::new(), frame(&[1]), frame(&[1, 9]));
        assert_eq!((part.as_str(), one, two), ("transmit.frame[1]", None, Some(9.into())));
        let (part, one, _) = apart(String::new(), frame(&[1]), json!({"send": {}}));
        assert_eq!((part.as_str(), one), ("", Some(frame(&[1]))));
    }
}
