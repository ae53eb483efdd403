//! Integrity check of an installation: the database file, each organization's audit log with the indexes of its events
//! and sessions, the digests of finished logs, and all referenced artifacts. Read-only, so the server may be running.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use berth_core::id::OrgId;
use berth_engine::artifacts::ArtifactStore;
use berth_engine::logs::{LogError, LogKey, LogStore, LogStream};
use berth_engine::object_storage::ObjectStorage;
use berth_store::admin::integrity::{self, PageCheck};
use berth_store::admin::read_only::ReadOnly;
use berth_store::audit::{AuditHead, StoredCheck};
use berth_store::tables::retention::{self, LoggedAttempt};
use berth_store::tables::{event, instance, organization, registry_build};

use super::{UpkeepError, verify_objects as objects};

/// Maximum number of problems that are listed. Further problems are only counted.
pub const PROBLEMS_SHOWN_MAX: usize = 100;
const READ_BYTES: usize = 256 * 1024;

#[derive(Debug, Default)]
pub struct VerifyReport {
    pub organizations: usize,
    pub events: i64,
    pub logs: usize,
    pub artifacts: usize,
    /// Messages of the first [`PROBLEMS_SHOWN_MAX`] problems.
    pub problems: Vec<String>,
    pub problem_count: usize,
}

impl VerifyReport {
    pub(super) fn add_problem(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_SHOWN_MAX {
            self.problems.push(problem);
        }
    }

    /// Records a page's problems and returns the key after which the next page starts.
    fn add_page<K>(&mut self, slug: &str, page: PageCheck<K>) -> Option<K> {
        for problem in page.problems {
            self.add_problem(format!("{slug}: {problem}"));
        }
        page.last
    }
}

/// Verifies an installation. Logs and artifacts are in the data directory or in object storage. `kept` contains the last known event of each audit log, from a source outside the
/// database.
pub fn verify(
    db: &mut ReadOnly,
    data_dir: &Path,
    kept: &BTreeMap<OrgId, AuditHead>,
    storage: Option<&ObjectStorage>,
) -> Result<VerifyReport, UpkeepError> {
    let mut found = VerifyReport::default();
    let storage_id = db.read(None, |db| Ok::<_, UpkeepError>(instance::find_storage_id(db)?))?;
    if storage_id.is_some() && storage.is_none() {
        let text =
            "the logs and artifacts are in object storage: set storage.url, so that they can be verified";
        return Err(UpkeepError::Refused(text.into()));
    }
    let storage = storage.filter(|_| storage_id.is_some());
    if let Err(error) = db.check_file() {
        found.add_problem(error.to_string());
    }
    let files = StoredFiles {
        logs: LogStore::new_shared(data_dir.join("logs")),
        artifacts: ArtifactStore::new(data_dir.join("artifacts")),
    };
    let (mut after, mut seen) = (None, BTreeSet::new());
    loop {
        let page = db.read(None, |db| Ok::<_, UpkeepError>(organization::list_ids(db, after)?))?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (org, slug) in page {
            found.organizations += 1;
            seen.insert(org);
            // If the audit log is damaged, its index cannot be checked.
            if verify_chain(db, org, &slug, kept.get(&org).cloned(), &mut found)? {
                verify_event_index(db, org, &slug, &mut found)?;
            }
            verify_sessions(db, org, &slug, &mut found)?;
            match storage {
                Some(storage) => objects::verify(db, org, &slug, storage, &mut found)?,
                None => verify_logs(db, org, &slug, &files, &mut found)?,
            }
            verify_artifacts(db, org, &slug, storage.is_none().then_some(&files), &mut found)?;
        }
    }
    for org in kept.keys().filter(|org| !seen.contains(org)) {
        found.add_problem(format!("the organization {org} is gone"));
    }
    Ok(found)
}

/// Verifies that a copied database contains the same complete audit logs as its source.
pub fn verify_chains(copy: &mut ReadOnly, source: &mut ReadOnly) -> Result<VerifyReport, UpkeepError> {
    let (mut found, mut after) = (VerifyReport::default(), None);
    loop {
        let page = source.read(None, |db| Ok::<_, UpkeepError>(organization::list_ids(db, after)?))?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        after = Some(*last);
        for (org, slug) in page {
            found.organizations += 1;
            let head = source.read(Some(org), |db| Ok::<_, UpkeepError>(event::chain_head(db)?))?;
            verify_chain(copy, org, &slug, Some(head), &mut found)?;
        }
    }
}

