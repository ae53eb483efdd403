//! Only bubblewrap is a boundary between organizations: at a weaker level, what runs on a machine is of one.

use berth_api::runner::Isolation;
use berth_store::query::everywhere;

use super::App;
use crate::error::AppError;

/// Why steps and builds of several organizations cannot be run at this level, if so.
pub fn check_organizations(isolation: Option<Isolation>, organizations: usize) -> Result<(), String> {
    match isolation {
        Some(level @ (Isolation::Process | Isolation::Landlock)) if organizations > 1 => Err(format!(
            "there are {organizations} organizations, and the sandbox level {} is no boundary between them: install \
             bubblewrap, or leave --sandbox away, so that nothing runs on this machine, and give each organization \
             runners of its own",
            super::wire::isolation(level)
        )),
        Some(_) | None => Ok(()),
    }
}

impl App {
    pub(crate) async fn check_alone(&self) -> Result<Result<(), String>, AppError> {
        if !self.may_be_joined() {
            return Ok(Ok(()));
        }
        let all = self.store.read(None, |db| Ok::<_, AppError>(everywhere::organizations(db, None)?.len()));
        Ok(check_organizations(self.config.isolation, all.await?))
    }

    pub(crate) fn check_alone_blocking(&self) -> Result<Result<(), String>, AppError> {
        if !self.may_be_joined() {
            return Ok(Ok(()));
        }
        let all = self
            .store
            .read_blocking(None, |db| Ok::<_, AppError>(everywhere::organizations(db, None)?.len()));
        Ok(check_organizations(self.config.isolation, all?))
    }

    /// Whether another server may add an organization while this one runs, and that matters.
    fn may_be_joined(&self) -> bool {
        self.store.is_shared() && self.config.isolation != Some(Isolation::Bubblewrap)
    }
}
