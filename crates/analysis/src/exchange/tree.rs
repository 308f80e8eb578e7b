//! Reads YAML, of which JSON is a part, as a tree whose values know where they stand.
//!
//! A hostile file costs no more than a long one: the parser limits nesting, and every value counts,
//! once for each alias or merge key that repeats it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle, options};
use plexus_config::error::{Span, quote};

use super::Faults;

/// Values of a file, those that aliases repeat included.
const VALUES_MAX: usize = 1 << 21;
/// Lists and maps within each other.
const DEPTH_MAX: usize = 64;

/// A value of a file.
pub(super) struct Tree {
    /// Where it stands.
    pub(super) span: Span,
    value: Value,
    /// Values in it, itself included.
    size: usize,
    /// Lists and maps within each other, itself included.
    depth: usize,
}

enum Value {
    Text { text: String, is_plain: bool },
    List(Vec<Rc<Tree>>),
    Map(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Clone)]
pub(super) struct Entry {
    /// The key.
    pub(super) key: Rc<str>,
    /// Where the key stands.
    pub(super) span: Span,
    /// The value of the key.
    pub(super) value: Rc<Tree>,
}

impl Tree {
    /// The value of a key, if this is a map that has the key. It looks at every key.
    pub(super) fn get(&self, key: &str) -> Option<&Tree> {
        self.entries().iter().find(|e| &*e.key == key).map(|e| &*e.value)
    }

    /// The text of a key, if it has one.
    pub(super) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// The entries of a map, in the order of the file; none of other values.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The values of a list; none of other values.
    pub(super) fn items(&self) -> &[Rc<Tree>] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a string or number; none of null, lists and maps.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Whether it is a map.
    pub(super) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// Whether it is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.value, Value::List(_))
    }

    /// Whether it is text without quotes, as numbers are.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.value, Value::Text { is_plain: true, .. })
    }

    /// Whether it stands for no value (YAML 1.2, 10.2.1.1).
    pub(super) fn is_null(&self) -> bool {
        match &self.value {
            Value::Text { text, is_plain: true } => {
                matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }
}

/// A list or map that has not ended.
struct Open {
    start: usize,
    anchor: usize,
    value: Value,
    /// Of a map: the key that waits for its value.
    key: Option<(Rc<str>, Span)>,
}

/// Reads the first and only document. `help` says what kind of file is expected.
pub(super) fn read(text: &str, help: &str, faults: &mut Faults) -> Option<Rc<Tree>> {
    let options = options! {
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut reader = Reader { open: Vec::new(), anchors: HashMap::new(), count: 0, root: None };
    for event in Parser::new_from_str_with_options(text, options) {
        let problem = match event {
            Ok((event, span)) => reader.take(event, span.byte_range().unwrap_or(0..0)).err(),
            Err(error) => {
                let at = error.marker().byte_offset().unwrap_or(0).min(text.len());
                Some((at..at, format!("this cannot be read: {}", error.info())))
            }
        };
        if let Some((span, message)) = problem {
            faults.add(span, message, help);
            return None;
        }
    }
    if reader.root.is_none() {
        faults.add(0..0, "the file is empty", help);
    }
    reader.root
}

struct Reader {
    open: Vec<Open>,
    /// Values with an anchor; none while the value has not ended.
    anchors: HashMap<usize, Option<Rc<Tree>>>,
    /// Values made so far.
    count: usize,
    root: Option<Rc<Tree>>,
}

type Problem = (Span, String);

impl Reader {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                return Err((span, "a second document begins here".to_string()));
            }
            Event::Scalar(text, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                let value = Value::Text { text: text.into_owned(), is_plain };
                self.place(value, span, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.start(Value::List(Vec::new()), span, anchor);
            }
            Event::MappingStart(_, anchor, _) => self.start(Value::Map(Vec::new()), span, anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                // The parser closes only what it has opened.
                let Some(open) = self.open.pop() else { return Ok(()) };
                let mut value = open.value;
                if let Value::Map(entries) = &mut value {
                    Reader::finish(entries)?;
                }
                self.place(value, open.start..span.end.max(open.start), open.anchor)?;
            }
            Event::Alias(anchor) => {
                let Some(Some(tree)) = self.anchors.get(&anchor) else {
                    return Err((span, "this alias is in the value that it names".to_string()));
                };
                let tree = Rc::clone(tree);
                self.count(tree.size, &span)?;
                self.put(tree, span)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, more: usize, span: &Span) -> Result<(), Problem> {
        self.count = self.count.saturating_add(more);
        if self.count > VALUES_MAX {
            let message = format!("more than {VALUES_MAX} values, repeated ones included");
            return Err((span.clone(), message));
        }
        Ok(())
    }

    fn start(&mut self, value: Value, span: Span, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
        self.open.push(Open { start: span.start, anchor, value, key: None });
    }

    fn place(&mut self, value: Value, span: Span, anchor: usize) -> Result<(), Problem> {
        self.count(1, &span)?;
        let (size, depth) = match &value {
            Value::Text { .. } => (0, 0),
            Value::List(items) => measure(items.iter()),
            Value::Map(entries) => measure(entries.iter().map(|e| &e.value)),
        };
        if depth >= DEPTH_MAX {
            return Err((span, "lists and maps nest too deep".to_string()));
        }
        let tree = Rc::new(Tree { span: span.clone(), value, size: size + 1, depth: depth + 1 });
        if anchor != 0 {
            self.anchors.insert(anchor, Some(Rc::clone(&tree)));
        }
        self.put(tree, span)
    }

    /// Gives a value its place in the list or map that is open, or makes it the root.
    fn put(&mut self, tree: Rc<Tree>, span: Span) -> Result<(), Problem> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(tree);
            return Ok(());
        };
        match (&mut open.value, open.key.take()) {
            (Value::List(items), _) => items.push(tree),
            (Value::Map(entries), Some((key, span))) => {
                entries.push(Entry { key, span, value: tree });
            }
            (Value::Map(_), None) => {
                let Value::Text { text, .. } = &tree.value else {
                    return Err((span, "this key is a list or a map".to_string()));
                };
                open.key = Some((text.as_str().into(), span));
            }
            (Value::Text { .. }, _) => {}
        }
        Ok(())
    }

    /// Puts what merge keys (`<<`) name in their place; a key of the map itself goes first.
    fn finish(entries: &mut Vec<Entry>) -> Result<(), Problem> {
        let mut seen: HashSet<Rc<str>> = HashSet::with_capacity(entries.len());
        let (merged, own): (Vec<_>, Vec<_>) = entries.drain(..).partition(|e| &*e.key == "<<");
        for entry in &own {
            if !seen.insert(Rc::clone(&entry.key)) {
                let message = format!("the key {} stands twice in its map", quote(&entry.key));
                return Err((entry.span.clone(), message));
            }
        }
        *entries = own;
        // The alias itself has counted the values that it names.
        for Entry { value, .. } in merged {
            let maps = if value.is_list() { value.items() } else { std::slice::from_ref(&value) };
            for map in maps {
                let new = map.entries().iter().filter(|e| seen.insert(Rc::clone(&e.key)));
                entries.extend(new.cloned());
            }
        }
        Ok(())
    }
}

