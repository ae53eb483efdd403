//! Differential test: runs random commands on the in-memory model and on a database. Answers, events and records must
//! be equal. The database side uses the ids and times of the model, so that both sides are equal byte for byte.

mod backend;
mod dump;
mod raw_connection;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use berth_sim::locks::{
    EnvironmentIndex, LockAnswer, LockCommand, LockModel, LockRequest, LockStep, WorldChange, check, sequence,
};
use berth_store::StoreError;
use berth_testkit::outcome;

use self::backend::{DatabaseRun, LoadedDecision, PreparedRequest, SharedDatabase};
use self::dump::{check_equal, normalize_lock, normalize_ticket};

/// Number of concurrent runs. They share commits.
const AT_ONCE: usize = 16;
/// Seeds with this remainder have the longest sequences.
const LONGEST: usize = 59;

#[test]
fn store_matches_the_model() {
    let database = SharedDatabase::new();
    let (next, wrong) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    // Fewer runs on PostgreSQL, where every statement is a round trip.
    let (name, sequences) = if database.is_postgres() {
        ("PostgreSQL", outcome::short_or_long(100, 300))
    } else {
        ("SQLite", outcome::short_or_long(200, 1_000))
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let seed = u64::from(number);
                    if seed >= sequences {
                        break;
                    }
                    if let Err(difference) = run_and_compare(&database, number, seed) {
                        wrong.lock().unwrap().push(difference);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {sequences} differ. {}", wrong.len(), wrong.join("\n\n"));
    outcome::report_seed_coverage(&format!("lock sequences on {name} and on the model"), &(0..sequences));
}

#[test]
fn store_differs_from_the_model_after_a_changed_row() {
    let database = SharedDatabase::new();
    let seed = find_rich_seed();
    let changes = [
        "UPDATE environments SET fence = fence + 1",
        "UPDATE environments SET due_at = 1",
        "UPDATE sessions SET active_at = active_at + 1",
        "UPDATE sessions SET successor_id = NULL",
        "UPDATE tickets SET deploy = 1 - deploy",
        "DELETE FROM tickets",
        "UPDATE deployments SET commit_id = 'other'",
        "UPDATE deployments SET finished_at = finished_at + 1",
        "UPDATE pipelines SET deleted_at = 1",
        "DELETE FROM events WHERE sequence = 9",
        "UPDATE events SET subjects = '[]' WHERE sequence = 9",
    ];
    for (number, change) in (0..).zip(changes) {
        let pair = run_commands(&database, number, seed).unwrap();
        pair.compare_dumps().unwrap();
        database.raw_connection.lock().unwrap().execute_all(&[(change, &[])]);
        assert!(pair.compare_dumps().is_err(), "not found: {change}");
    }
}

/// Finds the seed of a run that writes every kind of row.
fn find_rich_seed() -> u64 {
    let writes_every_kind = |seed: &u64| {
        let Ok(model) = check(&sequence(*seed)) else { return false };
        let store = &model.store;
        let mut ends = store.sessions.values().filter_map(|session| session.end.as_ref());
        ends.any(|end| end.successor.is_some())
            && !store.tickets.is_empty()
            && store.deployments.values().any(|deployment| deployment.finished_at.is_some())
            && store.events.len() > 12
    };
    let mut longest = (0..).skip(LONGEST).step_by(LONGEST + 1);
    longest.find(writes_every_kind).expect("such a run")
}

fn run_and_compare(database: &SharedDatabase, number: u32, seed: u64) -> Result<(), String> {
    let pair = run_commands(database, number, seed)?;
    pair.compare_dumps().map_err(|told| format!("seed {seed}, at the end: {told}"))
}

/// Runs the commands generated from a seed on both sides. `number` is unique within the database.
fn run_commands(database: &SharedDatabase, number: u32, seed: u64) -> Result<ComparedRun<'_>, String> {
    let model = LockModel::for_run(number);
    let run = DatabaseRun::begin(database, number, &model.store);
    run.write_surroundings(&model.surroundings);
    let mut pair = ComparedRun { model, run, database };
    for (index, command) in sequence(seed).iter().enumerate() {
        pair.perform(command).map_err(|told| format!("seed {seed}, {index}. {command}: {told}"))?;
    }
    Ok(pair)
}

struct ComparedRun<'d> {
    model: LockModel,
    run: DatabaseRun<'d>,
    database: &'d SharedDatabase,
}

