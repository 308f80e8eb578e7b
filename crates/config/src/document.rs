//! Reads a TOML document key by key and collects every problem.
//!
//! The caller requests values one at a time: a missing or wrong one gives `None` and leaves a
//! [`Problem`], and reading continues, so that one pass finds as many problems as it can. When a
//! [`Section`] is dropped, it reports unknown keys: those that were never requested.

use std::cell::RefCell;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::{MacAddr, Prefix};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::address::InterfaceAddress;
use crate::error::{FileError, Problem, Span, ValueError, closest, quote};
use crate::router::Gateway;
use crate::units::format_duration;

/// Largest file that is read: a topology of 50,000 hosts takes 10 MB.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// The format of files. It grows when an older program would take a key of a newer file for
/// something else than it means; a new key alone leaves it as it is. `format = N` at a file's top
/// says which one the file has; without the key it is the first.
pub const FORMAT: u64 = 1;

/// A value and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where, in bytes of the file.
    pub span: Span,
}

/// The problems found, at most [`PROBLEMS_MAX`] of them.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<Problem>>);

/// Problems that are kept: more are of no use to a person, and a hostile file has millions.
pub const PROBLEMS_MAX: usize = 1000;

impl Problems {
    /// Records a problem at `span` with advice.
    pub fn add(&self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        if !self.is_full() {
            let problem = Problem { span: Some(span), message: message.into(), help: help.into() };
            self.0.borrow_mut().push(problem);
        }
    }

    /// The value; or `None`, and its problem at `span`.
    pub fn note<T, E: Into<ValueError>>(&self, span: Span, result: Result<T, E>) -> Option<T> {
        let refuse = |ValueError { message, help }| self.add(span, message, help);
        result.map_err(|error| refuse(error.into())).ok()
    }

    /// Whether further problems are no longer kept, nor worth looking for.
    pub fn is_full(&self) -> bool {
        self.0.borrow().len() >= PROBLEMS_MAX
    }

    /// Records that there is no `what` named `word`, with the probably intended name, or some of
    /// the known ones.
    pub fn unknown<'n>(
        &self,
        span: Span,
        what: &str,
        word: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) {
        if !self.is_full() {
            let help = known_names(what, word, names);
            self.add(span, format!("there is no {what} {}", quote(word)), help);
        }
    }
}

/// Reads a file's text: at most [`FILE_BYTES_MAX`] bytes of UTF-8.
///
/// # Errors
/// When it cannot be read, is larger, or is not text.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let file = path.display().to_string();
    let unreadable = |e: std::io::Error| {
        FileError::whole(&file, format!("cannot be read: {e}"), "give the path of a TOML file")
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|f| f.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("is larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(FileError::whole(&file, message, "give the path of a TOML file"));
    }
    String::from_utf8(bytes).map_err(|e| not_text(&file, &e))
}

fn not_text(file: &str, error: &std::string::FromUtf8Error) -> FileError {
    let at = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(error.as_bytes());
    let byte = error.as_bytes().get(at).copied().unwrap_or(0);
    let problem = Problem {
        span: Some(at..at + 1),
        message: format!("byte 0x{byte:02x} is not UTF-8 text"),
        help: "save the file as UTF-8".to_string(),
    };
    FileError::new(file, &text, vec![problem])
}

/// The keys at the top of a document, without malformed lines: enough to recognise the kind of
/// file.
pub fn top_level_keys(text: &str) -> Vec<String> {
    let (root, _) = DeTable::parse_recoverable(text);
    root.get_ref().keys().map(|key| key.get_ref().to_string()).collect()
}

