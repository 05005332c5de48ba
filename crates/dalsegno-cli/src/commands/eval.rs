//! `dalsegno eval`: a data set through an agent.

use std::path::{Path, PathBuf};

use dalsegno_core::digest_json;
use dalsegno_eval::{Conclusion, DataSet, EvalError, Limits, Place, Report, Setup, Way, evaluate, html};
use dalsegno_statistics::Verdict;
use dalsegno_workspace::{Against, Diagnostic, Eval, EvalRead, Workspace};
use serde_json::json;

use super::Context;
use crate::args::{EvalArgs, Format};
use crate::error::Error;
use crate::exit::Exit;
use crate::render::spinner::Spinner;
use crate::render::text::{count, dollars};
use crate::render::{diagnostics, eval as render};
use crate::signal::Signals;

mod perform;
mod places;

use self::perform::Trials;
use self::places::Places;

pub(super) async fn eval(args: &EvalArgs, context: &mut Context<'_>) -> Result<Exit, Error> {
    let workspace = context.files_alone()?;
    let file = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let EvalRead { eval, diagnostics, source } = workspace.eval(&file);
    let Some(mut eval) = eval else {
        let sources: Vec<_> = source.into_iter().collect();
        return Ok(refuse(&sources, &diagnostics, context));
    };
    eval.at_least = args.at_least.or(eval.at_least);
    if let Some(base) = &args.base {
        eval.against = Some(Against::Base(base.clone()));
    }
    let limits = Limits {
        trials: args.trials.unwrap_or(eval.trials),
        items: args.max_items.map_or(usize::MAX, |most| most as usize),
        jobs: args.jobs as usize,
        nano_usd: args.max_cost_usd,
        all: args.all,
        only: args.item.clone(),
    };
    if let (Some(_), Some(model)) = (limits.nano_usd, &eval.unpriced) {
        return Err(unpriced(model));
    }
    let data = open(&eval, &workspace)?;
    let places = Places::read(&eval, context)?;
    let ways = ways(&eval, &places)?;
    let judges: Vec<String> = eval
        .judges
        .iter()
        .map(|judge| places.fingerprint(Place::Now, &judge.agent.name, None, &eval.tenant))
        .collect::<Result<_, _>>()?;
    render::effects(&eval, &places.reachable(&eval, &ways), context.output);
    let trials = Trials::open(&eval, places, context).await?;
    let report = run(
        Setup { eval: &eval, data: &data, ways: &ways, judges: &judges, limits: &limits },
        &trials,
        context,
    )
    .await?;
    let Some(report) = report else {
        context.output.note("interrupted: the same command performs what is missing");
        return Ok(Exit::Interrupted);
    };
    if let Some(path) = &args.report {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let written = dalsegno_files::replace_shared(&path, html(&report).as_bytes());
        written.map_err(|source| Error::Write { path, source })?;
    }
    match context.format {
        Format::Json | Format::Jsonl => context.output.document(&report),
        Format::Text => render::show(&report, context.verbose, context.output),
    }
    render::sum_up(&report, context.output);
    Ok(concluded(&report))
}

/// Evaluates until the end or a wish to stop; nothing in the second case.
async fn run(setup: Setup<'_>, trials: &Trials, context: &mut Context<'_>) -> Result<Option<Report>, Error> {
    let mut signals = Signals::listen().map_err(|source| Error::Signals { source })?;
    let mut spinner = Spinner::new(context);
    let output = &mut *context.output;
    let result = {
        let mut evaluation = std::pin::pin!(evaluate(setup, trials, |progress| {
            let words = format!(
                "{} of {} items, {} performed, {}",
                progress.items,
                progress.of,
                count(progress.performed, "run"),
                dollars(progress.cost_nano_usd)
            );
            spinner.draw(Some(words), output);
        }));
        tokio::select! {
            result = &mut evaluation => result,
            () = signals.next() => {
                // What is under way is left where it can be resumed.
                trials.interrupt();
                evaluation.await
            }
        }
    };
    spinner.clear(context.output);
    match result {
        Ok(report) => Ok(Some(report)),
        Err(_) if trials.is_interrupted() => Ok(None),
        Err(EvalError::Perform(message)) => Err(Error::EvalStopped { message }),
        Err(EvalError::Unpriced(model)) => Err(unpriced(&model)),
        Err(EvalError::NoItem(id)) => Err(Error::Eval {
            message: format!("the data set has no item `{id}`"),
            help: "name the `id` of an item, or `line-N` for one without",
        }),
        Err(EvalError::Data(error)) => Err(Error::EvalStopped { message: format!("data set, {error}") }),
        Err(error) => Err(Error::EvalStopped { message: error.to_string() }),
    }
}