struct StoredFiles {
    logs: LogStore,
    artifacts: ArtifactStore,
}

/// Verifies the hash chain of an organization's audit log. Returns `false` if it has a problem.
fn verify_chain(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
    kept: Option<AuditHead>,
    found: &mut VerifyReport,
) -> Result<bool, UpkeepError> {
    let mut check = db.read(Some(org), |db| Ok::<_, UpkeepError>(StoredCheck::begin(db, kept)?))?;
    while db.read(Some(org), |db| Ok::<_, UpkeepError>(check.verify_page(db)?))? {}
    let verdict = check.finish();
    found.events += verdict.checked;
    let Some(problem) = verdict.problem else { return Ok(true) };
    let (at, reason) = (problem.sequence, problem.reason.as_str());
    found.add_problem(format!("{slug}: the history is wrong at event {at} ({reason}): {}", problem.detail));
    Ok(false)
}

fn verify_event_index(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
    found: &mut VerifyReport,
) -> Result<(), UpkeepError> {
    let mut after = Some(0);
    while let Some(number) = after {
        let page = db.read(Some(org), |db| Ok::<_, UpkeepError>(integrity::check_events(db, number)?))?;
        after = found.add_page(slug, page);
    }
    Ok(())
}

fn verify_sessions(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
    found: &mut VerifyReport,
) -> Result<(), UpkeepError> {
    let mut after = Some(String::new());
    while let Some(id) = after {
        let page = db.read(Some(org), |db| Ok::<_, UpkeepError>(integrity::check_environments(db, &id)?))?;
        after = found.add_page(slug, page);
    }
    Ok(())
}

fn verify_logs(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
    files: &StoredFiles,
    found: &mut VerifyReport,
) -> Result<(), UpkeepError> {
    let mut after = None;
    loop {
        let page =
            db.read(Some(org), |db| Ok::<_, UpkeepError>(retention::list_logged_attempts(db, after)?))?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(*last);
        for LoggedAttempt { deployment, step, attempt } in page {
            found.logs += 1;
            let key = LogKey { org, deployment, step, attempt, stream: LogStream::Step };
            let wrong = match check_log(&files.logs, &key) {
                Ok(None) => continue,
                Ok(Some(wrong)) => wrong.to_owned(),
                Err(error) => error.to_string(),
            };
            found.add_problem(format!(
                "{slug}: the log of attempt {attempt} of {step} in {deployment}: {wrong}"
            ));
        }
    }
}

fn check_log(logs: &LogStore, key: &LogKey) -> Result<Option<&'static str>, LogError> {
    let Some(mut log) = logs.open(key)? else { return Ok(Some("it is not there")) };
    let (mut digest, mut at) = (Context::new(&SHA256), 0);
    loop {
        let bytes = log.read_bytes(at, READ_BYTES)?;
        if bytes.is_empty() {
            break;
        }
        digest.update(&bytes);
        at += bytes.len() as u64;
    }
    let is_other = |sha256: [u8; 32]| digest.finish().as_ref() != sha256;
    Ok(log.seal().and_then(|sealed| is_other(sealed.sha256).then_some("it has another digest")))
}

fn verify_artifacts(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
    files: Option<&StoredFiles>,
    found: &mut VerifyReport,
) -> Result<(), UpkeepError> {
    let mut wanted = BTreeSet::new();
    let mut after = None;
    loop {
        let page =
            db.read(Some(org), |db| Ok::<_, UpkeepError>(retention::list_artifacts(db, after.as_ref())?))?;
        let Some(last) = page.last().cloned() else { break };
        wanted.extend(page.into_iter().flat_map(|it| it.artifacts.into_values()));
        after = Some(last);
    }
    let mut after = None;
    loop {
        let page = db.read(Some(org), |db| {
            Ok::<_, UpkeepError>(registry_build::list_artifacts(db, after.as_ref())?)
        })?;
        let Some(last) = page.last().cloned() else { break };
        wanted.extend(page.into_iter().map(|it| it.digest));
        after = Some(last);
    }
    for digest in wanted {
        found.artifacts += 1;
        let checked = match files {
            Some(files) => files.artifacts.check(org, &digest).map_err(|error| error.to_string()),
            None => objects::check_artifact(db, org, &digest)?,
        };
        if let Err(error) = checked {
            found.add_problem(format!("{slug}: artifact {digest}: {error}"));
        }
    }
    Ok(())
}
