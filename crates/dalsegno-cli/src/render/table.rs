//! Columns for people.

use super::text::{self, brief};

/// No column is cut further than this.
const NARROWEST: usize = 8;

/// Rows under a head, each column as wide as its widest cell, two spaces between them; the last column is not padded.
///
/// Where the lines would be wider than `width`, the widest columns give way; the first one, which tells the rows apart, last.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]], width: usize) -> Vec<String> {
    // No cell matters beyond the width, and none may break its line.
    let cell = |text: &String| brief(text, width);
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(cell)).collect();
    let mut widths = head.map(text::width);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text::width(cell));
        }
    }
    fit(&mut widths, width.saturating_sub(2 * N.saturating_sub(1)));
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.into_iter().zip(widths) {
            let cell = brief(cell, width);
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', width - text::width(&cell) + 2));
        }
        line.truncate(line.trim_end().len());
        line
    };
    std::iter::once(line(head))
        .chain(rows.iter().map(|row| line(row.each_ref().map(String::as_str))))
        .collect()
}

/// Takes from the widest columns until all of them fit, or none can give more; from the first one only then.
fn fit(widths: &mut [usize], room: usize) {
    while widths.iter().sum::<usize>() > room {
        let Some((first, others)) = widths.split_first_mut() else { return };
        match others.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            Some(_) | None if *first > NARROWEST => *first -= 1,
            Some(_) | None => return,
        }
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
        assert_eq!(fitted[1], "google_calendar.check_availability  check_av…  Says it");
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
