//! `all`: runs the benchmarks one after the other and writes their reports to one file, with plots.

mod plot;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::report::describe_machine;
use plot::PlotColumn;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench all [options]

  --out DIR        where to write report.md and plots/ [default: bench]
  --only WORD      only benchmarks whose title contains this word
  --quick          short rounds, to check that everything runs
";

/// How long to wait for the last lines of a benchmark that has failed. A process that it left may keep its stderr open.
const STDERR_WAIT: Duration = Duration::from_secs(1);

/// A part of the report.
struct ReportSection {
    title: &'static str,
    args: &'static [&'static str],
    /// Arguments with `--quick`.
    quick: &'static [&'static str],
    plot: PlotColumn,
}

const SECTIONS: &[ReportSection] = &[
    ReportSection {
        title: "Start and memory",
        args: &["idle"],
        quick: &["idle", "--starts", "3"],
        plot: PlotColumn { label: &[0], value: "measured" },
    },
    ReportSection {
        title: "Claim and release on SQLite",
        args: &["locks", "--clients", "64,16,1", "--rounds", "5", "--seconds", "2"],
        quick: &["locks", "--clients", "16", "--rounds", "1", "--short"],
        plot: PlotColumn { label: &[0, 1], value: "pairs/s" },
    },
    ReportSection {
        title: "Claim and release on PostgreSQL",
        args: &["locks", "--database", "postgres", "--rounds", "5", "--seconds", "3"],
        quick: &["locks", "--database", "postgres", "--rounds", "1", "--short"],
        plot: PlotColumn { label: &[0], value: "times etcd" },
    },
    ReportSection {
        title: "Steps",
        args: &["steps"],
        quick: &["steps", "--quick"],
        plot: PlotColumn { label: &[0], value: "ms per step" },
    },
    ReportSection {
        title: "Steps with sources",
        args: &["sources"],
        quick: &["sources", "--files", "70", "--steps", "2", "--rounds", "1"],
        plot: PlotColumn { label: &[0], value: "times bare" },
    },
    ReportSection {
        title: "Logs",
        args: &["logs", "--bytes", "100000000"],
        quick: &["logs", "--quick", "--rounds", "1", "--bytes", "1000000"],
        plot: PlotColumn { label: &[0], value: "ms" },
    },
    ReportSection {
        title: "Lists",
        args: &["lists", "--rows", "1000,10000,100000"],
        quick: &["lists", "--rows", "100,1000", "--rounds", "1", "--seconds", "0.2"],
        plot: PlotColumn { label: &[1, 0], value: "p99 ms" },
    },
    ReportSection {
        title: "Dashboard",
        args: &["dashboard"],
        quick: &["dashboard", "--pipelines", "20"],
        plot: PlotColumn { label: &[0], value: "first rows ms" },
    },
];

struct ReportOptions {
    out: PathBuf,
    only: String,
    is_quick: bool,
}

fn parse_options(args: &[String]) -> anyhow::Result<ReportOptions> {
    let (mut out, mut only, mut is_quick) = (PathBuf::from("bench"), String::new(), false);
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--out" => out = value()?.into(),
            "--only" => only = value()?.to_lowercase(),
            "--quick" => is_quick = true,
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    Ok(ReportOptions { out, only, is_quick })
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let options = parse_options(args)?;
    let plots = options.out.join("plots");
    std::fs::create_dir_all(&plots).with_context(|| format!("cannot create {}", plots.display()))?;
    let chosen: Vec<&ReportSection> =
        SECTIONS.iter().filter(|section| section.title.to_lowercase().contains(&options.only)).collect();
    ensure!(!chosen.is_empty(), "no benchmark has \"{}\" in its title\n\n{USAGE}", options.only);
    let began = Instant::now();
    let mut text = format!(
        "# Benchmark report\n\nWritten by `cargo xtask bench all` on {}. Clients, servers and peers share this machine, so compare the \
         values of one table with each other, not with other machines.\n",
        describe_platform()
    );
    let mut failed = Vec::new();
    for (number, section) in (1..).zip(&chosen) {
        eprintln!("{number} of {}: {}", chosen.len(), section.title);
        let args = if options.is_quick { section.quick } else { section.args };
        let report = run_benchmark(args).unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", section.title);
            failed.push(section.title);
            format!("**Failed:** {error:#}\n")
        });
        let _ = write!(text, "\n## {}\n\n`cargo xtask bench {}`\n\n", section.title, args.join(" "));
        let name = format!("{}.svg", section.title.to_lowercase().replace(' ', "-"));
        if let Some(svg) = plot::render(section.title, section.plot, &report) {
            std::fs::write(plots.join(&name), svg)?;
            let _ = write!(text, "![{}: {}](plots/{name})\n\n", section.title, section.plot.value);
        }
        text.push_str(report.trim_end());
        text.push('\n');
        // Written after each benchmark, so that an interrupted run keeps its results.
        write_report(&options.out, &text)?;
    }
    eprintln!("{} written in {} s", options.out.join("report.md").display(), began.elapsed().as_secs());
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Runs a benchmark in a process of its own, so that its memory and threads do not affect the next one. The error has the
/// last line that it printed.
fn run_benchmark(args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let progress = BufReader::new(child.stderr.take().context("the benchmark has no stderr")?);
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in progress.lines().map_while(Result::ok) {
            eprintln!("{line}");
            let _ = sender.send(line);
        }
    });
    let done = child.wait_with_output()?;
    if !done.status.success() {
        let mut last = String::new();
        while let Ok(line) = lines.recv_timeout(STDERR_WAIT) {
            last = line;
        }
        bail!("{last} ({})", done.status);
    }
    String::from_utf8(done.stdout).context("the report is not UTF-8")
}

fn write_report(out: &Path, text: &str) -> anyhow::Result<()> {
    let path = out.join("report.md");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Describes the machine: processor, memory, kernel and file system.
fn describe_platform() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, name)| name);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} ({model}), Linux {}", describe_machine(), kernel.trim())
}
