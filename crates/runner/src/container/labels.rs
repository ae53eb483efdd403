//! Labels of containers and networks, by which they are found again.

use std::collections::HashMap;
use std::path::Path;

use crate::attempt::RunningAttempt;

/// Id of the attempt's directories.
pub(super) const ATTEMPT: &str = "berth.attempt";
const FENCE: &str = "berth.fence";
const RUNNER: &str = "berth.runner";
/// The runner's work directory, which only one runner uses at a time.
pub(super) const WORK_DIR: &str = "berth.work-dir";

pub(super) fn labels_of(attempt: &RunningAttempt<'_>, id: &str) -> HashMap<String, String> {
    let settings = attempt.settings();
    let mut labels = HashMap::from([
        (ATTEMPT.to_owned(), id.to_owned()),
        (RUNNER.to_owned(), settings.boot.clone()),
        (WORK_DIR.to_owned(), settings.work_dir.display().to_string()),
    ]);
    if let Some(holder) = &attempt.assignment.holder {
        labels.insert(FENCE.to_owned(), holder.fence.to_string());
    }
    labels
}

/// A filter for everything with this label.
pub(super) fn filter(label: &str, value: &str) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{label}={value}")])])
}

pub(super) fn work_dir_filter(work_dir: &Path) -> HashMap<String, Vec<String>> {
    filter(WORK_DIR, &work_dir.display().to_string())
}