/// The sum of sizes and the greatest depth.
fn measure<'t>(trees: impl Iterator<Item = &'t Rc<Tree>>) -> (usize, usize) {
    trees.fold((0, 0), |(size, depth), t| (size + t.size, depth.max(t.depth)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Rc<Tree> {
        let mut faults = Faults::default();
        let tree = read(text, "help", &mut faults);
        tree.unwrap_or_else(|| panic!("{:?}", faults.0))
    }

    fn refused(text: &str) -> (Span, String) {
        let mut faults = Faults::default();
        assert!(read(text, "help", &mut faults).is_none(), "this was accepted: {text:.100}");
        let problem = faults.0.remove(0);
        (problem.span.unwrap(), problem.message)
    }

    #[test]
    fn values_know_their_places_and_keys_their_order() {
        let text = "b: \"x y\"\na:\n  - 1\n  - {c: ~}\n";
        let tree = tree(text);
        let keys: Vec<_> = tree.entries().iter().map(|e| &text[e.span.clone()]).collect();
        assert_eq!(keys, ["b", "a"]);
        assert_eq!(&text[tree.get("b").unwrap().span.clone()], "\"x y\"");
        let [one, map] = tree.get("a").unwrap().items() else { panic!() };
        assert_eq!((one.text(), one.is_plain()), (Some("1"), true));
        assert!(map.get("c").unwrap().is_null() && map.text_of("c").is_none());
    }

    #[test]
    fn json_with_tabs_and_escapes_is_read_too() {
        let tree = tree("{\n\t\"a\": [\n\t\t1,\n\t\t\"\\u00e9\\/\"\n\t],\n\t\"b\": null\n}\n");
        assert_eq!(tree.get("a").unwrap().items()[1].text(), Some("é/"));
        assert!(tree.get("b").unwrap().is_null());
    }

    #[test]
    fn aliases_and_merge_keys_repeat_what_they_name() {
        let tree = tree("base: &b {x: 1, y: 2}\nl: [*b]\nm:\n  y: 3\n  <<: *b\n");
        assert_eq!(tree.get("l").unwrap().items()[0].text_of("x"), Some("1"));
        let m = tree.get("m").unwrap();
        assert_eq!((m.text_of("x"), m.text_of("y")), (Some("1"), Some("3")));
    }

    #[test]
    fn hostile_files_are_refused_before_they_take_memory_or_stack() {
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_string();
        for n in 1..40 {
            let list = vec![format!("*a{}", n - 1); 10].join(", ");
            laughs += &format!("a{n}: &a{n} [{list}]\n");
        }
        assert!(refused(&laughs).1.contains("values, repeated ones included"));
        let keys: String = (0..2000).map(|n| format!("k{n}: 1, ")).collect();
        let merged = format!("- &a {{{keys}}}\n{}", "- <<: *a\n".repeat(2000));
        assert!(refused(&merged).1.contains("values, repeated ones included"));
        let mut nested = "- &a0 [x]\n".to_string();
        for n in 1..200 {
            nested += &format!("- &a{n} [*a{}]\n", n - 1);
        }
        assert_eq!(refused(&nested).1, "lists and maps nest too deep");
        for deep in ["[", "{a: ", "- "] {
            refused(&deep.repeat(100_000));
        }
        assert_eq!(refused("a: &a [*a]\n"), (7..9, refused("a: &a [*a]\n").1));
        for (text, told) in [
            ("", "empty"),
            ("a: 1\na: 2\n", "\"a\" stands twice"),
            ("[a]: 1\n", "this key is a list"),
            ("a: 1\n---\nb: 2\n", "second document"),
            ("a: *b\n", "cannot be read"),
            ("a: \"b\n", "cannot be read"),
        ] {
            assert!(refused(text).1.contains(told), "{text}: {:?}", refused(text));
        }
    }
}
