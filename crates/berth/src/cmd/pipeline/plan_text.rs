//! Renders a plan for the terminal.

use std::fmt::Write as _;

use berth_api::plan::{PlannedCondition, PlannedStep, WirePlan};
use berth_api::runner::Network;

/// Values are cut off after their first line and after this many characters.
const VALUE_CHARS_MAX: usize = 100;

pub(super) fn render_plan(plan: &WirePlan) -> String {
    let mut text = String::new();
    for stage in &plan.stages {
        let _ = writeln!(text, "{}", stage.name);
        let mut before = None;
        for step in &stage.steps {
            let _ = writeln!(
                text,
                "  {} ({}, {}){}",
                step.name,
                step.id,
                step.kind,
                step_conditions(step, before)
            );
            for (kind, name, value) in step_values(step) {
                let _ = writeln!(text, "      {kind} {name}: {}", truncate_value(&value));
            }
            before = Some(step.id.as_str());
        }
        if stage.steps.is_empty() {
            text.push_str("  no steps\n");
        }
    }
    for obstacle in &plan.obstacles {
        let _ = writeln!(text, "blocked: {obstacle}");
    }
    text.trim_end().to_owned()
}

/// Describes a step's dependencies and condition. The defaults, "after the previous step" and "always", are omitted.
fn step_conditions(step: &PlannedStep, before: Option<&str>) -> String {
    let needs: Vec<&str> = step.needs.iter().map(String::as_str).collect();
    let mut text = match needs.as_slice() {
        [] if before.is_some() => ", immediately".to_owned(),
        [] => String::new(),
        [only] if Some(*only) == before => String::new(),
        several => format!(", after {}", several.join(" and ")),
    };
    match (step.runs, &step.condition) {
        (PlannedCondition::Never, _) => text.push_str(", skipped: condition is false"),
        (PlannedCondition::If, Some(condition)) => {
            let _ = write!(text, ", if {condition}");
        }
        (PlannedCondition::Always | PlannedCondition::If, _) => {}
    }
    if !step.runs_on.is_empty() {
        let _ = write!(text, ", on {}", step.runs_on.join(" and "));
    }
    if let Some(image) = &step.image {
        let _ = write!(text, ", in {image}");
    }
    if step.network == Network::None {
        text.push_str(", without network");
    }
    text
}

fn step_values(step: &PlannedStep) -> impl Iterator<Item = (&'static str, &str, String)> {
    let env = step.env.iter().map(|(name, value)| ("env", name.as_str(), value.clone()));
    let files = step.secret_files.iter().map(|(name, value)| ("file", name.as_str(), value.clone()));
    let params = step.params.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        ("param", name.as_str(), text)
    });
    env.chain(files).chain(params)
}

fn truncate_value(value: &str) -> String {
    let line = value.lines().next().unwrap_or_default();
    let short: String = line.chars().filter(|c| !c.is_control()).take(VALUE_CHARS_MAX).collect();
    if short.len() < value.trim_end().len() { format!("{short} …") } else { short }
}
