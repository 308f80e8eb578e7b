//! Changes one key of a file that people write, and shows the difference of two texts. Comments and
//! the order of lines stay.

use std::path::Path;

use similar::TextDiff;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Key, Table, TableLike, Value};

use crate::check::check_text;
use crate::folder::update;

/// The keys by which an entry of a list is found, the first that it has.
const NAMES: [&str; 5] = ["name", "prefix", "mac", "node", "groups"];

/// Changes a key of a file, or removes it where there is no value. Returns whether that made a
/// difference.
///
/// # Errors
/// In words, also if the new text is not right ([`check_text`]). Nothing is written then.
pub fn change(file: &Path, key: &str, value: Option<&str>) -> Result<bool, String> {
    update(file, |text| {
        let shown = file.display().to_string();
        let new = edit(text, key, value).map_err(|why| format!("{shown}: {why}"))?;
        check_text(&shown, &new).map_err(|e| e.to_string())?;
        let is_new = new != text;
        Ok((new, is_new))
    })
}

/// Replaces a file's text by what `change` makes of it; returns the text before.
///
/// # Errors
/// In words.
pub fn write(file: &Path, change: impl FnOnce(&str) -> String) -> Result<String, String> {
    update(file, |text| Ok((change(text), text.to_string())))
}

/// The text with a key changed, or removed. A key is written as in TOML, with dots; an entry of a
/// list is named by its name, prefix or address, or by its place from 1:
/// `port.eth1.queue.packets`, `subnet."10.0.0.0/24".gateway`, `allow.2.from`.
///
/// # Errors
/// When there is no such section, or the key is none.
pub fn edit(text: &str, key: &str, value: Option<&str>) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
        format!("line {}: {}", line_of(text, &e), e.message())
    })?;
    let path = Key::parse(key).map_err(|_| {
        format!("'{key}' is no key: write names with dots between, and quote what has dots itself")
    })?;
    let path: Vec<&str> = path.iter().map(Key::get).collect();
    let value = value.map(parse_value);
    edit_table(document.as_table_mut(), "", &path, value)?;
    Ok(document.to_string())
}

fn line_of(text: &str, error: &toml_edit::TomlError) -> usize {
    let before = error.span().map_or(text.len(), |span| span.start).min(text.len());
    text.as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A value of TOML, or else the word itself as a text.
fn parse_value(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| Value::from(text))
}

/// The differences of two texts in the unified form; empty if there are none.
pub fn difference(old: (&str, &str), new: (&str, &str)) -> String {
    let (old_name, old) = old;
    let (new_name, new) = new;
    TextDiff::from_lines(old, new).unified_diff().header(old_name, new_name).to_string()
}

fn edit_table(
    table: &mut dyn TableLike,
    above: &str,
    path: &[&str],
    value: Option<Value>,
) -> Result<(), String> {
    let [key, rest @ ..] = path else {
        return Err(format!("{above} is a section: name one of its keys"));
    };
    let here = join(above, key);
    match (table.get_mut(key), value) {
        (None, None) => Err(format!("{here} is not there")),
        (Some(Item::Value(old)), Some(mut new)) if rest.is_empty() => {
            // Comments beside the value.
            *new.decor_mut() = old.decor().clone();
            *old = new;
            Ok(())
        }
        (Some(Item::Value(_)), None) if rest.is_empty() => {
            table.remove(key);
            Ok(())
        }
        (Some(item), None) if rest.is_empty() && item.is_table_like() => {
            table.remove(key);
            Ok(())
        }
        (Some(item), value) => edit_item(item, &here, rest, value),
        (None, Some(value)) if rest.is_empty() => {
            table.insert(key, Item::Value(value));
            Ok(())
        }
        (None, Some(value)) => {
            let mut section = Table::new();
            edit_table(&mut section, &here, rest, Some(value))?;
            table.insert(key, Item::Table(section));
            Ok(())
        }
    }
}

fn edit_item(
    item: &mut Item,
    here: &str,
    path: &[&str],
    value: Option<Value>,
) -> Result<(), String> {
    match item {
        Item::ArrayOfTables(list) => edit_list(list, here, path, value),
        Item::Value(Value::Array(list)) if list.iter().any(Value::is_inline_table) => {
            edit_list(list, here, path, value)
        }
        item => match item.as_table_like_mut() {
            Some(table) => edit_table(table, here, path, value),
            None => Err(format!(
                "{here} is a single value, {}: change it as a whole",
                item.to_string().trim()
            )),
        },
    }
}

