//! `analysis`: measures how accurate the analysis rules are, on logs of tools that really failed.
//!
//! Each case runs its tool in an empty directory, like a step, and the output is analyzed. The expected result is part
//! of the case. Many cases are held out; see `cases`.

mod cases;
mod report;
mod tools;

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use berth_analysis::{AnalysisInput, AnalysisResult, Category, StepEnding, analyse};

use cases::AnalysisCase;
use tools::AnalysisTools;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench analysis [options]

  --only WORD      only cases whose name contains this word
  --open           only cases that are not held out
  --show           print the log of every wrong case
  --dir DIR        where to put the data [default: the system's temporary directory]
  --tools DIR      where npm and pip packages are kept between runs [default: bench-analysis next to the benchmark]
  --check          fail unless 85 % have the right category and 80 % the right line
";

/// Logs are cut off at this size.
const LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// If the analysis cites more lines than this as evidence, it has not identified the line.
const EVIDENCE_LINES_MAX: usize = 5;

struct AnalysisBenchOptions {
    only: String,
    is_open_only: bool,
    show: bool,
    dir: PathBuf,
    tools: Option<PathBuf>,
    check: bool,
}

fn parse_options(args: &[String]) -> anyhow::Result<AnalysisBenchOptions> {
    let mut options = AnalysisBenchOptions {
        only: String::new(),
        is_open_only: false,
        show: false,
        dir: std::env::temp_dir(),
        tools: None,
        check: false,
    };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--only" => options.only.clone_from(value()?),
            "--open" => options.is_open_only = true,
            "--show" => options.show = true,
            "--dir" => options.dir = value()?.into(),
            "--tools" => options.tools = Some(value()?.into()),
            "--check" => options.check = true,
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    Ok(options)
}

/// The result of one case.
struct ScoredCase {
    case: &'static AnalysisCase,
    verdict: CaseVerdict,
    log: String,
}

enum CaseVerdict {
    /// A tool that the case needs is not installed.
    Skipped(String),
    /// The tool did not fail as intended: its log does not contain the expected line.
    Void,
    Judged {
        category: Option<Category>,
        rule: String,
        is_right_line: bool,
    },
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let options = parse_options(args)?;
    let tools = AnalysisTools::prepare(options.tools.as_deref())?;
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir_in(&options.dir)?;
    let wanted = |case: &&AnalysisCase| {
        case.name.contains(&options.only) && !(options.is_open_only && case.is_held_out)
    };
    let mut scored = Vec::new();
    for (number, case) in cases::all_cases().filter(wanted).enumerate() {
        eprintln!("{}", case.name);
        scored.push(score_case(case, &tools, &temp.path().join(number.to_string()))?);
    }
    print!("{}", report::render(&scored, options.show));
    if options.check { report::check(&scored) } else { Ok(()) }
}

fn score_case(case: &'static AnalysisCase, tools: &AnalysisTools, dir: &Path) -> anyhow::Result<ScoredCase> {
    if let Some(missing) = tools.missing_requirement(case.needs) {
        return Ok(ScoredCase { case, verdict: CaseVerdict::Skipped(missing), log: String::new() });
    }
    let (log, status) = execute_case(case, tools, dir)?;
    let ending = match status {
        None => StepEnding::from_timeout(),
        Some(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => StepEnding::from_signal(signal),
            (None, Some(0) | None) => return Ok(ScoredCase { case, verdict: CaseVerdict::Void, log }),
            (None, Some(code)) => StepEnding::from_exit_code(code),
        },
    };
    let lines: Vec<String> = log.lines().map(str::to_owned).collect();
    let is_true = |line: &str| case.lines.iter().any(|part| berth_analysis::clean(line).contains(part));
    if !lines.iter().any(|line| is_true(line)) {
        return Ok(ScoredCase { case, verdict: CaseVerdict::Void, log });
    }
    let input = AnalysisInput {
        step_type: "script",
        run: Some(case.script),
        ending,
        lines: &lines,
        first_line: 1,
        last_good: None,
    };
    let verdict = match analyse(&input) {
        AnalysisResult::NotEnoughEvidence(_) => {
            CaseVerdict::Judged { category: None, rule: "not enough evidence".into(), is_right_line: false }
        }
        AnalysisResult::Found(found) => {
            let first = found.evidence.first();
            let shown = first.map(|range| &lines[range.first - 1..range.last]).unwrap_or_default();
            let is_right_line = shown.len() <= EVIDENCE_LINES_MAX && shown.iter().any(|line| is_true(line));
            let rule = found.rule.unwrap_or_default();
            CaseVerdict::Judged { category: Some(found.category), rule, is_right_line }
        }
    };
    Ok(ScoredCase { case, verdict, log })
}

/// Runs a case. Returns its combined output and its exit status, which is `None` after a timeout.
fn execute_case(
    case: &AnalysisCase,
    tools: &AnalysisTools,
    dir: &Path,
) -> anyhow::Result<(String, Option<ExitStatus>)> {
    let (work, home) = (dir.join("work"), dir.join("home"));
    std::fs::create_dir_all(&work)?;
    std::fs::create_dir_all(&home)?;
    std::fs::write(home.join(".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@acme.test\n")?;
    let mut out = File::options().create(true).truncate(true).read(true).write(true).open(dir.join("log"))?;
    let script = dir.join("step");
    std::fs::write(&script, format!("set -e\n{}\n", case.script))?;
    let mut command = Command::new("sh");
    command.arg(&script).current_dir(&work).env_clear().envs(tools.environment(&home)).process_group(0);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out.try_clone()?);
    let mut child = command.spawn().context("cannot start sh")?;
    let until = Instant::now() + Duration::from_secs(case.timeout_s);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > until {
            break None;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    // Kill background processes that the case left behind.
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status().ok();
    child.wait()?;
    let mut log = Vec::new();
    out.seek(SeekFrom::Start(0))?;
    out.take(LOG_BYTES_MAX).read_to_end(&mut log)?;
    Ok((String::from_utf8_lossy(&log).into_owned(), status))
}
