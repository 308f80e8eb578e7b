//! Tables of text.

/// A head and rows as aligned columns; columns of whole numbers are aligned to the right.
pub fn table<R: AsRef<[String]>>(head: &[&str], rows: &[R]) -> String {
    let is_number = |c: &str| !c.is_empty() && c.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let is_right =
        |column: usize| !rows.is_empty() && rows.iter().all(|row| is_number(&row.as_ref()[column]));
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let all: Vec<&[String]> =
        std::iter::once(&head[..]).chain(rows.iter().map(AsRef::as_ref)).collect();
    aligned(&all, is_right)
}

/// Rows as columns, aligned to the left.
pub fn columns<R: AsRef<[String]>>(rows: &[R]) -> String {
    aligned(rows, |_| false)
}

/// Rows as columns, two spaces between them; `is_right` says which are aligned to the right.
pub fn aligned<R: AsRef<[String]>>(rows: &[R], is_right: impl Fn(usize) -> bool) -> String {
    let mut widths = Vec::new();
    for row in rows {
        let row = row.as_ref();
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.as_ref().iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            match is_right(column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_are_on_the_right() {
        let rows = [["é".to_string(), "7".into()], ["long".into(), "120".into()]];
        assert_eq!(table(&["A", "N"], &rows), "A       N\né       7\nlong  120\n");
        assert_eq!(columns(&rows), "é     7\nlong  120\n");
        assert_eq!(table::<[String; 1]>(&["A"], &[]), "A\n");
    }
}