impl ComparedRun<'_> {
    fn compare_dumps(&self) -> Result<(), String> {
        dump::compare_dumps(&self.model, &self.run, &mut self.database.raw_connection.lock().unwrap())
    }

    fn perform(&mut self, command: &LockCommand) -> Result<(), String> {
        match command {
            LockCommand::Change(turn) => self.change_world(*turn),
            LockCommand::Request { place, request } => self.send_request(*place, request),
            LockCommand::Race { place, first, second } => {
                let looked = [self.load_and_decide(*place, first)?, self.load_and_decide(*place, second)?];
                for (step, looked) in looked.into_iter().flatten() {
                    let request = step.request.clone();
                    if self.commit(step, looked)?.is_outdated {
                        self.send_request(*place, &request)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn change_world(&mut self, turn: WorldChange) -> Result<(), String> {
        self.model.apply_change(turn);
        let is_in_rows = matches!(
            turn,
            WorldChange::RevokePerson(_)
                | WorldChange::RevokeToken(_)
                | WorldChange::Stop
                | WorldChange::Resume
                | WorldChange::Track(_)
        );
        if is_in_rows {
            self.run.write_surroundings(&self.model.surroundings);
        }
        Ok(())
    }

    /// Reads, decides and writes in one transaction.
    fn send_request(&mut self, place: EnvironmentIndex, request: &LockRequest) -> Result<(), String> {
        let asked = self.prepare_request(place, request);
        let step = self.model.load_and_decide(place, request);
        let looked = self.run.perform(asked).map_err(|error| format!("the store fails: {error}"))?;
        compare_decisions(step.as_ref(), &looked)?;
        if let Some(step) = step {
            let step = self.model.commit_unchecked(step);
            check_equal("outdated", &step.is_outdated, &false)?;
            self.mirror_after_recreate(&step);
        }
        Ok(())
    }

    fn load_and_decide(
        &mut self,
        place: EnvironmentIndex,
        request: &LockRequest,
    ) -> Result<Option<(LockStep, LoadedDecision)>, String> {
        let asked = self.prepare_request(place, request);
        let step = self.model.load_and_decide(place, request);
        let looked = self.run.load_and_decide(asked).map_err(|error| format!("the store fails: {error}"))?;
        compare_decisions(step.as_ref(), &looked)?;
        Ok(step.map(|step| (step, looked)))
    }

    /// Writes an earlier decision on both sides. If the decision is outdated, the store must write nothing.
    fn commit(&mut self, step: LockStep, looked: LoadedDecision) -> Result<LockStep, String> {
        let rows = |pair: &Self| {
            dump::dump_all_tables(&mut pair.database.raw_connection.lock().unwrap(), pair.run.org)
        };
        let step = self.model.commit_unchecked(step);
        let before = step.is_outdated.then(|| rows(self));
        let is_outdated = match self.run.commit(looked) {
            Ok(()) => false,
            Err(StoreError::Bug(text)) if text.contains("changed 0 rows") => true,
            Err(error) => return Err(format!("the store fails: {error}")),
        };
        check_equal("outdated", &step.is_outdated, &is_outdated)?;
        if let Some(before) = before {
            check_equal("rows after what was not written", &before, &rows(self))?;
        }
        self.mirror_after_recreate(&step);
        Ok(step)
    }

    /// Gives a recreated pipeline the status and the tracked commit that the other pipelines have.
    fn mirror_after_recreate(&self, step: &LockStep) {
        if step.request == LockRequest::Recreate && !step.is_outdated {
            self.run.write_surroundings(&self.model.surroundings);
        }
    }

    /// Prepares a command for the database, with the time and random bytes that the model will use.
    fn prepare_request(&self, place: EnvironmentIndex, request: &LockRequest) -> PreparedRequest {
        let surroundings = self.model.surroundings.clone();
        let moment = surroundings.clone().decision_context();
        PreparedRequest { place, request: request.clone(), surroundings, moment }
    }
}

fn compare_decisions(step: Option<&LockStep>, looked: &LoadedDecision) -> Result<(), String> {
    let (Some(step), Some(decision)) = (step, &looked.decision) else {
        return check_equal("whether there is an answer", &step.is_some(), &looked.decision.is_some());
    };
    check_equal("locks", &step.before.clone().map(normalize_lock), &looked.before)?;
    check_equal("answers", &normalize_answer(&step.decision.answer), &normalize_answer(&decision.answer))?;
    check_equal("events", &step.decision.events, &decision.events)?;
    check_equal("effects", &step.decision.effects, &decision.effects)
}

fn normalize_answer(given: &LockAnswer) -> LockAnswer {
    match given {
        LockAnswer::Ticket(ticket) => LockAnswer::Ticket(Box::new(normalize_ticket(ticket.as_ref().clone()))),
        other => other.clone(),
    }
}