/// A list of sections, in either form.
trait List {
    fn entries(&self) -> Vec<&dyn TableLike>;
    fn entry(&mut self, index: usize) -> Option<&mut dyn TableLike>;
    fn remove_entry(&mut self, index: usize);
}

impl List for ArrayOfTables {
    fn entries(&self) -> Vec<&dyn TableLike> {
        self.iter().map(|table| table as &dyn TableLike).collect()
    }

    fn entry(&mut self, index: usize) -> Option<&mut dyn TableLike> {
        self.get_mut(index).map(|table| table as &mut dyn TableLike)
    }

    fn remove_entry(&mut self, index: usize) {
        self.remove(index);
    }
}

impl List for Array {
    fn entries(&self) -> Vec<&dyn TableLike> {
        let tables = self.iter().filter_map(Value::as_inline_table);
        tables.map(|table| table as &dyn TableLike).collect()
    }

    fn entry(&mut self, index: usize) -> Option<&mut dyn TableLike> {
        let table = self.get_mut(index)?.as_inline_table_mut()?;
        Some(table as &mut dyn TableLike)
    }

    fn remove_entry(&mut self, index: usize) {
        self.remove(index);
    }
}

fn edit_list(
    list: &mut dyn List,
    here: &str,
    path: &[&str],
    value: Option<Value>,
) -> Result<(), String> {
    let names: Vec<String> = list.entries().into_iter().map(name_of).collect();
    let [entry, rest @ ..] = path else {
        return Err(format!("{here} is a list: name one of its entries ({})", names.join(", ")));
    };
    let place = |number: usize| (1..=names.len()).contains(&number).then(|| number - 1);
    let named: Vec<usize> = (0..names.len()).filter(|n| names[*n] == *entry).collect();
    if let [first, second, ..] = named[..] {
        return Err(format!(
            "{here} has several entries {entry}: name one by its number ({}, {} ...)",
            first + 1,
            second + 1
        ));
    }
    let index =
        named.first().copied().or_else(|| entry.parse().ok().and_then(place)).ok_or_else(|| {
            format!("{here} has no entry {entry}: there are {}", names.join(", "))
        })?;
    match (rest.is_empty(), &value) {
        (true, None) => {
            list.remove_entry(index);
            Ok(())
        }
        _ => match list.entry(index) {
            Some(table) => edit_table(table, &join(here, entry), rest, value),
            None => Err(format!("entry {entry} of {here} is no section")),
        },
    }
}

/// An entry's name for people; `?` if it has none.
fn name_of(entry: &dyn TableLike) -> String {
    let name = NAMES.iter().find_map(|key| entry.get(key).and_then(Item::as_str));
    name.unwrap_or("?").to_string()
}

