//! Analyzes one failure: loads the facts about it, applies the rules, and checks a suggested fix against the failing
//! commit.

use berth_analysis::diff::{self, DiffPermit};
use berth_analysis::{AnalysisInput, LINES_MAX, StepEnding, fingerprint, fix};
use berth_core::analysis::{Analysis, AnalysisOutput, AnalyzerSettings, SuggestedFix};
use berth_core::deployment::run::AttemptOutcome;
use berth_core::deployment::{ExecutionFailure, FailureCode};
use berth_core::id::OrgId;
use berth_core::pipeline::model::StepType;
use berth_engine::git::CommitHash;
use berth_engine::logs::{LogError, LogKey, LogStore, LogStream};
use berth_store::StoreRead;
use berth_store::tables::{analysis, analysis_settings, attempt, plan, run};

use super::files::CommitFiles;
use super::model::{self, PromptFacts, PromptPreview};
use super::result::StoredFindings;
use crate::error::AppError;
use berth_engine::Services;

const RULES: &str = "rules";

/// Facts about a failure, read from the database.
struct FailureFacts {
    step_type: String,
    /// The step's script, from the definition.
    run: Option<String>,
    failure: ExecutionFailure,
    exit_code: Option<i32>,
    last_good: Option<LogKey>,
    settings: AnalyzerSettings,
}

/// The last lines of a log, and the line number of the first of them.
struct LogTail {
    lines: Vec<String>,
    first_line: usize,
}

pub(super) async fn analyze_failure(
    services: &Services,
    org: OrgId,
    it: &Analysis,
) -> Result<AnalysisOutput, AppError> {
    let RulesResult { ruled, facts, settings } = run_rules(services, org, it).await?;
    let Some(model) = &settings.model else {
        let same = find_same_failure(services, org, it, &ruled.fingerprint, RULES).await?;
        return Ok(AnalysisOutput { reused_from: same.map(|found| found.id), ..ruled });
    };
    let analyser = model.analyser();
    if let Some(earlier) = find_same_failure(services, org, it, &ruled.fingerprint, &analyser).await?
        && let Some(said) = earlier.output()
    {
        let result = StoredFindings::read(&said.result).relocate(&facts.lines, facts.first_line).to_value();
        let diff = said.fix.as_ref().map(|fix| fix.diff.clone());
        let (fix, note) = model_fix(services, org, it, &settings, &ruled, diff).await?;
        return Ok(AnalysisOutput { analyser, result, fix, note, reused_from: Some(earlier.id), ..ruled });
    }
    match model::ask_model(services, org, it, (model, settings.limits), &facts).await? {
        Ok(said) => {
            let (fix, note) = model_fix(services, org, it, &settings, &ruled, said.diff).await?;
            let usage = Some(said.usage);
            Ok(AnalysisOutput { analyser, result: said.found.to_value(), fix, note, usage, ..ruled })
        }
        Err(why) => {
            let note = format!("{analyser} could not be used: {why}. The built-in rules were used instead.");
            Ok(AnalysisOutput { note: Some(note), ..ruled })
        }
    }
}

/// Returns the prompt that a model would get, without sending it.
pub(crate) async fn preview(
    services: &Services,
    org: OrgId,
    it: &Analysis,
) -> Result<Option<PromptPreview>, AppError> {
    let RulesResult { facts, settings, .. } = run_rules(services, org, it).await?;
    Ok(settings.model.as_ref().map(|model| model::preview(model, settings.limits, &facts)))
}

/// The findings of the rules, and the facts that a model would get.
struct RulesResult {
    ruled: AnalysisOutput,
    facts: PromptFacts,
    settings: AnalyzerSettings,
}

async fn run_rules(services: &Services, org: OrgId, it: &Analysis) -> Result<RulesResult, AppError> {
    let (known, log, good) = gather_facts(services, org, it).await?;
    let (mut facts, settings) = (prompt_facts(&known, &log), known.settings.clone());
    let (files, wants_files) = (commit_files(services, org, it), settings.model.is_some());
    // Reading files of the commit runs git, so run this under the limits for git.
    let (ruled, read) = services
        .git
        .run(org, move || {
            let input = rules_input(&known, &log, good.as_ref());
            let analysis = berth_analysis::analyse(&input);
            let read = files.as_ref().filter(|_| wants_files);
            let read = read.map(|files| fix::relevant_files(&input, &analysis, &files.with_fresh_limit()));
            (rules_answer(&known, &input, &analysis, files.as_ref()), read.unwrap_or_default())
        })
        .await?;
    facts.files = mask_files(services, org, read).await?;
    Ok(RulesResult { ruled, facts, settings })
}