/// Reads a document as far as it can be read, whatever else is wrong there.
pub(crate) fn read_anyway<T>(text: &str, read: impl FnOnce(&Section<'_>) -> T) -> T {
    let problems = Problems::default();
    let (root, _) = DeTable::parse_recoverable(text);
    read(&Section::new(root.get_ref(), 0..text.len(), "the file", &problems))
}

/// Reads a document: `read` requests values from the root section.
///
/// # Errors
/// With every problem found: of syntax, or otherwise of contents.
pub fn read_document<T>(
    file: &str,
    text: &str,
    what: &'static str,
    read: impl FnOnce(&Section<'_>) -> Option<T>,
) -> Result<T, FileError> {
    let problems = Problems::default();
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        let (message, help) = explain(error.message());
        problems.add(span, message, help);
    }
    let mut value = None;
    if errors.is_empty() {
        // Where the file as a whole lacks something, that is said at its end.
        let end = text.trim_end().len();
        let root = Section::new(root.get_ref(), end..end, what, &problems);
        if check_format(&root) {
            value = read(&root);
        }
    }
    match (value, problems.0.into_inner()) {
        (Some(value), found) if found.is_empty() => Ok(value),
        (_, found) => Err(FileError::new(file, text, found)),
    }
}

/// Whether this program reads the file's format. Of a newer file it understands neither the unknown
/// keys nor what known ones have come to mean, so the format is the only problem that it reports.
fn check_format(root: &Section<'_>) -> bool {
    let Some(At { value, span }) = root.integer("format", 1..=i64::MAX as u64) else {
        return !root.has("format");
    };
    let is_known = value <= FORMAT;
    if !is_known {
        let version = env!("CARGO_PKG_VERSION");
        let message =
            format!("the file has format {value}, and plexus {version} reads format {FORMAT}");
        let help = "a newer plexus wrote it: install that on this box, or take an earlier version \
                    of the file (`plexus config versions NAME`)";
        root.problems().add(span, message, help);
        // Its other keys are not judged.
        root.asked.borrow_mut().clear();
    }
    is_known
}

/// The TOML parser's message in plain words, with advice.
fn explain(message: &str) -> (String, &'static str) {
    let help = if message.contains("duplicate key") {
        "give the key once; further sections of a list are headed [[LIKE THIS]]"
    } else if message.contains("recursion") {
        "no value here nests deeper than a list of tables"
    } else {
        "a line is KEY = VALUE, [SECTION] or [[LIST]]; text values stand in quotes"
    };
    (message.to_string(), help)
}

/// A table of the document, being read.
#[derive(Debug)]
pub struct Section<'a> {
    table: &'a DeTable<'a>,
    span: Span,
    what: &'static str,
    asked: RefCell<Vec<&'static str>>,
    problems: &'a Problems,
}

