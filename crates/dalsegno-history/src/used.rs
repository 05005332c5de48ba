//! What runs used, from their records.

use std::collections::BTreeMap;
use std::sync::Arc;

use dalsegno_core::{
    AgentConfig, AgentRequest, AgentResponse, Digest, LiveNews, LiveTokens, Operation, OperationId, Outcome,
    Request, RunId, Surface, Timestamp, Usage,
};
use dalsegno_store::{Body, Record, RunFilter, RunSummary};

use crate::error::HistoryError;
use crate::fold::{End, Fold};
use crate::journal::Journal;

/// Runs that are looked at together.
const PAGE: u32 = 500;

/// The last records of a run among which its end is looked for: outcomes that came later follow it.
const LAST: u64 = 8;

/// What one model completion took.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    /// When its outcome was recorded.
    pub at: Timestamp,
    /// The workspace's name of the model; of a call over a line, that of the line, such as `voice.lines.front`.
    pub model: String,
    /// Whether the model has a price. Without one the cost is not known.
    pub is_priced: bool,
    /// What it took. A failed one counts no model call, but perhaps tokens.
    pub usage: Usage,
}

/// What the runs of a journal spent on models.
#[derive(Debug, Default)]
pub struct Spending {
    /// The runs that spent something, the newest first, each with its own completions. Those of a child run are the child's,
    /// and those that a fork shares with another run are the other run's: so nothing is counted twice.
    pub runs: Vec<(RunSummary, Vec<Spent>)>,
    /// The runs whose records cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// A run whose records cannot be read, because they are erased or damaged.
#[derive(Debug)]
pub struct Unreadable {
    /// The run.
    pub run: RunId,
    /// Why.
    pub error: HistoryError,
}

impl Journal {
    /// Sums up what runs spent on models from `since` on: of this journal's own runs, those that `filter` shows, however many
    /// they are. Its `limit` means nothing here.
    ///
    /// # Errors
    /// When the listing cannot be read.
    pub async fn spending(
        &self,
        filter: &RunFilter,
        since: Option<Timestamp>,
    ) -> Result<Spending, HistoryError> {
        // What an archive brought was paid for elsewhere.
        let mut filter = RunFilter { foreign: Some(false), limit: PAGE, ..filter.clone() };
        let mut configs = BTreeMap::new();
        let mut spending = Spending::default();
        loop {
            let page = self.runs(&filter).await?;
            let is_last = u32::try_from(page.len()).is_ok_and(|found| found < PAGE);
            filter.after = page.last().map(|run| run.run);
            for run in page.into_iter().filter(|run| since.is_none_or(|since| run.updated_at >= since)) {
                match self.spent_by(&run, &mut configs).await {
                    Ok(mut spent) => {
                        spent.retain(|spent| since.is_none_or(|since| spent.at >= since));
                        if !spent.is_empty() {
                            spending.runs.push((run, spent));
                        }
                    }
                    Err(error) => spending.unreadable.push(Unreadable { run: run.run, error }),
                }
            }
            if is_last {
                return Ok(spending);
            }
        }
    }

    /// What a run spent on models, in the order of its records.
    ///
    /// # Errors
    /// When the run is unknown, or its records cannot be read or do not replay.
    pub async fn spent(&self, summary: &RunSummary) -> Result<Vec<Spent>, HistoryError> {
        self.spent_by(summary, &mut BTreeMap::new()).await
    }

    async fn spent_by(
        &self,
        summary: &RunSummary,
        configs: &mut BTreeMap<Digest, Arc<AgentConfig>>,
    ) -> Result<Vec<Spent>, HistoryError> {
        // Most runs of a journal of plans asked no model, and the end says so.
        let is_free = |usage: Usage| usage.model_calls == 0 && usage.tokens() == 0;
        if self.recorded_usage(summary).await?.is_some_and(is_free) {
            return Ok(Vec::new());
        }
        let config = match configs.get(&summary.config) {
            Some(config) => Arc::clone(config),
            None => {
                let config = self.config(summary.run, summary.config).await?;
                configs.insert(summary.config, Arc::clone(&config));
                config
            }
        };
        let records = self.store().read(summary.run, 0).await?;
        let mut fold = self.begin(summary.run, Arc::clone(&config), &records).await?;
        let mut book = Book { config, open: BTreeMap::new(), spent: Vec::new() };
        for record in &records[1..] {
            fold.apply(record)?;
            book.take(record, &fold);
        }
        Ok(book.spent)
    }

    /// How a run ended that has, as its last records say: without a fold. None where they do not say it, or it handed over without
    /// an answer.
    ///
    /// # Errors
    /// When the run is unknown, or its last records cannot be read.
    pub async fn recorded_response(
        &self,
        summary: &RunSummary,
    ) -> Result<Option<AgentResponse>, HistoryError> {
        if !summary.status.is_end() {
            return Ok(None);
        }
        let records = self.store().read(summary.run, summary.records.saturating_sub(LAST)).await?;
        let end = records.into_iter().rev().find_map(|record| match record.body {
            Body::Completed { response } | Body::Failed { response } | Body::Cancelled { response } => {
                Some(Some(response))
            }
            Body::HandedOff { response, .. } => Some(response),
            _ => None,
        });
        Ok(end.flatten())
    }