fn unpriced(model: &str) -> Error {
    Error::Eval {
        message: format!("the cost has a limit, and the model `{model}` no price"),
        help: "add `price = { input = …, output = … }` to the model in `dalsegno.toml`",
    }
}

/// Reads the data set to its end, and holds each item against the checks.
fn open(eval: &Eval, workspace: &Workspace) -> Result<DataSet, Error> {
    let mut unused: Vec<&str> = eval.checks.fields().collect();
    let labels: Vec<&str> = eval.judges.iter().filter_map(|judge| judge.label.as_deref()).collect();
    let mut unlabelled = labels.clone();
    let shown = eval.data.strip_prefix(&workspace.root).unwrap_or(&eval.data).display().to_string();
    let data = DataSet::open(&eval.data, &eval.name, |item| {
        eval.checks.of(&item.value)?;
        unused.retain(|field| item.value.get(field).is_none());
        for label in &labels {
            let Some(value) = item.value.get("labels").and_then(|labels| labels.get(label)) else { continue };
            if !value.is_boolean() {
                return Err(format!("the label `{label}` is not true or false"));
            }
            if item.answer().is_none() {
                return Err(format!("it has the label `{label}`, and no `answer` that the label is about"));
            }
            unlabelled.retain(|one| one != label);
        }
        Ok(())
    });
    let data = data.map_err(|error| {
        let place = error.line.map_or_else(|| format!("`{shown}`"), |line| format!("{shown}:{line}"));
        Error::Eval { message: format!("{place}: {}", error.message), help: error.help }
    })?;
    if let Some(field) = unused.first() {
        let message = format!("no item of `{shown}` has the field `{field}`, which `[checks]` reads");
        return Err(Error::Eval { message, help: "correct the name of the field" });
    }
    if let Some(label) = unlabelled.first() {
        let message = format!("no item of `{shown}` has the label `{label}`");
        return Err(Error::Eval {
            message,
            help: "add `labels` and the `answer` that they are about, or remove `label`",
        });
    }
    Ok(data)
}

/// The ways: what it is compared with comes first.
fn ways(eval: &Eval, places: &Places) -> Result<Vec<Way>, Error> {
    let agent = &eval.agent.name;
    let way = |name: String, agent: &dalsegno_core::AgentName, model: Option<&String>, place| {
        let fingerprint = places.fingerprint(place, agent, model.map(String::as_str), &eval.tenant)?;
        Ok::<_, Error>(Way { name, agent: agent.clone(), model: model.cloned(), place, fingerprint })
    };
    let own = |name: &str| way(name.to_owned(), agent, None, Place::Now);
    Ok(match &eval.against {
        None => vec![own(agent.as_str())?],
        Some(Against::Agent(other)) => {
            vec![way(other.name.to_string(), &other.name, None, Place::Now)?, own(agent.as_str())?]
        }
        Some(Against::Model(model)) => {
            let name = format!("{agent} with {model}");
            vec![way(name, agent, Some(model), Place::Now)?, own(agent.as_str())?]
        }
        Some(Against::Base(base)) => {
            vec![way(format!("{agent} in {base}"), agent, None, Place::Base)?, own(&format!("{agent} now"))?]
        }
    })
}

/// Tells what is wrong with the eval file.
fn refuse(
    sources: &[dalsegno_workspace::SourceFile],
    found: &[Diagnostic],
    context: &mut Context<'_>,
) -> Exit {
    if context.format == Format::Json {
        context.output.document(&found);
        return Exit::BadInput;
    }
    diagnostics::draw_from(&context.root, sources, found, context.output);
    context.output.note(format_args!("{}: nothing was started", diagnostics::summary(found)));
    Exit::BadInput
}

/// The exit code of a report.
fn concluded(report: &Report) -> Exit {
    let verdict = report.comparison.map(|compared| compared.verdict);
    let goal = report.goal.map(|goal| goal.conclusion);
    match (verdict, goal) {
        (Some(Verdict::Worse), _) | (_, Some(Conclusion::NotReached)) => Exit::Diverged,
        (Some(Verdict::Inconclusive), _) | (_, Some(Conclusion::Inconclusive)) => Exit::Inconclusive,
        // Nothing was measured.
        _ if report.ways.iter().all(|way| way.trials == 0) => Exit::Inconclusive,
        _ => Exit::Done,
    }
}

/// The folder of an eval's journal and memory.
pub(super) fn folder(store: &Path, eval: &str) -> PathBuf {
    folders(store).join(eval)
}

/// The folder of all evals.
pub(super) fn folders(store: &Path) -> PathBuf {
    store.parent().unwrap_or(Path::new(".")).join("evals")
}

/// A short digest of texts.
fn digest(texts: &[String]) -> String {
    digest_json(&json!(texts)).to_string()
}