impl<'a> Section<'a> {
    fn new(
        table: &'a DeTable<'a>,
        span: Span,
        what: &'static str,
        problems: &'a Problems,
    ) -> Section<'a> {
        Section { table, span, what, asked: RefCell::default(), problems }
    }

    /// Where the section begins: its heading, or the whole of an inline table.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// Where problems are noted.
    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// Whether the key is there, whatever its value.
    pub fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    /// Whether the key's value is a text.
    pub fn is_text(&self, key: &'static str) -> bool {
        self.get(key).is_some_and(|v| v.value.is_str())
    }

    /// The position of the key's value, if it is there.
    pub fn span_of(&self, key: &'static str) -> Option<Span> {
        self.get(key).map(|v| v.span)
    }

    /// The position of the key's value, or of the section if the key is absent.
    pub fn near(&self, key: &'static str) -> Span {
        self.span_of(key).unwrap_or_else(|| self.span())
    }

    /// Reports that a required key is missing, at the section's heading.
    pub fn missing(&self, key: &str, example: &str) {
        let message = format!("{} lacks {}", self.what, quote(key));
        self.problems.add(self.span(), message, format!("add a line such as {key} = {example}"));
    }

    /// Reports that the key is missing if it is, with an example of its value.
    pub fn require(&self, key: &'static str, example: &str) -> &Section<'a> {
        if !self.has(key) {
            self.missing(key, example);
        }
        self
    }

    fn get(&self, key: &'static str) -> Option<At<&'a DeValue<'a>>> {
        self.asked.borrow_mut().push(key);
        let value = self.table.get(key)?;
        Some(At { value: value.get_ref(), span: value.span() })
    }

    fn mistyped(&self, span: Span, key: &str, found: &DeValue<'_>, wanted: &str, help: String) {
        let message = format!("{} is {wanted}, not {}", quote(key), kind(found));
        self.problems.add(span, message, help);
    }

    /// A text.
    pub fn text(&self, key: &'static str) -> Option<At<&'a str>> {
        let At { value, span } = self.get(key)?;
        let Some(value) = value.as_str() else {
            let help = format!("put it in quotes: {key} = \"…\"");
            self.mistyped(span, key, value, "a text", help);
            return None;
        };
        Some(At { value, span })
    }

    /// A required text; `example` is suggested in the message.
    pub fn required_text(&self, key: &'static str, example: &str) -> Option<At<&'a str>> {
        self.require(key, example).text(key)
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &'static str) -> Option<At<bool>> {
        let At { value, span } = self.get(key)?;
        let Some(flag) = value.as_bool() else {
            let help = format!("write {key} = true or {key} = false");
            self.mistyped(span, key, value, "true or false", help);
            return None;
        };
        Some(At { value: flag, span })
    }

    /// `true` or `false`; false if the key is absent.
    pub fn is_set(&self, key: &'static str) -> bool {
        self.flag(key).is_some_and(|at| at.value)
    }

    /// A whole number within a range.
    pub fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let At { value, span } = self.get(key)?;
        let value = self.integer_of(&At { value, span: span.clone() }, key, range)?;
        Some(At { value, span })
    }

    /// A whole number within a range that `T` can hold, or the usual one.
    pub fn integer_or<T: TryFrom<u64>>(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
        usual: T,
    ) -> T {
        self.integer(key, range).and_then(|at| at.value.try_into().ok()).unwrap_or(usual)
    }

    /// A whole number within a range, from a value found elsewhere (in a list).
    pub fn integer_of(
        &self,
        at: &At<&'a DeValue<'a>>,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let help = format!("write a whole number from {} to {}", range.start(), range.end());
        let Some(integer) = at.value.as_integer() else {
            self.mistyped(at.span.clone(), key, at.value, "a whole number", help);
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!("{} is out of range", quote(key));
            self.problems.add(at.span.clone(), message, help);
        }
        number
    }

    /// A number, whole or not, within a range.
    pub fn number(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<At<f64>> {
        let At { value, span } = self.get(key)?;
        let help = format!("write a number from {} to {}", range.start(), range.end());
        let number: Option<f64> = match value {
            DeValue::Integer(i) if i.radix() == 10 => i.as_str().parse().ok(),
            DeValue::Float(f) => f.as_str().parse().ok(),
            _ => {
                self.mistyped(span, key, value, "a number", help);
                return None;
            }
        };
        // NaN is in no range.
        let Some(value) = number.filter(|n| range.contains(n)) else {
            self.problems.add(span, format!("{} is out of range", quote(key)), help);
            return None;
        };
        Some(At { value, span })
    }

    /// [`number`](Self::number), or the usual one.
    pub fn number_or(&self, key: &'static str, range: RangeInclusive<f64>, usual: f64) -> f64 {
        self.number(key, range).map_or(usual, |at| at.value)
    }

    /// A text that `parse` makes sense of.
    pub fn parsed<T, E: Into<ValueError>>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        let At { value, span } = self.text(key)?;
        let value = self.problems.note(span.clone(), parse(value))?;
        Some(At { value, span })
    }

    /// A quantity with its unit as a text, or a bare whole number where `parse` allows it.
    pub fn quantity<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, ValueError>,
    ) -> Option<At<T>> {
        let At { value, span } = self.get(key)?;
        let parsed = match value {
            DeValue::Integer(i) if i.radix() == 10 => parse(i.as_str()),
            DeValue::Float(f) => parse(f.as_str()),
            DeValue::String(s) => parse(s),
            other => {
                let help = parse("").err().map(|e| e.help).unwrap_or_default();
                self.mistyped(span, key, other, "a number with a unit, in quotes", help);
                return None;
            }
        };
        let value = self.problems.note(span.clone(), parsed)?;
        Some(At { value, span })
    }

    /// [`quantity`](Self::quantity), or the usual one.
    pub fn quantity_or<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, ValueError>,
        usual: T,
    ) -> T {
        self.quantity(key, parse).map_or(usual, |at| at.value)
    }

    /// One of a few words.
    pub fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Option<At<T>> {
        let At { value, span } = self.text(key)?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == value) {
            return Some(At { value: *choice, span });
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let mut help = format!("write one of {}", names.join(", "));
        if let Some(meant) = closest(value, names) {
            help = format!("did you mean {}? {help}", quote(meant));
        }
        self.problems.add(span, format!("{} cannot be {}", quote(key), quote(value)), help);
        None
    }

    /// [`choice`](Self::choice), or the usual one.
    pub fn choice_or<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
        usual: T,
    ) -> T {
        self.choice(key, choices).map_or(usual, |at| at.value)
    }

    /// A table under this key: `[key]` or `key = { … }`.
    pub fn section(&self, key: &'static str, what: &'static str) -> Option<Section<'a>> {
        let At { value, span } = self.get(key)?;
        let Some(table) = value.as_table() else {
            let help = format!("write [{key}] and its settings below, or {key} = {{ … }}");
            self.mistyped(span, key, value, "a section", help);
            return None;
        };
        Some(Section::new(table, span, what, self.problems))
    }

    /// The tables under this key: `[[key]]` several times, or `key = [{ … }, …]`.
    pub fn sections(&self, key: &'static str, what: &'static str) -> Vec<Section<'a>> {
        let help = || format!("head each with [[{key}]]");
        let Some(At { value, span }) = self.get(key) else { return Vec::new() };
        let Some(array) = value.as_array() else {
            self.mistyped(span, key, value, "a list of sections", help());
            return Vec::new();
        };
        let section = |item: &'a Spanned<DeValue<'a>>| {
            let table = item.get_ref().as_table();
            if table.is_none() {
                self.mistyped(item.span(), key, item.get_ref(), "a list of sections", help());
            }
            table.map(|table| Section::new(table, item.span(), what, self.problems))
        };
        array.iter().filter_map(section).collect()
    }

    /// All tables under this one, by their keys, which are names that people choose.
    pub fn children(&self, what: &'static str) -> Vec<(&'a str, Section<'a>)> {
        let child = |(key, value): (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>)| {
            let key = key.get_ref().as_ref();
            let Some(table) = value.get_ref().as_table() else {
                let help = format!("write [….{key}] and its settings below");
                self.mistyped(value.span(), key, value.get_ref(), "a section", help);
                return None;
            };
            Some((key, Section::new(table, value.span(), what, self.problems)))
        };
        self.table.iter().filter_map(child).collect()
    }

    /// The values of a list; a single value stands for a list of one.
    pub fn items(&self, key: &'static str) -> Option<Vec<At<&'a DeValue<'a>>>> {
        let At { value, span } = self.get(key)?;
        let Some(array) = value.as_array() else {
            return Some(vec![At { value, span }]);
        };
        Some(array.iter().map(|v| At { value: v.get_ref(), span: v.span() }).collect())
    }

    /// The texts of a list; a single text stands for a list of one.
    pub fn texts(&self, key: &'static str) -> Option<Vec<At<&'a str>>> {
        let mut texts = Vec::new();
        for At { value, span } in self.items(key)? {
            match value.as_str() {
                Some(text) => texts.push(At { value: text, span }),
                None => {
                    let help = format!("write {key} = [\"…\", \"…\"]");
                    self.mistyped(span, key, value, "a list of texts", help);
                }
            }
        }
        Some(texts)
    }

    /// The values that `parse` makes of the texts of a list.
    pub fn list<T>(
        &self,
        key: &'static str,
        mut parse: impl FnMut(&str) -> Result<T, ValueError>,
    ) -> Option<Vec<T>> {
        let texts = self.texts(key)?.into_iter();
        Some(texts.filter_map(|at| self.problems.note(at.span, parse(at.value))).collect())
    }
}

