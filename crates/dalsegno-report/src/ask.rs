//! Questions about the runs of a report, and their answers, as JSON.

use dalsegno_core::{OperationId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::course::Course;
use crate::detail::{Detail, messages, reading};
use crate::edit::{edited, read};
use crate::report::{Report, ReportError};
use crate::seal::{Seal, checks, is_verified};

/// Most messages of one answer.
const MESSAGES_MAX: usize = 200;
/// Most rows that a search returns.
const FOUND_MAX: usize = 1_000;

/// What a page may ask. A question that has another form is refused.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// All runs.
    Runs {},
    /// The rows of a run, a line for each step.
    Outline { run: RunId },
    /// One row of a run with all that is known of it.
    Step { run: RunId, row: usize },
    /// Messages that a model was sent for a completion of a row.
    Messages { run: RunId, row: usize, operation: OperationId, from: usize, count: usize },
    /// The rows in which a text stands.
    Find { run: RunId, text: String },
    /// What would follow an edited outcome.
    Edit { run: RunId, operation: OperationId, outcome: Value },
    /// Two runs side by side.
    Diff { left: RunId, right: RunId },
    /// The digests of a run, beside those of the engine.
    Verify { run: RunId, engine: Option<Seal> },
}

/// A run in the list of all.
#[derive(Serialize)]
struct Listed {
    run: RunId,
    agent: String,
    status: String,
    started_at: dalsegno_core::Timestamp,
    parent: Option<RunId>,
    text: String,
    /// Why it cannot be shown.
    trouble: Option<String>,
}

impl Report {
    /// Answers a question. Both are JSON; an answer is `{"ok": …}` or `{"error": "…"}`.
    pub fn ask(&mut self, question: &[u8]) -> String {
        let answer = match serde_json::from_slice(question) {
            Ok(question) => self.answer(question),
            Err(error) => Err(ReportError::Question(error.to_string())),
        };
        written(answer)
    }

    /// [Adds](Self::add) an archive, and answers with its runs.
    pub fn add_json(&mut self, archive: &[u8]) -> String {
        let runs = self.add(archive);
        written(runs.map(|runs| json!(runs)))
    }

    fn answer(&mut self, question: Question) -> Result<Value, ReportError> {
        match question {
            Question::Runs {} => {
                let runs = self.runs();
                let listed: Vec<_> = runs.into_iter().map(|run| self.listed(run)).collect();
                Ok(json!(listed))
            }
            Question::Outline { run } => {
                let course = self.course(run)?;
                Ok(json!({ "rows": course.rows, "divergence": course.divergence }))
            }
            Question::Step { run, row } => {
                let detail = Detail::of(self.course(run)?, row);
                detail.map(|detail| json!(detail)).ok_or(ReportError::Row { row })
            }
            Question::Messages { run, row, operation, from, count } => {
                let course = self.course(run)?;
                let (asked, _) = course.at(row).ok_or(ReportError::Row { row })?;
                let state = asked.state();
                let mut pending = state.pending().iter();
                let found = pending.find(|pending| pending.operation.id == operation);
                let found = found.and_then(|found| reading(course, state, &found.operation.request));
                let found = found.map(|(reading, _)| messages(&reading, from, count.min(MESSAGES_MAX)));
                Ok(json!(found.unwrap_or_default()))
            }
            Question::Find { run, text } => Ok(json!(find(self.course(run)?, &text))),
            Question::Edit { run, operation, outcome } => {
                let outcome = read(&outcome).map_err(ReportError::Outcome)?;
                Ok(json!(edited(self.course(run)?, operation, outcome)?))
            }
            Question::Diff { left, right } => Ok(json!(self.diff(left, right)?)),
            Question::Verify { run, engine } => {
                let here = Seal::of_course(self.course(run)?);
                let checks = engine.as_ref().map_or_else(Vec::new, |engine| checks(engine, &here));
                let verified = engine.is_some() && is_verified(&checks, &here);
                Ok(json!({ "here": here, "checks": checks, "verified": verified }))
            }
        }
    }

    fn listed(&mut self, run: RunId) -> Listed {
        match self.course(run) {
            Ok(course) => Listed {
                run,
                agent: course.summary.agent.to_string(),
                status: course.summary.status.to_string(),
                started_at: course.summary.started_at,
                parent: course.summary.parent,
                text: course.origin.request().text.clone(),
                trouble: None,
            },
            Err(error) => Listed {
                run,
                agent: String::new(),
                status: String::new(),
                started_at: dalsegno_core::Timestamp::default(),
                parent: None,
                text: String::new(),
                trouble: Some(error.to_string()),
            },
        }
    }
}

fn written(answer: Result<Value, ReportError>) -> String {
    match answer {
        Ok(answer) => json!({ "ok": answer }),
        Err(error) => json!({ "error": in_full(&error) }),
    }
    .to_string()
}

/// An error with all its causes, which some messages leave out.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The rows whose labels or records have this text, in either case of letters.
fn find(course: &Course, text: &str) -> Vec<usize> {
    let wanted = text.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    let is_in = |index: &usize| {
        let row = &course.rows[*index];
        let labels = row.ops.iter().any(|asked| has(&asked.label));
        labels
            || course.records[row.from..row.to]
                .iter()
                .any(|record| serde_json::to_string(&record.body).is_ok_and(|json| has(&json)))
    };
    (0..course.rows.len()).filter(is_in).take(FOUND_MAX).collect()
}
