//! Integrity check of logs and artifacts in object storage: every object is read and compared with its digest, and every
//! finished log is complete.

use std::io;

use berth_core::id::OrgId;
use berth_engine::object_storage::{ObjectStorage, StoredObject};
use berth_store::admin::read_only::ReadOnly;
use berth_store::tables::artifact_object;
use berth_store::tables::log_object::{self, StoredLogKey};
use berth_store::tables::retention::{self, LoggedAttempt};

use super::UpkeepError;
use super::verify::VerifyReport;

/// Verifies all objects of an organization.
pub(super) fn verify(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
    storage: &ObjectStorage,
    found: &mut VerifyReport,
) -> Result<(), UpkeepError> {
    let mut after = None;
    loop {
        let page =
            db.read(Some(org), |db| Ok::<_, UpkeepError>(log_object::list_page(db, after.as_ref())?))?;
        for (log, it) in &page {
            let object = StoredObject::new(&it.object, &it.sha256, it.bytes);
            if let Err(problem) = check_object(storage, &object) {
                found.add_problem(format!(
                    "{slug}: the log of attempt {} of {} in {}: {problem}",
                    log.attempt, log.step, log.deployment
                ));
            }
        }
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
    }
    verify_complete(db, org, slug, found)?;
    let mut after = None::<String>;
    loop {
        let page =
            db.read(Some(org), |db| Ok::<_, UpkeepError>(artifact_object::list_page(db, after.as_deref())?))?;
        for it in &page {
            if let Err(problem) = check_object(storage, &StoredObject::new(&it.object, &it.sha256, it.bytes))
            {
                found.add_problem(format!("{slug}: artifact {}: {problem}", it.digest));
            }
        }
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.digest.clone());
    }
}

/// Checks that the parts of every finished log follow each other without a gap.
fn verify_complete(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
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
            let log = StoredLogKey { deployment, step, attempt, is_after_fence: false };
            let parts = db.read(Some(org), |db| {
                Ok::<_, UpkeepError>(log_object::list_after(db, &log, -1, log_object::LOG_OBJECTS_MAX)?)
            })?;
            let mut end = 0;
            let is_gapless = parts.iter().all(|part| std::mem::replace(&mut end, part.end) == part.start);
            if parts.is_empty() || !is_gapless {
                let what = if parts.is_empty() { "it is not there" } else { "a part of it is missing" };
                found.add_problem(format!(
                    "{slug}: the log of attempt {attempt} of {step} in {deployment}: {what}"
                ));
            }
        }
    }
}

/// Checks that an artifact is in object storage. Its object was verified before.
pub(super) fn check_artifact(
    db: &mut ReadOnly,
    org: OrgId,
    digest: &str,
) -> Result<Result<(), String>, UpkeepError> {
    let known = db.read(Some(org), |db| Ok::<_, UpkeepError>(artifact_object::find(db, digest)?))?;
    Ok(known.map(drop).ok_or_else(|| "it is not in object storage".to_owned()))
}

fn check_object(storage: &ObjectStorage, object: &StoredObject) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let copy = tempfile::tempfile().map_err(failed)?;
    storage.get_file(object, &copy).map_err(|error| error.to_string())
}
