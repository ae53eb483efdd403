//! An attempt of this process: what it executes, and whether it has been told to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use berth_core::deployment::Deployment;
use berth_core::id::{DeploymentId, EnvironmentId, OrgId};
use berth_core::name::EnvName;
use tokio_util::sync::CancellationToken;

pub(super) struct Attempt {
    pub(super) org: OrgId,
    pub(super) environment: EnvironmentId,
    pub(super) deployment: DeploymentId,
    pub(super) nonce: String,
    /// The environment's name in the definition.
    pub(super) stage: EnvName,
    pub(super) definition_hash: String,
    /// Ends with the server, too.
    pub(super) stop: CancellationToken,
    is_cancelled: AtomicBool,
}

impl Attempt {
    pub(super) fn new(org: OrgId, granted: Deployment, nonce: String, server: &CancellationToken) -> Self {
        Self {
            org,
            environment: granted.environment,
            deployment: granted.id,
            nonce,
            stage: granted.stage,
            definition_hash: granted.definition_hash,
            stop: server.child_token(),
            is_cancelled: AtomicBool::new(false),
        }
    }

    /// Somebody wants it to stop. Says whether that is news.
    pub(super) fn cancel(&self) -> bool {
        let is_news = !self.is_cancelled.swap(true, Ordering::SeqCst);
        self.stop.cancel();
        is_news
    }

    /// Otherwise it stops because the server does, or because the attempt is over.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }
}
