//! A deployment target outside of the system. It tracks which deployments access it, and compares fences.

use std::collections::BTreeMap;

use berth_core::deployment::{DeploymentPurpose, DeploymentState, EnvironmentDeployment};
use berth_core::environment::Lock;
use berth_core::environment::fence::Fence;
use berth_core::id::DeploymentId;

use crate::locks::LockViolation;

#[derive(Debug, Default)]
pub(super) struct FencedTarget {
    highest: Fence,
    /// The purpose of the deployment with the highest fence.
    latest: Option<DeploymentPurpose>,
    /// Deployments that access the target, each with its runner and whether it overrides the drain (does not wait for
    /// earlier work to stop).
    active: BTreeMap<(DeploymentId, u16), bool>,
    /// The runner that first executed each deployment.
    first_runners: BTreeMap<DeploymentId, u16>,
}

impl FencedTarget {
    /// Returns whether the target accepts the access. Fails if the access violates a rule.
    pub(super) fn access(
        &mut self,
        lock: &Lock,
        deployment: &EnvironmentDeployment,
        runner: u16,
    ) -> Result<bool, LockViolation> {
        let broken = |rule, what: &str| {
            let what =
                format!("deployment {} at fence {} {what}", deployment.number, deployment.target.fence);
            Err(LockViolation { rule, what })
        };
        if deployment.status.is_final() {
            return broken("L12", "touches the environment after it counts as stopped");
        }
        if *self.first_runners.entry(deployment.id).or_insert(runner) != runner {
            return broken("E2", "is executed by a second runner");
        }
        self.active.insert((deployment.id, runner), deployment.target.overrides_drain.is_some());
        let patient = self.active.values().filter(|has_overridden| !**has_overridden).count();
        if patient > 1 {
            return broken("L22", "is not alone in the environment");
        }
        let is_accepted = deployment.target.fence >= self.highest;
        let counts = matches!(deployment.status, DeploymentState::Running) && lock.is_current(deployment);
        if counts && !is_accepted {
            return broken("L2", "is current work, and the target has seen a higher fence");
        }
        if is_accepted {
            self.highest = deployment.target.fence;
            self.latest = Some(deployment.target.purpose);
        }
        Ok(is_accepted)
    }

    /// Handles an access by a process that outlived its runner. The access must be rejected if work of a later holder
    /// has already accessed the target.
    pub(super) fn access_by_orphan(&self, deployment: &EnvironmentDeployment) -> Result<bool, LockViolation> {
        let is_accepted = deployment.target.fence >= self.highest;
        let is_latest = self.latest.is_none_or(|latest| latest == deployment.target.purpose);
        if is_accepted && !is_latest {
            let what =
                format!("old work of fence {} got in after the next holder's", deployment.target.fence);
            return Err(LockViolation { rule: "L2", what });
        }
        Ok(is_accepted)
    }

    pub(super) fn end_access(&mut self, id: DeploymentId, runner: u16) {
        self.active.remove(&(id, runner));
    }
}
