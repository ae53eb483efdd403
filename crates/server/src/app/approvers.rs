//! Checks whether the current members could give the approvals that a definition requires.

use berth_core::access::AccessTarget;
use berth_core::approval::admits;
use berth_core::pipeline::PipelineDefinition;
use berth_core::pipeline::model::ApprovalPolicy;
use berth_store::StoreRead;

use crate::error::AppError;
use berth_engine::VotingMembers;

/// Returns each stage's approval rule that too few members can satisfy, as a pair of JSON pointer and message.
pub(super) fn find_unfulfillable_rules(
    db: &mut impl StoreRead,
    definition: &PipelineDefinition,
) -> Result<Vec<(String, String)>, AppError> {
    let rules = definition.stages.iter().enumerate();
    let rules: Vec<(usize, &ApprovalPolicy)> =
        rules.filter_map(|(index, stage)| Some((index, stage.requires.as_ref()?))).collect();
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let members = VotingMembers::load(db)?;
    let mut found = Vec::new();
    for (index, rule) in rules {
        // The pipeline that the definition belongs to is not known here.
        let stage = definition.stages[index].name.to_string();
        let target = AccessTarget::Stage { pipeline: String::new(), stage };
        let people = members.voters_on(&target).iter().filter(|it| admits(rule, it)).count();
        if people < usize::try_from(rule.approvals).unwrap_or(usize::MAX) {
            let text = format!(
                "{} approvals are required, but only {people} of the members can approve; add members or change the rule",
                rule.approvals
            );
            found.push((format!("/pipeline/stages/{index}/requires"), text));
        }
    }
    Ok(found)
}