impl Drop for Section<'_> {
    /// Reports the keys that were not requested, unless the section was not read at all.
    fn drop(&mut self) {
        let known = self.asked.borrow();
        if known.is_empty() || self.problems.is_full() {
            return;
        }
        for (key, _) in self.table.iter().filter(|(k, _)| !known.contains(&k.get_ref().as_ref())) {
            let message = format!("{} is not a setting of {}", quote(key.get_ref()), self.what);
            let mut names: Vec<&str> = known.to_vec();
            names.sort_unstable();
            names.dedup();
            let help = match closest(key.get_ref(), names.iter().copied()) {
                Some(meant) => format!("did you mean {}?", quote(meant)),
                None => format!("the settings of {} are {}", self.what, names.join(", ")),
            };
            self.problems.add(key.span(), message, help);
        }
    }
}

/// What kind of value this is, with its article.
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

/// The position of a part of `value`'s text: `offset` bytes into the text, `len` bytes long. A text
/// with escapes is marked as a whole.
pub fn within(at: &At<&str>, offset: usize, len: usize) -> Span {
    if at.span.len() == at.value.len() + 2 {
        let start = at.span.start + 1 + offset.min(at.value.len());
        start..start + len.min(at.value.len().saturating_sub(offset))
    } else {
        at.span.clone()
    }
}

