//! Validation of commit ids in requests. An ambiguous abbreviation is rejected before the database is modified.

use berth_api::problem::{Code, ProblemDetails};
use berth_core::id::OrgId;
use berth_core::name::CommitId;
use berth_engine::git::{ResolvedCommit, ambiguous_message, is_abbreviation, is_whole_hash};
use berth_store::tables::pipeline;

use super::App;
use crate::error::{AppError, input_error};

impl App {
    /// Returns an error if `commit` is an ambiguous abbreviation in the mirror of the pipeline's repository. The commit
    /// is resolved again when the deployment starts, because the repository may have changed by then.
    pub(super) async fn check_commit_ambiguity(
        &self,
        org: OrgId,
        pipeline: &str,
        commit: Option<&CommitId>,
        pointer: &'static str,
    ) -> Result<Option<AppError>, AppError> {
        let is_short = |it: &&CommitId| is_abbreviation(it.as_str()) && !is_whole_hash(it.as_str());
        let Some(commit) = commit.filter(is_short).cloned() else { return Ok(None) };
        let key = pipeline.to_owned();
        let read =
            self.services.store.read(Some(org), move |db| Ok::<_, AppError>(pipeline::find(db, &key)?));
        let Some(origin) = read.await?.and_then(|found| found.origin) else { return Ok(None) };
        let (mirror, meant) = (self.services.git.mirror(org, origin.repository), commit.clone());
        let found = self.services.git.run(org, move || mirror.resolve(&meant)).await?;
        let Ok(ResolvedCommit::Several(commits)) = found else { return Ok(None) };
        let detail = ambiguous_message(&commit, &commits);
        let candidates: Vec<_> = commits.iter().map(ToString::to_string).collect();
        let error = input_error(pointer, detail.clone());
        let problem = ProblemDetails::new(Code::CommitAmbiguous, detail).with_errors(vec![error]);
        Ok(Some(problem.with_member("candidates", candidates).into()))
    }
}
