//! The report's table, the score, and the goals that `--check` enforces.

use std::fmt::Write as _;

use anyhow::ensure;

use super::{CaseVerdict, ScoredCase};

const CATEGORY_MIN: f64 = 0.85;
const LINE_MIN: f64 = 0.80;
/// Minimum number of cases for a meaningful score.
const CASES_MIN: usize = 30;
const SHOWN_LINES_MAX: usize = 60;

/// Number of cases that were judged, and the number of correct results among them.
#[derive(Default)]
struct ScoreTotals {
    cases: usize,
    categories: usize,
    lines: usize,
}

impl ScoreTotals {
    fn from_cases<'a>(scored: impl Iterator<Item = &'a ScoredCase>) -> Self {
        let mut score = Self::default();
        for one in scored {
            if let CaseVerdict::Judged { category, is_right_line, .. } = &one.verdict {
                score.cases += 1;
                score.categories += usize::from(*category == Some(one.case.category));
                score.lines += usize::from(*is_right_line);
            }
        }
        score
    }

    fn share(&self, right: usize) -> f64 {
        right as f64 / self.cases.max(1) as f64
    }

    fn render_row(&self, title: &str) -> String {
        let shown = |right: usize| format!("{right} ({:.0} %)", 100.0 * self.share(right));
        format!("| {title} | {} | {} | {} |", self.cases, shown(self.categories), shown(self.lines))
    }
}

pub(super) fn render(scored: &[ScoredCase], show: bool) -> String {
    let mut out =
        String::from("| case | held out | category | found | rule | line |\n|---|---|---|---|---|---|\n");
    for one in scored {
        let case = one.case;
        let held_out = if case.is_held_out { "yes" } else { "" };
        let (found, rule, line) = match &one.verdict {
            CaseVerdict::Skipped(why) => (format!("SKIPPED: {why}"), "", ""),
            CaseVerdict::Void => ("VOID: it did not fail as intended".to_owned(), "", ""),
            CaseVerdict::Judged { category, rule, is_right_line } => {
                let found = category.map_or("none", berth_analysis::Category::as_str);
                let mark = if *category == Some(case.category) { "" } else { " ✗" };
                (format!("{found}{mark}"), rule.as_str(), if *is_right_line { "right" } else { "✗" })
            }
        };
        let category = case.category.as_str();
        let _ = writeln!(out, "| {} | {held_out} | {category} | {found} | {rule} | {line} |", case.name);
    }
    let _ = writeln!(out, "\n| | cases | right category | right line |\n|---|--:|--:|--:|");
    let (held, open): (Vec<&ScoredCase>, Vec<&ScoredCase>) =
        scored.iter().partition(|one| one.case.is_held_out);
    for (title, cases) in [("held out", &held), ("not held out", &open)] {
        let _ = writeln!(out, "{}", ScoreTotals::from_cases(cases.iter().copied()).render_row(title));
    }
    let _ = writeln!(out, "{}", ScoreTotals::from_cases(scored.iter()).render_row("all"));
    let _ = writeln!(out, "\nGoal: {:.0} % and {:.0} %.", 100.0 * CATEGORY_MIN, 100.0 * LINE_MIN);
    let left_out = scored.iter().filter(|one| !matches!(one.verdict, CaseVerdict::Judged { .. })).count();
    if left_out > 0 {
        let _ = writeln!(out, "{left_out} cases could not be judged here and are not counted.");
    }
    for one in scored.iter().filter(|one| show && is_wrong(one)) {
        let lines: Vec<&str> = one.log.lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES_MAX);
        let _ = writeln!(out, "\n## {}\n\n```\n{}\n```", one.case.name, lines[from..].join("\n"));
    }
    out
}

fn is_wrong(one: &ScoredCase) -> bool {
    match &one.verdict {
        CaseVerdict::Skipped(_) => false,
        CaseVerdict::Void => true,
        CaseVerdict::Judged { category, is_right_line, .. } => {
            *category != Some(one.case.category) || !is_right_line
        }
    }
}

/// Checks the goals, for all cases and for the held-out ones. The error lists every goal that was missed.
pub(super) fn check(scored: &[ScoredCase]) -> anyhow::Result<()> {
    let mut broken = Vec::new();
    let all = ScoreTotals::from_cases(scored.iter());
    let held = ScoreTotals::from_cases(scored.iter().filter(|one| one.case.is_held_out));
    if all.cases < CASES_MIN {
        broken.push(format!("{} cases, at least {CASES_MIN}", all.cases));
    }
    for (title, score) in [("all", &all), ("held out", &held)] {
        for (what, right, least) in
            [("categories", score.categories, CATEGORY_MIN), ("lines", score.lines, LINE_MIN)]
        {
            if score.share(right) < least {
                broken.push(format!("{title}: {right} of {} {what} are right", score.cases));
            }
        }
    }
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}
