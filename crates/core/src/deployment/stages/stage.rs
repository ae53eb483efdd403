//! The state of a stage across deployments: the current deployment, earlier deployments, and whether promotion is
//! paused.
//!
//! A rollback pauses promotion into the stage, so that the next push does not deploy the faulty change again. Resuming
//! the pipeline ends the pause.

use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RuleDecision};
use crate::event::{Actor, EventKind, EventSubject, NewEvent};
use crate::id::{DeploymentId, PipelineId};
use crate::name::Reason;
use crate::time::Timestamp;

/// Number of earlier executions of the stage that are searched for a rollback target.
pub const PAST_MAX: i64 = 500;

#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    pub pipeline: PipelineId,
    pub name: String,
    /// Increases by one with every change.
    pub version: i64,
    /// The last deployment that succeeded in the stage, and when.
    pub current: Option<(DeploymentId, Timestamp)>,
    pub pause: Option<PromotionPause>,
}

/// Promotion into the stage is paused: only rollbacks may enter it.
#[derive(Debug, Clone, PartialEq)]
pub struct PromotionPause {
    pub by: Actor,
    pub at: Timestamp,
    pub reason: Option<Reason>,
    /// The rollback that paused the stage.
    pub rollback: DeploymentId,
}

/// How one execution of a stage ended. A retry is another execution.
#[derive(Debug, Clone, PartialEq)]
pub struct StageEnd {
    pub pipeline: PipelineId,
    pub stage: String,
    pub deployment: DeploymentId,
    pub tries: u32,
    pub is_success: bool,
    pub at: Timestamp,
    /// The deployment whose plan ran: for a rollback the target, otherwise the deployment itself.
    pub origin: DeploymentId,
    /// If the deployment is a rollback: the deployment that it rolled back.
    pub rolled_back: Option<DeploymentId>,
    /// When the commit was made, if known.
    pub committed_at: Option<Timestamp>,
    /// Whether this is the last stage of the pipeline.
    pub is_last: bool,
}

/// How an execution of a stage ended, and whether its deployment has been rolled back since.
#[derive(Debug, Clone, PartialEq)]
pub struct PastStageEnd {
    pub end: StageEnd,
    pub is_rolled_back: bool,
}

impl Stage {
    /// A stage without deployments.
    pub fn new(pipeline: PipelineId, name: &str) -> Self {
        Self { pipeline, name: name.to_owned(), version: 0, current: None, pause: None }
    }
}

/// Records that an execution of the stage has ended. The run appends the event.
pub fn record_end(stage: &Stage, end: StageEnd) -> RuleDecision<()> {
    let mut changes = Vec::new();
    if end.is_success {
        let current = Some((end.deployment, end.at));
        changes.push(put(Stage { current, version: stage.version + 1, ..stage.clone() }));
    }
    changes.push(RecordChange::Put(DomainRecord::StageEnd(Box::new(end))));
    RuleDecision { changes, events: Vec::new(), effects: Vec::new(), answer: () }
}

/// Pauses promotion into the stage because of a rollback.
pub fn pause_promotion(stage: &Stage, pause: PromotionPause) -> RuleDecision<()> {
    let event = NewEvent {
        by: Some(pause.by.clone()),
        ..stage_event(EventKind::PromotionPaused, stage)
            .with_subject(EventSubject::new("deployment", pause.rollback, None))
            .with_some("reason", pause.reason.as_ref())
    };
    let next = Stage { pause: Some(pause), version: stage.version + 1, ..stage.clone() };
    RuleDecision { changes: vec![put(next)], events: vec![event], effects: Vec::new(), answer: () }
}

/// Ends the pause. Changes nothing if promotion is not paused.
pub fn resume_promotion(stage: &Stage, reason: Option<&Reason>) -> RuleDecision<()> {
    if stage.pause.is_none() {
        return RuleDecision::without_changes(());
    }
    let event = stage_event(EventKind::PromotionResumed, stage).with_some("reason", reason);
    let next = Stage { pause: None, version: stage.version + 1, ..stage.clone() };
    RuleDecision { changes: vec![put(next)], events: vec![event], effects: Vec::new(), answer: () }
}

/// The default target for rolling back the deployment `of`: the last other deployment that succeeded in the stage, has
/// not been rolled back, and ran a different plan. `past` is sorted newest first.
pub fn rollback_target(of: DeploymentId, past: &[PastStageEnd]) -> Result<DeploymentId, CommandRefusal> {
    let leaving = past.iter().find(|it| it.end.deployment == of && it.end.is_success);
    let is_same = |it: &PastStageEnd| leaving.is_some_and(|leaving| leaving.end.origin == it.end.origin);
    let good = past
        .iter()
        .find(|it| it.end.is_success && it.end.deployment != of && !it.is_rolled_back && !is_same(it));
    good.map(|it| it.end.deployment).ok_or_else(|| {
        CommandRefusal::NothingToRollBackTo(
            "no other successful deployment of this stage is available to roll back to; deploy an earlier commit instead"
                .into(),
        )
    })
}

