//! Columns for people.

use super::text::{self, brief};

/// No column is cut further than this.
const NARROWEST: usize = 8;

/// Rows under a head, each column as wide as its widest cell, two spaces between them; the last column is not padded.
///
/// Where the lines would be wider than `width`, the columns give way from the last to the first, which tells the rows apart.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]], width: usize) -> Vec<String> {
    let rows: Vec<&[String]> = rows.iter().map(<[String; N]>::as_slice).collect();
    columns(&head, &rows, width)
}

/// The same for columns whose number is not known beforehand; each row has as many cells as the head.
pub(crate) fn columns(head: &[&str], rows: &[&[String]], width: usize) -> Vec<String> {
    // No cell matters beyond the width, and none may break its line.
    let cell = |text: &String| brief(text, width);
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|word| text::width(word)).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text::width(cell));
        }
    }
    fit(&mut widths, width.saturating_sub(2 * head.len().saturating_sub(1)));
    let line = |cells: &[&str]| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            let cell = brief(cell, *width);
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', width - text::width(&cell) + 2));
        }
        line.truncate(line.trim_end().len());
        line
    };
    let rows = rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    std::iter::once(line(head)).chain(rows).collect()
}

/// Takes from the last column until all of them fit or it can give no more, then from the one before it.
fn fit(widths: &mut [usize], room: usize) {
    let mut excess = widths.iter().sum::<usize>().saturating_sub(room);
    for width in widths.iter_mut().rev() {
        let given = excess.min(width.saturating_sub(NARROWEST));
        *width -= given;
        excess -= given;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["日本".to_owned(), "1".to_owned()], ["a".to_owned(), "22".to_owned()]];
        assert_eq!(table(["NAME", "N"], &rows, 80), ["NAME  N", "日本  1", "a     22"]);
    }

    #[test]
    fn what_tells_rows_apart_gives_way_last() {
        let row = |tool: &str| [format!("google_calendar.{tool}"), tool.to_owned(), "Says it".to_owned()];
        let rows = [row("check_availability"), row("create_event")];
        let fitted = table(["NAME", "MODELS SEE", "DESCRIPTION"], &rows, 56);
        assert_eq!(fitted[1], "google_calendar.check_availability  check_ava…  Says it");
        assert!(fitted.iter().all(|line| text::width(line) <= 56), "{fitted:?}");
        assert!(table(["NAME", "MODELS SEE"], &[["x".repeat(50), String::new()]], 30)[1].ends_with('…'));
    }

    #[test]
    fn the_widest_column_gives_way() {
        let rows = [["memory.search".to_owned(), "Searches the memory\nfor what was observed.".to_owned()]];
        let fitted = table(["NAME", "DESCRIPTION"], &rows, 40);
        assert_eq!(fitted, ["NAME           DESCRIPTION", "memory.search  Searches the memory for…"]);
        for width in [30, 40, 60] {
            assert!(
                table(["NAME", "DESCRIPTION"], &rows, width).iter().all(|line| text::width(line) <= width)
            );
        }
    }
}
