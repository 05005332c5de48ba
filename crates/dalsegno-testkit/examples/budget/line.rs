//! The table: what was measured, what it should be, and whether it is.

use std::error::Error;
use std::fmt::Write as _;

/// Why something was not measured.
pub(crate) type Fault = Box<dyn Error + Send + Sync>;

/// Whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Kept,
    Missed,
    /// There is no budget: the figure is there for what others mean.
    Told,
    /// It could not be measured here.
    Unknown,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    what: String,
    measured: String,
    budget: String,
    pub(crate) standing: Standing,
}

impl Line {
    /// A figure that must not be above its budget.
    pub(crate) fn at_most(what: &str, measured: f64, most: f64, show: impl Fn(f64) -> String) -> Self {
        let standing = if measured <= most { Standing::Kept } else { Standing::Missed };
        let (measured, budget) = (show(measured), format!("≤ {}", show(most)));
        Self { what: what.to_owned(), measured, budget, standing }
    }

    /// A figure that must not be below its budget.
    pub(crate) fn at_least(what: &str, measured: f64, least: f64, show: impl Fn(f64) -> String) -> Self {
        let standing = if measured >= least { Standing::Kept } else { Standing::Missed };
        let (measured, budget) = (show(measured), format!("≥ {}", show(least)));
        Self { what: what.to_owned(), measured, budget, standing }
    }

    /// A figure without a budget.
    pub(crate) fn told(what: &str, measured: String) -> Self {
        Self { what: what.to_owned(), measured, budget: String::new(), standing: Standing::Told }
    }

    /// What could not be measured, and why.
    pub(crate) fn unknown(what: &str, why: &str) -> Self {
        let measured = format!("not measured: {}", why.lines().next().unwrap_or_default());
        Self { what: what.to_owned(), measured, budget: String::new(), standing: Standing::Unknown }
    }

    /// The same line with a note behind its figure.
    pub(crate) fn noted(mut self, note: &str) -> Self {
        let _ = write!(self.measured, " ({note})");
        self
    }
}

/// The lines of one measurement, or a line that says why there are none.
pub(crate) fn lines(what: &str, measured: Result<Vec<Line>, Fault>) -> Vec<Line> {
    measured.unwrap_or_else(|fault| vec![Line::unknown(what, &fault.to_string())])
}

/// The table as text.
pub(crate) fn table(lines: &[Line]) -> String {
    let width = |column: fn(&Line) -> &String| {
        lines.iter().map(|line| column(line).chars().count()).max().unwrap_or_default()
    };
    let (what, measured, budget) =
        (width(|line| &line.what), width(|line| &line.measured), width(|line| &line.budget));
    let mut text = String::new();
    let _ = writeln!(text, "{:what$}  {:measured$}  {:budget$}  VERDICT", "WHAT", "MEASURED", "BUDGET");
    for line in lines {
        let standing = match line.standing {
            Standing::Kept => "kept",
            Standing::Missed => "MISSED",
            Standing::Told => "",
            Standing::Unknown => "?",
        };
        let row =
            format!("{:what$}  {:measured$}  {:budget$}  {standing}", line.what, line.measured, line.budget);
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

pub(crate) fn times(ratio: f64) -> String {
    format!("{ratio:.2} x")
}

pub(crate) fn millis(millis: f64) -> String {
    format!("{millis:.1} ms")
}

pub(crate) fn micros(micros: f64) -> String {
    format!("{micros:.2} µs")
}

pub(crate) fn bytes(bytes: f64) -> String {
    format!("{bytes:.0} B")
}

pub(crate) fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

pub(crate) fn whole(number: f64) -> String {
    format!("{number:.0}")
}