fn put(stage: Stage) -> RecordChange {
    RecordChange::Put(DomainRecord::Stage(Box::new(stage)))
}

fn stage_event(kind: EventKind, stage: &Stage) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("pipeline", stage.pipeline, None))
        .with("stage", stage.name.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

    fn deployment(number: u8) -> DeploymentId {
        DeploymentId::from_parts(NOW, [number; 10])
    }

    /// Parses the executions of a stage, oldest first: `1+` means that deployment 1 succeeded, `2-` that 2 failed,
    /// `4+3>1` that 4 succeeded and rolled 3 back to 1.
    fn past_ends(story: &str) -> Vec<PastStageEnd> {
        let mut past: Vec<PastStageEnd> = Vec::new();
        for word in story.split_whitespace() {
            let digits: Vec<u8> = word.bytes().filter(u8::is_ascii_digit).map(|it| it - b'0').collect();
            let of = digits.get(1).copied().map(deployment);
            let is_origin =
                |it: &&PastStageEnd| Some(it.end.deployment) == digits.get(2).copied().map(deployment);
            let origin = past.iter().find(is_origin).map_or(deployment(digits[0]), |it| it.end.origin);
            for it in past.iter_mut().filter(|it| Some(it.end.deployment) == of) {
                it.is_rolled_back = true;
            }
            let end = StageEnd {
                pipeline: PipelineId::from_parts(NOW, [0; 10]),
                stage: "production".into(),
                deployment: deployment(digits[0]),
                tries: 1,
                is_success: word.as_bytes()[1] == b'+',
                at: NOW.plus_seconds(i64::from(digits[0])),
                origin,
                rolled_back: of,
                committed_at: None,
                is_last: true,
            };
            past.push(PastStageEnd { end, is_rolled_back: false });
        }
        past.reverse();
        past
    }

    #[test]
    fn rollback_target_is_last_other_successful_deployment() {
        for (story, of, wanted) in [
            ("1+ 2+", 2, Some(1)),
            ("1+ 2-", 2, Some(1)),
            ("1+ 2- 3-", 3, Some(1)),
            // Deployment 3 is still running.
            ("1+ 2+", 3, Some(2)),
            ("1+", 1, None),
            ("1-", 1, None),
            ("", 1, None),
            // Rolling back the rollback 4 leads neither to 3, which was rolled back, nor to 2, whose plan 4 ran again.
            ("1+ 2+ 3+ 4+3>2", 4, Some(1)),
            ("1+ 2+ 3+2>1", 3, None),
            // After a failed rollback, the same target can be used again.
            ("1+ 2+ 3-2>1", 3, Some(1)),
            // Deployment 4 rolled back the rollback 3, and is now rolled back itself.
            ("1+ 2+ 3+2>1 4+3>2", 4, Some(1)),
        ] {
            let found = rollback_target(deployment(of), &past_ends(story)).ok();
            assert_eq!(found, wanted.map(deployment), "{story}, back from {of}");
        }
    }

    #[test]
    fn promotion_pause_records_reason_and_resume_is_idempotent() {
        let stage = Stage::new(PipelineId::from_parts(NOW, [0; 10]), "production");
        assert_eq!(resume_promotion(&stage, None), RuleDecision::without_changes(()));
        let reason = Reason::parse("5xx").ok();
        let told = PromotionPause { by: Actor::system(), at: NOW, reason, rollback: deployment(3) };
        let paused = pause_promotion(&stage, told);
        assert_eq!(paused.events[0].kind, EventKind::PromotionPaused);
        assert_eq!(paused.events[0].data["reason"], "5xx");
        let [RecordChange::Put(DomainRecord::Stage(next))] = paused.changes.as_slice() else {
            panic!("{paused:?}")
        };
        let lifted = resume_promotion(next, None);
        assert_eq!((lifted.events[0].kind, lifted.changes.len()), (EventKind::PromotionResumed, 1));
    }

    proptest! {
        #[test]
        fn rollback_target_succeeded_and_differs_from_rolled_back_deployment(
            told in proptest::collection::vec((any::<bool>(), 0u8..12, 0u8..12), 0..9), of in 1u8..11
        ) {
            let story: Vec<String> = (1u8..).zip(&told).map(|(number, (good, back, to))| {
                let sign = if *good { '+' } else { '-' };
                match *back > 0 && *back < number && *to > 0 && *to < number {
                    true => format!("{number}{sign}{back}>{to}"),
                    false => format!("{number}{sign}"),
                }
            }).collect();
            let past = past_ends(&story.join(" "));
            if let Ok(found) = rollback_target(deployment(of), &past) {
                prop_assert_ne!(found, deployment(of));
                let target = past.iter().find(|it| it.end.deployment == found).unwrap();
                prop_assert!(target.end.is_success && !target.is_rolled_back);
                let leaving = past.iter().find(|it| it.end.deployment == deployment(of));
                if let Some(leaving) = leaving.filter(|it| it.end.is_success) {
                    prop_assert_ne!(&leaving.end.origin, &target.end.origin);
                }
            }
        }
    }
}
