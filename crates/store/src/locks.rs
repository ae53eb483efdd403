//! The locks of environments that the one connection that writes remembers.
//!
//! Who claims and releases finds an environment as the same connection has read or written it last; to look again would only
//! say the same. What is remembered follows what is put, and whatever else writes to a table that a lock is read from makes all
//! of it forgotten. In debug builds, every lock that is found here is compared with the database.

use std::collections::HashMap;

use berth_core::environment::{Environment, Lock, Session};
use berth_core::id::{EnvironmentId, OrgId};
use berth_core::name::EnvName;
use berth_core::pipeline::model::OnRelease;

use crate::sql::{self, Statement};

/// Environments that are remembered; one more, and it begins anew.
const REMEMBERED_MAX: usize = 1_024;

/// What a lock is read from.
const TABLES: [&str; 5] = ["deployments", "environments", "pipelines", "sessions", "tickets"];

/// Whoever runs these tells what was put.
const TOLD: [&str; 3] = [
    "berth_store::records::environment::UPDATE",
    "berth_store::records::session::END",
    "berth_store::records::session::PUT",
];

pub(crate) fn are_changed_by(statement: &Statement) -> bool {
    !TOLD.contains(&statement.name) && TABLES.iter().any(|table| sql::changes(statement.text, table))
}

#[derive(Debug, Default)]
pub struct Locks {
    found: HashMap<String, EnvironmentId>,
    locks: HashMap<EnvironmentId, Lock>,
}

/// By what it was looked for. None of the three can hold a line break.
fn key(org: OrgId, pipeline: &str, name: &EnvName) -> String {
    format!("{org}\n{pipeline}\n{name}")
}

impl Locks {
    pub(crate) fn find(&self, org: OrgId, pipeline: &str, name: &EnvName) -> Option<&Lock> {
        self.locks.get(self.found.get(&key(org, pipeline, name))?)
    }

    /// Only one that is all in its environment and its session: what comes and goes around others is written in many ways.
    pub(crate) fn remember(&mut self, org: OrgId, pipeline: &str, lock: &Lock) {
        let environment = &lock.environment;
        if !is_simple(environment) {
            return;
        }
        if self.found.len() == REMEMBERED_MAX {
            self.forget();
        }
        self.found.insert(key(org, pipeline, &environment.name), environment.id);
        self.locks.insert(environment.id, lock.clone());
    }

    pub(crate) fn put_environment(&mut self, it: &Environment) {
        if let Some(lock) = self.locks.get_mut(&it.id).filter(|_| is_simple(it)) {
            lock.environment.clone_from(it);
            lock.session = lock.session.take().filter(|_| it.agenda.holder.is_some());
        } else {
            self.locks.remove(&it.id);
        }
    }

    pub(crate) fn put_session(&mut self, it: &Session) {
        let Some(lock) = self.locks.get_mut(&it.environment) else { return };
        if it.end.is_none() {
            lock.session = Some(it.clone());
        } else if lock.session.as_ref().is_some_and(|known| known.id == it.id) {
            lock.session = None;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.found.clear();
        self.locks.clear();
    }
}

fn is_simple(it: &Environment) -> bool {
    it.agenda.waiting == 0 && it.agenda.unfinished == 0 && it.configuration.on_release == OnRelease::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_lock_unseen_is_noticed() {
        let names: Vec<_> = sql::all().filter(|it| are_changed_by(it)).map(|it| it.name).collect();
        expect_test::expect![[r#"
            [
                "berth_store::records::deployment::PUT",
                "berth_store::records::deployment::RESOLVED",
                "berth_store::records::environment::INSERT",
                "berth_store::records::environment::REDEFINE",
                "berth_store::records::environment::HASTEN_OF_USER",
                "berth_store::records::environment::RESCHEDULE",
                "berth_store::records::instance::PUT_OFF_SESSIONS",
                "berth_store::records::instance::PUT_OFF_TICKETS",
                "berth_store::records::instance::PUT_OFF_ENVIRONMENTS",
                "berth_store::records::pipeline::PUT",
                "berth_store::records::pipeline::DECLARED",
                "berth_store::records::pipeline::MOVE_HEAD",
                "berth_store::records::retention::NOTE_LOGS",
                "berth_store::records::retention::NOTE_ARTIFACTS",
                "berth_store::records::rollout::PUT",
                "berth_store::records::rollout::COUNTED",
                "berth_store::records::stage::ADOPTED",
                "berth_store::records::ticket::PUT",
            ]
        "#]]
        .assert_debug_eq(&names);
        let told = sql::all().filter(|it| TOLD.contains(&it.name));
        assert_eq!(told.count(), TOLD.len());
    }
}
