//! Switches mutations on and off. `cargo xtask mutants` adds this file to the scratch copy of `berth-core`.

use std::cell::Cell;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

thread_local! {
    static ACTIVE: Cell<&'static str> = const { Cell::new("") };
}

/// Returns whether this mutation is switched on in the current thread.
pub fn is_active(name: &str) -> bool {
    ACTIVE.get() == name
}

/// Runs `work` with a mutation switched on, in this thread only.
pub fn with_mutation<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            ACTIVE.set("");
        }
    }
    let _reset = Reset;
    ACTIVE.set(name);
    work()
}

/// For each mutation selected for the suite, finds the first seed for which `check` reports a violation. Without the
/// mutation, the same seed must pass. Writes one line per caught mutation: its name, the seed, and the first line of
/// the violation.
pub fn run_suite(suite: &str, seeds: Range<u64>, mut check: impl FnMut(u64) -> Option<String>) {
    let dir = std::env::var_os("BERTH_MUTANTS").expect("run this test with `cargo xtask mutants`");
    let dir = PathBuf::from(dir);
    let selected = fs::read_to_string(dir.join(format!("{suite}.selected"))).expect("the selected mutations");
    let mut caught = String::new();
    for name in selected.leak().lines() {
        let found = with_mutation(name, || seeds.clone().find_map(|seed| Some((seed, check(seed)?))));
        let Some((seed, violation)) = found else { continue };
        if let Some(violation) = check(seed) {
            panic!("seed {seed} fails without the mutation \"{name}\" as well: {violation}");
        }
        let line = violation.lines().next().unwrap_or_default();
        caught.push_str(&format!("{name}\t{seed}\t{line}\n"));
    }
    fs::write(dir.join(format!("{suite}.caught")), caught).expect("the results");
}