    /// What a run that has ended used, as its end says: child runs included, and what a fork shares with the other run. None
    /// where its last records do not say it.
    ///
    /// # Errors
    /// When the run is unknown, or its last records cannot be read.
    pub async fn recorded_usage(&self, summary: &RunSummary) -> Result<Option<Usage>, HistoryError> {
        Ok(self.recorded_response(summary).await?.map(|response| response.usage))
    }

    /// What a run used so far, as [`recorded_usage`](Self::recorded_usage) does; where no end says it, all of its records are
    /// folded.
    ///
    /// # Errors
    /// When the run is unknown, or its records cannot be read or do not replay.
    pub async fn usage(&self, summary: &RunSummary) -> Result<Usage, HistoryError> {
        if let Some(usage) = self.recorded_usage(summary).await? {
            return Ok(usage);
        }
        let (config, records) = self.journal_of(summary.run).await?;
        let fold = self.fold_all(summary.run, config, &records).await?;
        let response = fold.ended.as_ref().and_then(End::response);
        Ok(response.map_or_else(|| fold.state().usage(), |response| response.usage))
    }
}

/// The model completions of a run, as its records tell of them.
struct Book {
    config: Arc<AgentConfig>,
    /// Those that were asked for and have no outcome.
    open: BTreeMap<OperationId, Operation>,
    spent: Vec<Spent>,
}

impl Book {
    /// Takes a record, after the fold took it.
    fn take(&mut self, record: &Record, fold: &Fold) {
        match &record.body {
            Body::Requested { .. } => {
                let mut pending = fold.state().pending().iter();
                let asked = pending.find(|pending| Some(pending.operation.id) == record.operation);
                if let Some(asked) = asked.filter(|asked| is_completion(&asked.operation)) {
                    self.open.insert(asked.operation.id, asked.operation.clone());
                }
            }
            Body::Conversed { news } => {
                for news in news {
                    match news {
                        LiveNews::Counted { tokens, .. } => self.add_response(record.at, tokens, fold),
                        LiveNews::Lasted { cost_nano_usd, .. } => {
                            self.add_time(record.at, *cost_nano_usd, fold);
                        }
                        _ => {}
                    }
                }
            }
            Body::Resolved { outcome, .. } => self.settle(record, Some(outcome)),
            Body::Answered { answer } => {
                if let Some(outcome) = answer.outcome() {
                    self.settle(record, Some(&outcome));
                }
            }
            // What is under way when the run ends may have been paid for.
            Body::Completed { .. }
            | Body::Failed { .. }
            | Body::Cancelled { .. }
            | Body::HandedOff { .. } => {
                for operation in std::mem::take(&mut self.open).into_values() {
                    self.add(record.at, &operation, None);
                }
            }
            _ => {}
        }
    }

    /// Adds what a response of the live model of a call took.
    fn add_response(&mut self, at: Timestamp, tokens: &LiveTokens, fold: &Fold) {
        let request = fold.state().request();
        let (usage, price) = self.config.usage_of_response(request, tokens);
        let model = self.live_model(request);
        self.spent.push(Spent { at, model, is_priced: price, usage });
    }

    /// Adds what a part of the time of a call cost.
    fn add_time(&mut self, at: Timestamp, cost: Option<u64>, fold: &Fold) {
        let model = self.live_model(fold.state().request());
        let usage = Usage { cost_nano_usd: cost.unwrap_or_default(), ..Usage::default() };
        self.spent.push(Spent { at, model, is_priced: cost.is_some(), usage });
    }

    /// The name under which the live model of a call is counted.
    fn live_model(&self, request: &AgentRequest) -> String {
        let own = self.config.models().next().filter(|_| request.surface == Some(Surface::Model));
        match (own, request.user["line"].as_str()) {
            (Some(model), _) => model.name.clone(),
            (None, Some(line)) => format!("voice.lines.{line}"),
            (None, None) => "voice.lines".to_owned(),
        }
    }

    fn settle(&mut self, record: &Record, outcome: Option<&Outcome>) {
        if let Some(operation) = record.operation.and_then(|id| self.open.remove(&id)) {
            self.add(record.at, &operation, outcome);
        }
    }

    fn add(&mut self, at: Timestamp, operation: &Operation, outcome: Option<&Outcome>) {
        let Request::ModelCompletion(completion) = &operation.request else { return };
        let Ok(settings) = completion.settings(&self.config) else { return };
        let usage = self.config.usage_of(operation, outcome);
        if usage != Usage::default() {
            let (model, is_priced) = (settings.name.clone(), settings.price.is_some());
            self.spent.push(Spent { at, model, is_priced, usage });
        }
    }
}

fn is_completion(operation: &Operation) -> bool {
    matches!(operation.request, Request::ModelCompletion(_))
}
