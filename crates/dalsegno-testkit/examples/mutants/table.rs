//! The table of results, which is also what a later run goes on from.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// What stands above the table.
const HEAD: &str = "# Planted faults

`cargo xtask mutants` plants each of these faults in a copy of the sources and runs the check that is to find it: the simulation, or a
named test. It writes this table; what has a result is not done again until the fault changes. A fault that survives is a promise
that nothing checks.

";

/// What became of a fault.
pub(super) enum Finding {
    Caught(String),
    Survived,
    /// It says nothing: the text is gone, or the result does not compile.
    Useless(String),
    NotRun,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught(by) => write!(f, "caught: {by}"),
            Self::Survived => f.write_str("survived"),
            Self::Useless(why) => write!(f, "useless: {why}"),
            Self::NotRun => f.write_str("not run"),
        }
    }
}

/// A fault in the table.
pub(super) struct Row {
    breaks: String,
    print: String,
    result: String,
}

impl Row {
    #[expect(clippy::needless_pass_by_value, reason = "a finding is given once")]
    pub(super) fn new(breaks: &str, print: &str, finding: Finding) -> Self {
        let result: String = finding.to_string().replace('|', "/").chars().take(200).collect();
        Self { breaks: breaks.replace('|', "/"), print: print.to_owned(), result }
    }

    fn is(&self, word: &str) -> bool {
        self.result.starts_with(word)
    }
}

/// All faults by their names.
pub(super) struct Table(BTreeMap<String, Row>);

impl Table {
    /// Reads the table as it was written; none where there is no file.
    pub(super) fn read(file: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let row = |line: &str| {
            let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
            let [name, breaks, print, result] = cells.as_slice() else { return None };
            let (name, print) = (name.trim_end_matches('`'), print.trim_matches('`'));
            let result = result.trim_end_matches(" |").to_owned();
            let row = Row { breaks: (*breaks).to_owned(), print: print.to_owned(), result };
            Some((name.to_owned(), row))
        };
        Ok(Self(text.lines().filter_map(row).collect()))
    }

    /// Forgets what is planted no more.
    pub(super) fn keep<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let names: Vec<&str> = names.collect();
        self.0.retain(|name, _| names.contains(&name.as_str()));
    }

    /// Says whether there is a result for this very fault.
    pub(super) fn has(&self, name: &str, print: &str) -> bool {
        self.0.get(name).is_some_and(|row| row.print == print && !row.is("not run"))
    }

    pub(super) fn set(&mut self, name: &str, row: Row) {
        self.0.insert(name.to_owned(), row);
    }

    fn count(&self, word: &str) -> usize {
        self.0.values().filter(|row| row.is(word)).count()
    }

    pub(super) fn survivors(&self) -> usize {
        self.count("survived")
    }

    /// The counts in a line.
    pub(super) fn summary(&self) -> String {
        let (caught, survived) = (self.count("caught"), self.survivors());
        let share = 100.0 * caught as f64 / (caught + survived).max(1) as f64;
        let (useless, left) = (self.count("useless"), self.count("not run"));
        format!(
            "{caught} of {} caught ({share:.1} %), {useless} say nothing, {left} not run",
            caught + survived
        )
    }

    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        let mut text = format!(
            "{HEAD}{}.\n\n| fault | what breaks | version | result |\n|---|---|---|---|\n",
            self.summary()
        );
        for (name, Row { breaks, print, result }) in &self.0 {
            text.push_str(&format!("| `{name}` | {breaks} | `{print}` | {result} |\n"));
        }
        fs::write(file, text)
    }
}
