//! A script that is prepared before it is granted for good.

use std::path::PathBuf;

use berth_api::runner::{Outcome, SecretText};

use crate::fixture::{Fixture, eventually, script, succeeded};

/// A file that a step writes, and the shells that have it in their text.
struct Effect(PathBuf);

impl Effect {
    fn of(fixture: &Fixture) -> Self {
        Self(fixture.dir.path().join("effect"))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }

    /// The state of each such shell, as `/proc` has it.
    fn shells(&self) -> Vec<char> {
        let wanted = self.0.to_string_lossy().into_owned();
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        let of = |entry: std::fs::DirEntry| {
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let state = stat.rsplit_once(") ")?.1.chars().next()?;
            String::from_utf8_lossy(&line).contains(&wanted).then_some(state)
        };
        entries.filter_map(of).collect()
    }

    fn wait_for_shell(&self) {
        eventually("its shell waits", || self.shells() == ['S']);
    }

    fn wait_for_no_shell(&self) {
        eventually("its shell is gone", || self.shells().is_empty());
    }
}

#[test]
fn nothing_of_it_runs_before_it_is_granted() {
    let fixture = Fixture::new();
    let effect = Effect::of(&fixture);
    let run = format!("echo done >> {}; cat; echo end", effect.0.display());
    fixture.link.tell_ahead(None);
    fixture.link.hold_answers(true);
    fixture.link.give_chain("a", vec![script("b", &run)]);
    succeeded(&fixture.run(script("a", "true")));
    fixture.link.wait_for_told_ahead(1);
    effect.wait_for_shell();
    assert_eq!(effect.text(), "");
    fixture.link.hold_answers(false);
    succeeded(&fixture.link.report_of("b").outcome);
    assert_eq!((effect.text().as_str(), fixture.link.text_of("b").as_str()), ("done\n", "end\n"));
}

#[test]
fn what_is_never_granted_never_runs() {
    let fixture = Fixture::new();
    let effect = Effect::of(&fixture);
    fixture.link.tell_ahead(Some(script("ghost", &format!("echo done >> {}", effect.0.display()))));
    fixture.link.hold_answers(true);
    succeeded(&fixture.run(script("a", "true")));
    fixture.link.wait_for_told_ahead(1);
    effect.wait_for_shell();
    fixture.link.hold_answers(false);
    effect.wait_for_no_shell();
    assert_eq!(effect.text(), "");
}

#[test]
fn another_step_than_the_one_that_was_told_begins_as_if_nothing_had_been() {
    let fixture = Fixture::new();
    let effect = Effect::of(&fixture);
    let ghost = script("ghost", &format!("echo ghost >> {}", effect.0.display()));
    fixture.link.tell_ahead(Some(ghost));
    fixture.link.give_chain("a", vec![script("b", &format!("echo b >> {}", effect.0.display()))]);
    succeeded(&fixture.run(script("a", "true")));
    succeeded(&fixture.link.report_of("b").outcome);
    effect.wait_for_no_shell();
    assert_eq!(effect.text(), "b\n");
}

#[test]
fn who_knows_a_secret_is_not_prepared() {
    let fixture = Fixture::new();
    let effect = Effect::of(&fixture);
    let mut knows = script("b", &format!("echo $TOKEN; echo b >> {}", effect.0.display()));
    knows.env.insert("TOKEN".into(), "hunter22".into());
    knows.masked = vec![SecretText::new("hunter22".into())];
    fixture.link.tell_ahead(None);
    fixture.link.hold_answers(true);
    fixture.link.give_chain("a", vec![knows]);
    succeeded(&fixture.run(script("a", "true")));
    fixture.link.wait_for_told_ahead(1);
    assert_eq!(effect.shells(), Vec::<char>::new());
    fixture.link.hold_answers(false);
    succeeded(&fixture.link.report_of("b").outcome);
    assert_eq!((effect.text().as_str(), fixture.link.text_of("b").as_str()), ("b\n", "***\n"));
}

#[test]
fn a_shell_that_is_ended_while_it_waits_has_never_started() {
    let fixture = Fixture::new();
    let effect = Effect::of(&fixture);
    fixture.link.tell_ahead(None);
    fixture.link.hold_answers(true);
    fixture.link.give_chain("a", vec![script("b", &format!("echo b >> {}", effect.0.display()))]);
    succeeded(&fixture.run(script("a", "true")));
    fixture.link.wait_for_told_ahead(1);
    effect.wait_for_shell();
    let killed =
        std::process::Command::new("pkill").args(["-KILL", "-f", &effect.0.to_string_lossy()]).status();
    assert!(killed.expect("pkill").success());
    eventually("it has ended", || effect.shells().iter().all(|state| *state == 'Z'));
    fixture.link.hold_answers(false);
    let outcome = fixture.link.report_of("b").outcome;
    assert!(
        matches!(&outcome, Outcome::NeverStarted { detail, .. } if detail.contains("let go")),
        "{outcome:?}"
    );
    assert_eq!(effect.text(), "");
}

#[test]
fn an_answer_that_got_lost_runs_nothing_twice() {
    let fixture = Fixture::new();
    let effect = Effect::of(&fixture);
    fixture.link.tell_ahead(None);
    fixture.link.lose_reports(2);
    fixture.link.give_chain("a", vec![script("b", &format!("echo done >> {}", effect.0.display()))]);
    succeeded(&fixture.run(script("a", "true")));
    succeeded(&fixture.link.report_of("b").outcome);
    fixture.link.wait_for_told_ahead(3);
    effect.wait_for_no_shell();
    assert_eq!(effect.text(), "done\n");
}

#[test]
fn what_cannot_begin_says_why() {
    let fixture = Fixture::new();
    fixture.link.tell_ahead(None);
    let mut reserved = script("b", "true");
    reserved.env.insert("PATH".into(), "/".into());
    let mut with_source = script("c", "cat README");
    with_source.has_source = true;
    fixture.link.give_chain("a", vec![reserved, with_source]);
    succeeded(&fixture.run(script("a", "true")));
    let outcome = fixture.link.report_of("b").outcome;
    assert!(crate::fixture::failed(&outcome).1.contains("reserved"), "{outcome:?}");
    succeeded(&fixture.link.report_of("c").outcome);
    assert_eq!(fixture.link.text_of("c"), "checked out\n");
}
