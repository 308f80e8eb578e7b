//! A table of text.

use std::fmt::Display;

/// Columns under a head.
pub(crate) struct Table<'a> {
    head: &'a [&'a str],
    rows: Vec<Vec<String>>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(head: &'a [&'a str]) -> Table<'a> {
        Table { head, rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [&dyn Display; N]) {
        self.rows.push(cells.map(ToString::to_string).into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn finish(self) -> String {
        plexus_report::table(self.head, &self.rows)
    }
}

/// The value, or a dash where there is none.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// The values with spaces between.
pub(crate) fn words(values: impl IntoIterator<Item = impl Display>) -> String {
    values.into_iter().map(|v| v.to_string()).collect::<Vec<_>>().join(" ")
}
