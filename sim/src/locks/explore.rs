//! Every sequence of a small alphabet, breadth first; states that look the same are visited once.

use std::collections::BTreeSet;

use super::check::Checker;
use super::command::Command;
use super::model::{Failed, Model, trace};

/// How much was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explored {
    pub states: usize,
    pub steps: usize,
}

/// Follows `alphabet` to `depth`.
pub fn explore(alphabet: &[Command], depth: usize) -> Result<Explored, Box<Failed>> {
    let mut seen = BTreeSet::new();
    let mut frontier = vec![(Model::default(), Checker::default(), Vec::<Command>::new())];
    let mut explored = Explored { states: 1, steps: 0 };
    for _ in 0..depth {
        let mut next = Vec::new();
        for (model, checker, path) in &frontier {
            for command in alphabet {
                let (mut model, mut checker) = (model.clone(), checker.clone());
                let mut path = path.clone();
                path.push(command.clone());
                explored.steps += 1;
                if let Err(violation) = model.perform(command, &mut checker) {
                    return Err(Box::new(Failed { violation, trace: trace(&path) }));
                }
                if seen.insert(model.canonical()) {
                    next.push((model, checker, path));
                }
            }
        }
        explored.states += next.len();
        frontier = next;
    }
    Ok(explored)
}