fn join(above: &str, key: &str) -> String {
    if above.is_empty() { key.to_string() } else { format!("{above}.{key}") }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const FILE: &str = "\
# my switch
name = \"n1\"   # its name
workers = 1

[[port]] # the uplink
name = \"eth1\"
queue = { packets = 100, order = \"fifo\" } # short
vlan = 7

[[port]]
name = \"eth2\"
";

    fn set(key: &str, value: &str) -> String {
        edit(FILE, key, Some(value)).unwrap()
    }

    /// A station in two VLANs, say.
    #[test]
    fn of_entries_with_one_name_none_is_taken_by_it() {
        let text = "name = \"n1\"\n[[port]]\nname = \"a\"\n[[port]]\nname = \"a\"\nvlan = 7\n";
        for value in [Some("9"), None] {
            let told = edit(text, "port.a.vlan", value).unwrap_err();
            assert!(told.contains("several entries a: name one by its number (1, 2"), "{told}");
        }
        let second = edit(text, "port.2.vlan", Some("9")).unwrap();
        assert_eq!(second, text.replace("vlan = 7", "vlan = 9"));
    }

    #[test]
    fn one_line_changes_and_the_others_stay() {
        let changed = |old: &str, new: &str| FILE.replace(old, new);
        assert_eq!(set("workers", "2"), changed("workers = 1", "workers = 2"));
        assert_eq!(set("name", "x1"), changed("name = \"n1\" ", "name = \"x1\" "));
        assert_eq!(set("port.eth1.vlan", "9"), changed("vlan = 7", "vlan = 9"));
        assert_eq!(set("port.1.vlan", "9"), changed("vlan = 7", "vlan = 9"));
        let packets = changed("packets = 100", "packets = 512");
        assert_eq!(set("port.eth1.queue.packets", "512"), packets);
        // New keys and sections.
        assert_eq!(set("port.eth2.rate", "50Mbit"), format!("{FILE}rate = \"50Mbit\"\n"));
        assert_eq!(set("switch.ageing", "60s"), format!("{FILE}\n[switch]\nageing = \"60s\"\n"));
        let metrics = changed("workers = 1\n", "workers = 1\nmetrics = \"[::1]:9\"\n");
        assert_eq!(set("metrics", "[::1]:9"), metrics);
        assert_eq!(set("port.eth2.trunk", "[10, \"20-29\"]"), {
            format!("{FILE}trunk = [10, \"20-29\"]\n")
        });
        // Removals.
        let removed = edit(FILE, "port.eth1.vlan", None).unwrap();
        assert_eq!(removed, changed("vlan = 7\n", ""));
        let removed = edit(FILE, "port.eth2", None).unwrap();
        assert_eq!(removed, changed("\n[[port]]\nname = \"eth2\"\n", ""));
    }

    #[test]
    fn entries_have_names_of_several_kinds() {
        let text = "[[subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.1\"\n\
                    [[allow]]\nfrom = \"a\"\nto = \"b\"\n";
        let new = edit(text, "subnet.\"10.0.0.0/24\".gateway", Some("10.0.0.9")).unwrap();
        assert_eq!(new, text.replace("0.1", "0.9"));
        let new = edit(text, "allow.1.from", Some("any")).unwrap();
        assert_eq!(new, text.replace("\"a\"", "\"any\""));
        let inline = "port = [{ name = \"a\", vlan = 1 }, { name = \"b\" }]\n";
        let new = edit(inline, "port.a.vlan", Some("2")).unwrap();
        assert_eq!(new, inline.replace("vlan = 1", "vlan = 2"));
    }

    #[test]
    fn what_is_no_key_is_refused_with_advice() {
        let told = |key: &str, value: Option<&str>| edit(FILE, key, value).unwrap_err();
        for (key, value, words) in [
            ("port.eth9.vlan", Some("1"), "no entry eth9: there are eth1, eth2"),
            ("port.3.vlan", Some("1"), "no entry 3"),
            ("port.0.vlan", Some("1"), "no entry 0"),
            ("port", Some("1"), "port is a list: name one of its entries (eth1, eth2)"),
            ("port.eth1", Some("1"), "port.eth1 is a section: name one of its keys"),
            ("workers.a", Some("1"), "workers is a single value, 1: change it"),
            ("port.eth2.vlan", None, "port.eth2.vlan is not there"),
            ("switch.ageing", None, "switch is not there"),
            ("", Some("1"), "is no key"),
            ("a..b", Some("1"), "is no key"),
        ] {
            let told = told(key, value);
            assert!(told.contains(words), "{key}: {told}");
        }
        assert!(edit("a = 1\nb = \n", "a", Some("2")).unwrap_err().starts_with("line 2: "));
    }

    #[test]
    fn a_refused_text_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("n1.toml");
        fs::write(&file, FILE).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = change(&file, "workers", Some("0")).unwrap_err();
        assert!(refused.contains("n1.toml:") && refused.contains("workers"), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), FILE);
        assert_eq!(change(&file, "workers", Some("2")), Ok(true));
        assert_eq!(change(&file, "workers", Some("2")), Ok(false));
        assert!(fs::read_to_string(&file).unwrap().contains("workers = 2"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    #[test]
    fn changes_at_once_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("n1.toml");
        let names: Vec<String> = (1..9).map(|n| format!("eth{n}")).collect();
        let ports = names.iter().map(|name| format!("[[port]]\nname = \"{name}\"\n"));
        fs::write(&file, format!("name = \"n1\"\n{}", ports.collect::<String>())).unwrap();
        let keys: Vec<String> = names.iter().map(|name| format!("port.{name}.vlan")).collect();
        std::thread::scope(|scope| {
            for key in &keys {
                scope.spawn(|| assert_eq!(change(&file, key, Some("7")), Ok(true)));
            }
        });
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("vlan = 7").count(), names.len(), "{text}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        let missing = change(&dir.path().join("n2.toml"), "a", Some("1"));
        assert!(missing.unwrap_err().contains("n2.toml"));
    }

    #[test]
    fn a_difference_is_in_the_unified_form() {
        assert_eq!(difference(("a", FILE), ("b", FILE)), "");
        let shown = difference(("runs", "x\ny\n"), ("file", "x\nz\n"));
        assert_eq!(shown, "--- runs\n+++ file\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n");
    }
}