/// Advice for an unknown name: the probably intended one, or the known ones.
pub fn known_names<'a>(what: &str, word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<&str> = names.into_iter().collect();
    if let Some(meant) = closest(word, names.iter().copied()) {
        return format!("did you mean {}?", quote(meant));
    }
    match names.len() {
        0 => format!("this file has no {what} yet"),
        n if n > SHOWN => format!("the {n} {what}s are {}, …", names[..SHOWN].join(", ")),
        _ => format!("the {what}s are {}", names.join(", ")),
    }
}

/// Builds TOML text line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(String);

impl Lines {
    /// A heading, after an empty line unless it comes first.
    pub fn heading(&mut self, heading: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(heading);
        self.0.push('\n');
    }

    /// `key = value` with the value as it stands.
    pub fn entry(&mut self, key: &str, value: impl Display) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    /// `key = "text"`.
    pub fn text(&mut self, key: &str, text: &str) {
        self.entry(key, quoted(text));
    }

    /// `key = value`.
    pub fn value(&mut self, key: &str, value: &(impl Value + ?Sized)) {
        self.entry(key, value.to_toml());
    }

    /// `key = value`, unless it is the usual one.
    pub fn unusual<T: Value + PartialEq + ?Sized>(&mut self, key: &str, value: &T, usual: &T) {
        if value != usual {
            self.value(key, value);
        }
    }

    /// `key = value`, if there is one.
    pub fn given(&mut self, key: &str, value: Option<impl Value>) {
        if let Some(value) = value {
            self.value(key, &value);
        }
    }

    /// `key = ["a", "b"]`, unless the list is empty.
    pub fn list<T: Value>(&mut self, key: &str, values: &[T]) {
        if !values.is_empty() {
            self.value(key, values);
        }
    }

    /// `key = { a, b }`, a section in one line.
    pub fn inline(&mut self, key: &str, entries: &Lines) {
        let entries: Vec<&str> = entries.0.lines().collect();
        match entries.as_slice() {
            [] => self.entry(key, "{}"),
            entries => self.entry(key, format_args!("{{ {} }}", entries.join(", "))),
        }
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.0
    }
}

/// A TOML basic string.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value as files have it.
pub trait Value {
    /// The value as TOML text.
    fn to_toml(&self) -> String;
}

macro_rules! values {
    ($to_toml:expr => $($type:ty),+) => {
        $(impl Value for $type {
            fn to_toml(&self) -> String {
                let to_toml: fn(&$type) -> String = $to_toml;
                to_toml(self)
            }
        })+
    };
}

values!(ToString::to_string => bool, u8, u16, u32, u64, usize);
values!(|number| format!("{number:?}") => f64);
values!(|text| quoted(text) => str, String);
values!(|path| quoted(&path.to_string_lossy()) => PathBuf);
values!(|duration| quoted(&format_duration(*duration)) => Duration);
values!(|value| quoted(&value.to_string()) =>
    IpAddr, Ipv4Addr, SocketAddr, MacAddr, Prefix, InterfaceAddress, Gateway, NameBuf, FaceUri);

impl<T: Value> Value for [T] {
    fn to_toml(&self) -> String {
        let values: Vec<String> = self.iter().map(Value::to_toml).collect();
        format!("[{}]", values.join(", "))
    }
}

impl<T: Value + ?Sized> Value for &T {
    fn to_toml(&self) -> String {
        (**self).to_toml()
    }
}

/// Declares the words of an enum in files, in the order in which messages list them.
#[macro_export]
macro_rules! words {
    ($type:ident { $($value:ident = $word:literal),+ $(,)? }) => {
        impl $type {
            /// Every value by its word in files.
            pub const NAMES: [(&'static str, $type); [$($word),+].len()] =
                [$(($word, $type::$value)),+];

            /// Its word in files.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$value => $word,)+
                }
            }
        }

        impl $crate::document::Value for $type {
            fn to_toml(&self) -> String {
                $crate::document::quoted(self.name())
            }
        }
    };
}
