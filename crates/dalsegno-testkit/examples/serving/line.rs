//! The table: what was measured, what it should be, and whether it is.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// One figure divided by another.
    Times,
    /// So many in a second.
    ASecond,
    /// 1,024 bytes.
    Kibibytes,
    /// 1,048,576 bytes.
    Mebibytes,
    /// Parts of a hundred.
    Percent,
    /// Things.
    Whole,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Seconds => "s",
            Self::Times => "x",
            Self::ASecond => "/s",
            Self::Kibibytes => "KiB",
            Self::Mebibytes => "MiB",
            Self::Percent => "%",
            Self::Whole => "",
        }
    }

    /// Shows a figure with its unit.
    pub(crate) fn show(self, figure: f64) -> String {
        let digits = match self {
            Self::Millis | Self::Seconds | Self::Times | Self::Percent => 2,
            Self::Kibibytes | Self::Mebibytes => 1,
            Self::ASecond | Self::Whole => 0,
        };
        format!("{figure:.digits$} {}", self.name()).trim_end().to_owned()
    }
}

/// Whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Kept,
    Missed,
    /// There is no budget: the figure is there for what others mean.
    Told,
    /// It could not be measured here.
    Unknown,
}

impl Standing {
    const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Missed => "missed",
            Self::Told => "told",
            Self::Unknown => "unknown",
        }
    }

    /// As the table has it, where what is missing must be seen.
    const fn verdict(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Missed => "MISSED",
            Self::Told => "",
            Self::Unknown => "?",
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    what: String,
    /// What was measured; none where it could not be.
    figure: Option<f64>,
    unit: Unit,
    /// The budget: what the figure must not be above.
    most: Option<f64>,
    note: String,
}

impl Line {
    /// A figure that must not be above its budget.
    pub(crate) fn at_most(what: impl Into<String>, figure: f64, most: f64, unit: Unit) -> Self {
        Self { most: Some(most), ..Self::told(what, figure, unit) }
    }

    /// A figure without a budget.
    pub(crate) fn told(what: impl Into<String>, figure: f64, unit: Unit) -> Self {
        Self { what: what.into(), figure: Some(figure), unit, most: None, note: String::new() }
    }

    /// What could not be measured, and why.
    pub(crate) fn unknown(what: &str, why: String) -> Self {
        Self { what: what.to_owned(), figure: None, unit: Unit::Whole, most: None, note: why }
    }

    /// The same line with a note behind its figure.
    pub(crate) fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn standing(&self) -> Standing {
        match (self.figure, self.most) {
            (None, _) => Standing::Unknown,
            (Some(_), None) => Standing::Told,
            (Some(figure), Some(most)) if figure <= most => Standing::Kept,
            (Some(_), Some(_)) => Standing::Missed,
        }
    }

    fn measured(&self) -> String {
        match (self.figure, self.note.lines().next()) {
            (None, why) => format!("not measured: {}", why.unwrap_or_default()),
            (Some(figure), None) => self.unit.show(figure),
            (Some(figure), Some(note)) => format!("{} ({note})", self.unit.show(figure)),
        }
    }

    fn budget(&self) -> String {
        self.most.map_or_else(String::new, |most| format!("≤ {}", self.unit.show(most)))
    }

    fn json(&self, row: &str) -> Value {
        json!({
            "row": row,
            "what": self.what.trim(),
            "figure": self.figure,
            "unit": self.unit.name(),
            "at_most": self.most,
            "standing": self.standing().name(),
            "note": self.note,
        })
    }
}

/// All lines, each with the name of its row.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(&'static str, Line)>);

impl Table {
    /// Adds the lines of a row, or one that says why there are none.
    pub(crate) fn add(&mut self, row: &'static str, measured: anyhow::Result<Vec<Line>>) {
        let lines = measured.unwrap_or_else(|error| vec![Line::unknown("all of it", format!("{error:#}"))]);
        self.0.extend(lines.into_iter().map(|line| (row, line)));
    }

    /// Says whether every line was measured and no budget is missed.
    pub(crate) fn is_kept(&self) -> bool {
        self.count(Standing::Missed) + self.count(Standing::Unknown) == 0
    }

    fn count(&self, standing: Standing) -> usize {
        self.0.iter().filter(|(_, line)| line.standing() == standing).count()
    }

    /// The table for people.
    pub(crate) fn text(&self) -> String {
        let head = ["ROW", "WHAT", "MEASURED", "BUDGET", "VERDICT"].map(str::to_owned);
        let rows = self.0.iter().map(|(row, line)| {
            let verdict = line.standing().verdict().to_owned();
            [(*row).to_owned(), line.what.clone(), line.measured(), line.budget(), verdict]
        });
        let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3].map(width);
        let mut text = String::new();
        for [row, what, measured, budget, verdict] in &rows {
            let [first, second, third, fourth] = widths;
            let line =
                format!("{row:first$}  {what:second$}  {measured:third$}  {budget:fourth$}  {verdict}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let [kept, missed, unknown] =
            [Standing::Kept, Standing::Missed, Standing::Unknown].map(|standing| self.count(standing));
        let _ = write!(text, "{kept} kept, {missed} missed, {unknown} not measured");
        text
    }

    /// The same as one JSON document.
    pub(crate) fn json(&self) -> String {
        let lines: Vec<Value> = self.0.iter().map(|(row, line)| line.json(row)).collect();
        format!(
            "{:#}",
            json!({
                "version": env!("CARGO_PKG_VERSION"),
                "lines": lines,
                "kept": self.count(Standing::Kept),
                "missed": self.count(Standing::Missed),
                "unknown": self.count(Standing::Unknown),
            })
        )
    }
}

/// One figure beside another; 0 where the other is 0.
pub(crate) fn ratio(one: f64, other: f64) -> f64 {
    if other > 0.0 { one / other } else { 0.0 }
}
