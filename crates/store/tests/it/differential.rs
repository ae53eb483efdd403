//! Differential test: runs random commands on the in-memory model and on a database. Answers, events and records must
//! be equal. The database side uses the ids and times of the model, so that both sides are equal byte for byte.

mod backend;
mod beside;
mod dump;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use berth_sim::locks::{
    EnvironmentIndex, LockAnswer, LockCommand, LockModel, LockRequest, LockStep, WorldChange, sequence,
};
use berth_store::StoreError;
use berth_testkit::outcome;

use self::backend::{Asked, Database, Looked, Run};
use self::dump::{as_loaded, as_recorded, same};

/// Number of concurrent runs. They share commits.
const AT_ONCE: usize = 16;
/// The seed of a run that writes every kind of row.
const SEED_OF_A_LONG_RUN: u64 = 119;

#[test]
fn store_matches_the_model() {
    let database = Database::new();
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
                    if let Err(difference) = compare(&database, number, seed) {
                        wrong.lock().unwrap().push(difference);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {sequences} differ. {}", wrong.len(), wrong.join("\n\n"));
    outcome::covered_seeds(&format!("lock sequences on {name} and on the model"), &(0..sequences));
}

#[test]
fn store_differs_from_the_model_after_a_changed_row() {
    let database = Database::new();
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
        let pair = perform(&database, number, SEED_OF_A_LONG_RUN).unwrap();
        pair.compare_dumps().unwrap();
        database.beside.lock().unwrap().change(&[(change, &[])]);
        assert!(pair.compare_dumps().is_err(), "not found: {change}");
    }
}

fn compare(database: &Database, number: u32, seed: u64) -> Result<(), String> {
    let pair = perform(database, number, seed)?;
    pair.compare_dumps().map_err(|told| format!("seed {seed}, at the end: {told}"))
}

/// Runs the commands generated from a seed on both sides. `number` is unique within the database.
fn perform(database: &Database, number: u32, seed: u64) -> Result<Pair<'_>, String> {
    let model = LockModel::of_run(number);
    let run = Run::begin(database, number, &model.world);
    run.mirror(&model.around);
    let mut pair = Pair { model, run, database };
    for (index, command) in sequence(seed).iter().enumerate() {
        pair.perform(command).map_err(|told| format!("seed {seed}, {index}. {command}: {told}"))?;
    }
    Ok(pair)
}

struct Pair<'d> {
    model: LockModel,
    run: Run<'d>,
    database: &'d Database,
}

impl Pair<'_> {
    fn compare_dumps(&self) -> Result<(), String> {
        dump::compare(&self.model, &self.run, &mut self.database.beside.lock().unwrap())
    }

    fn perform(&mut self, command: &LockCommand) -> Result<(), String> {
        match command {
            LockCommand::Turn(turn) => self.turn(*turn),
            LockCommand::Ask { place, ask } => self.ask(*place, ask),
            LockCommand::Race { place, first, second } => {
                let looked = [self.look(*place, first)?, self.look(*place, second)?];
                for (step, looked) in looked.into_iter().flatten() {
                    let ask = step.ask.clone();
                    if self.commit(step, looked)?.is_outdated {
                        self.ask(*place, &ask)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn turn(&mut self, turn: WorldChange) -> Result<(), String> {
        self.model.turn(turn);
        let is_in_rows = matches!(
            turn,
            WorldChange::RevokePerson(_)
                | WorldChange::RevokeToken(_)
                | WorldChange::Stop
                | WorldChange::Resume
                | WorldChange::Track(_)
        );
        if is_in_rows {
            self.run.mirror(&self.model.around);
        }
        Ok(())
    }

    /// Reads, decides and writes in one transaction.
    fn ask(&mut self, place: EnvironmentIndex, ask: &LockRequest) -> Result<(), String> {
        let asked = self.asked(place, ask);
        let step = self.model.load_and_decide(place, ask);
        let looked = self.run.perform(asked).map_err(|error| format!("the store fails: {error}"))?;
        compare_looks(step.as_ref(), &looked)?;
        if let Some(step) = step {
            let step = self.model.commit_unwatched(step);
            same("outdated", &step.is_outdated, &false)?;
            self.follow(&step);
        }
        Ok(())
    }

    fn look(
        &mut self,
        place: EnvironmentIndex,
        ask: &LockRequest,
    ) -> Result<Option<(LockStep, Looked)>, String> {
        let asked = self.asked(place, ask);
        let step = self.model.load_and_decide(place, ask);
        let looked = self.run.look(asked).map_err(|error| format!("the store fails: {error}"))?;
        compare_looks(step.as_ref(), &looked)?;
        Ok(step.map(|step| (step, looked)))
    }

    /// Writes an earlier decision on both sides. If the decision is outdated, the store must write nothing.
    fn commit(&mut self, step: LockStep, looked: Looked) -> Result<LockStep, String> {
        let rows = |pair: &Self| dump::rows(&mut pair.database.beside.lock().unwrap(), pair.run.org);
        let step = self.model.commit_unwatched(step);
        let before = step.is_outdated.then(|| rows(self));
        let is_outdated = match self.run.commit(looked) {
            Ok(()) => false,
            Err(StoreError::Bug(text)) if text.contains("changed 0 rows") => true,
            Err(error) => return Err(format!("the store fails: {error}")),
        };
        same("outdated", &step.is_outdated, &is_outdated)?;
        if let Some(before) = before {
            same("rows after what was not written", &before, &rows(self))?;
        }
        self.follow(&step);
        Ok(step)
    }

    /// Gives a recreated pipeline the status and the tracked commit that the other pipelines have.
    fn follow(&self, step: &LockStep) {
        if step.ask == LockRequest::Recreate && !step.is_outdated {
            self.run.mirror(&self.model.around);
        }
    }

    /// Prepares a command for the database, with the time and random bytes that the model will use.
    fn asked(&self, place: EnvironmentIndex, ask: &LockRequest) -> Asked {
        let around = self.model.around.clone();
        let moment = around.clone().moment();
        Asked { place, ask: ask.clone(), around, moment }
    }
}

fn compare_looks(step: Option<&LockStep>, looked: &Looked) -> Result<(), String> {
    let (Some(step), Some(decision)) = (step, &looked.decision) else {
        return same("whether there is an answer", &step.is_some(), &looked.decision.is_some());
    };
    same("locks", &step.before.clone().map(as_loaded), &looked.before)?;
    same("answers", &answer(&step.decision.answer), &answer(&decision.answer))?;
    same("events", &step.decision.events, &decision.events)?;
    same("effects", &step.decision.effects, &decision.effects)
}

fn answer(given: &LockAnswer) -> LockAnswer {
    match given {
        LockAnswer::Ticket(ticket) => LockAnswer::Ticket(Box::new(as_recorded(ticket.as_ref().clone()))),
        other => other.clone(),
    }
}
