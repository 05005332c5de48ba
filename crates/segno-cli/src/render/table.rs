//! Columns for people.

use super::text;

/// Rows under a head, each column as wide as its widest cell, two spaces between them; the last column is not padded.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let mut widths = head.map(text::width);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text::width(cell));
        }
    }
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.into_iter().zip(widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - text::width(cell) + 2));
        }
        line.truncate(line.trim_end().len());
        line
    };
    std::iter::once(line(head))
        .chain(rows.iter().map(|row| line(row.each_ref().map(String::as_str))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["日本".to_owned(), "1".to_owned()], ["a".to_owned(), "22".to_owned()]];
        assert_eq!(table(["NAME", "N"], &rows), ["NAME  N", "日本  1", "a     22"]);
    }
}