fn commit_files(services: &Services, org: OrgId, it: &Analysis) -> Option<CommitFiles> {
    let commit = it.commit.as_deref().and_then(CommitHash::parse)?;
    Some(CommitFiles::new(services.git.mirror(org, it.repository?), commit))
}

/// Masks secrets in files of the commit. Logs need no masking here, because they are masked when they are written.
async fn mask_files(
    services: &Services,
    org: OrgId,
    files: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, AppError> {
    if files.is_empty() {
        return Ok(files);
    }
    let vault = services.vault.clone();
    let read = services.store.read(Some(org), move |db| {
        let masked = files
            .into_iter()
            .map(|(path, text)| Ok((vault.mask_text(db, org, &path)?, vault.mask_text(db, org, &text)?)));
        masked.collect::<Result<Vec<_>, AppError>>()
    });
    read.await
}

/// Validates the diff that a model suggested. If a rule suggested a fix, that fix is used instead. Like a rule's fix,
/// the diff must apply to the failing commit and touch only allowed files; otherwise it is discarded with a note.
async fn model_fix(
    services: &Services,
    org: OrgId,
    it: &Analysis,
    settings: &AnalyzerSettings,
    ruled: &AnalysisOutput,
    diff: Option<String>,
) -> Result<(Option<SuggestedFix>, Option<String>), AppError> {
    let (None, Some(text)) = (&ruled.fix, diff) else { return Ok((ruled.fix.clone(), None)) };
    let left_out =
        |why: &str| Ok((None, Some(format!("A diff suggested by the model was discarded: {why}."))));
    let Some(files) = commit_files(services, org, it) else {
        return left_out("the pipeline has no repository");
    };
    let (vault, sought) = (services.vault.clone(), text.clone());
    let holds_secret =
        services.store.read(Some(org), move |db| Ok::<_, AppError>(vault.contains_secret(db, org, &sought)?));
    if holds_secret.await? {
        return left_out("it contains the value of a secret");
    }
    let permit = DiffPermit { definitions: settings.permits_definition };
    let (text, applied) = services
        .git
        .run(org, move || {
            let applied = diff::apply(&text, &files, permit);
            (text, applied)
        })
        .await?;
    match applied {
        Ok(changed) => {
            let paths: Vec<&str> = changed.iter().map(|it| it.path.as_str()).collect();
            let summary = match paths.as_slice() {
                [only] => format!("Change {only} as suggested by a model"),
                many => format!("Change {} files as suggested by a model", many.len()),
            };
            Ok((Some(SuggestedFix { summary, diff: text }), None))
        }
        Err(refused) => left_out(&refused.to_string()),
    }
}

async fn gather_facts(
    services: &Services,
    org: OrgId,
    it: &Analysis,
) -> Result<(FailureFacts, LogTail, Option<LogTail>), AppError> {
    let asked = it.clone();
    let known = services.store.read(Some(org), move |db| load_facts(db, org, &asked)).await?;
    let own = LogKey {
        org,
        deployment: it.deployment,
        step: it.step,
        attempt: it.attempt,
        stream: LogStream::Step,
    };
    let (logs, last_good) = (services.logs.clone(), known.last_good);
    let read = tokio::task::spawn_blocking(move || {
        let good = last_good.map(|key| read_tail(&logs, &key)).transpose()?;
        Ok::<_, LogError>((read_tail(&logs, &own)?, good))
    });
    let read = read.await.map_err(|_| AppError::bug("reading a log for an analysis broke"))?;
    let (log, good) = read.map_err(|error| AppError::bug(error.to_string()))?;
    Ok((known, log, good))
}

/// Finds an earlier analysis of the same failure by the same analyser.
async fn find_same_failure(
    services: &Services,
    org: OrgId,
    it: &Analysis,
    fingerprint: &str,
    analyser: &str,
) -> Result<Option<Analysis>, AppError> {
    let (pipeline, print, analyser) = (it.pipeline, fingerprint.to_owned(), analyser.to_owned());
    let found = services.store.read(Some(org), move |db| {
        Ok::<_, AppError>(analysis::find_same_failure(db, &print, pipeline, &analyser)?)
    });
    Ok(found.await?.filter(|found| found.id != it.id))
}

fn prompt_facts(known: &FailureFacts, log: &LogTail) -> PromptFacts {
    PromptFacts {
        step_type: known.step_type.clone(),
        script: known.run.clone(),
        cause: known.failure.cause.as_str(),
        exit_code: known.exit_code,
        detail: known.failure.detail.clone(),
        lines: log.lines.clone(),
        first_line: log.first_line,
        files: Vec::new(),
    }
}

fn load_facts(db: &mut impl StoreRead, org: OrgId, it: &Analysis) -> Result<FailureFacts, AppError> {
    let missing = || AppError::bug("an analysis of a step that is not there");
    let found = run::by_id(db, it.deployment)?.ok_or_else(missing)?;
    let plan = plan::by_id(db, it.deployment)?.ok_or_else(missing)?;
    let step = found.steps.iter().find(|step| step.id == it.step).ok_or_else(missing)?;
    let planned = plan.step(step);
    let attempts = attempt::list_of_run(db, it.deployment)?;
    let ended = attempts
        .into_iter()
        .find(|told| told.attempt.step == it.step && told.attempt.number == it.attempt)
        .and_then(|told| told.attempt.end);
    let (failure, exit_code) = match ended.map(|end| end.outcome) {
        Some(AttemptOutcome::Failed { failure, exit_code }) => (failure, exit_code),
        _ => {
            let unknown = || ExecutionFailure { cause: FailureCode::Lost, detail: String::new() };
            (step.failure.clone().unwrap_or_else(unknown), None)
        }
    };
    let last_good = analysis::find_last_success(db, it.pipeline, &it.stage, &it.step_name, it.deployment)?;
    let last_good = last_good.map(|good| LogKey {
        org,
        deployment: good.deployment,
        step: good.step,
        attempt: good.attempt,
        stream: LogStream::Step,
    });
    let step_type = match &planned.kind {
        StepType::Builtin(builtin) => builtin.as_str().to_owned(),
        StepType::Custom(text) => text.clone(),
    };
    let script = planned.params.get("run").and_then(serde_json::Value::as_str);
    let settings = analysis_settings::load(db)?;
    Ok(FailureFacts { step_type, run: script.map(str::to_owned), failure, exit_code, last_good, settings })
}

fn read_tail(logs: &LogStore, key: &LogKey) -> Result<LogTail, LogError> {
    let Some(mut log) = logs.open(key)? else { return Ok(LogTail { lines: Vec::new(), first_line: 1 }) };
    let lines = log.tail(LINES_MAX as u64)?.lines;
    let first_line = lines.first().map_or(1, |line| usize::try_from(line.number).unwrap_or(usize::MAX));
    Ok(LogTail { lines: lines.into_iter().map(|line| line.text).collect(), first_line })
}

fn rules_input<'a>(
    known: &'a FailureFacts,
    log: &'a LogTail,
    good: Option<&'a LogTail>,
) -> AnalysisInput<'a> {
    AnalysisInput {
        step_type: &known.step_type,
        run: known.run.as_deref(),
        ending: StepEnding::from_record(known.failure.cause, known.exit_code, &known.failure.detail),
        lines: &log.lines,
        first_line: log.first_line,
        last_good: good.map(|good| good.lines.as_slice()),
    }
}

fn rules_answer(
    known: &FailureFacts,
    input: &AnalysisInput<'_>,
    analysis: &berth_analysis::AnalysisResult,
    files: Option<&CommitFiles>,
) -> AnalysisOutput {
    let permit = DiffPermit { definitions: known.settings.permits_definition };
    let suggested = match (analysis, files) {
        (berth_analysis::AnalysisResult::Found(finding), Some(files)) => {
            fix::suggest_fix(input, finding, files, permit)
        }
        _ => None,
    };
    AnalysisOutput {
        analyser: RULES.to_owned(),
        fingerprint: fingerprint(input, analysis).to_string(),
        result: StoredFindings::from_rules(analysis, input.lines, input.first_line).to_value(),
        fix: suggested.map(|fix| SuggestedFix { summary: fix.summary, diff: fix.diff }),
        note: None,
        reused_from: None,
        usage: None,
    }
}
