//! Validation of definitions.

use berth_api::pipeline as wire;
use berth_core::access::{Action, permit};
use berth_core::pipeline::PipelineDefinition;
use berth_core::pipeline::limits::DIAGNOSTICS_MAX;
use berth_core::step::NetworkAccess;
use berth_definition::{DiagnosticSeverity, diagnostics_at, parse, parse_with};
use berth_engine::definitions::diagnostic_to_api;
use berth_store::tables::{organization, registry, secret};

use super::approvers::find_unfulfillable_rules;
use super::resource_access::require_everywhere;
use super::{ApiResponse, App};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

const CUT_OFF: &str = "this step needs the network, but steps of this organization have no network access by default; add `network: host` to it";

impl App {
    /// Validates a definition without storing it. Also warns about missing secrets and webhooks, and about approvals
    /// that too few members could give.
    pub async fn validate_definition(
        &self,
        who: &AuthorizedCaller<permit::PipelinesRead>,
        source: String,
    ) -> Result<ApiResponse<wire::DefinitionValidation>, AppError> {
        require_everywhere(who.access(), Action::PipelinesRead)?;
        let (source, mut parsed) = self
            .parsing
            .run(who.org(), move || {
                let parsed = parse(&source);
                (source, parsed)
            })
            .await?;
        let types = parsed.definition.as_ref().map(PipelineDefinition::custom_types).unwrap_or_default();
        let mut source = source;
        if !types.is_empty() {
            // The first pass found custom step types. Parse again, this time with their parameters.
            let looked_up = self.read(who, move |db| {
                Ok::<_, AppError>(registry::resolve_types(db, types.iter().map(String::as_str))?)
            });
            let offers = looked_up.await?;
            let again = self.parsing.run(who.org(), move || {
                let parsed = parse_with(&source, Some(&offers));
                (source, parsed)
            });
            (source, parsed) = again.await?;
        }
        let used = parsed.definition.as_ref().map(PipelineDefinition::secrets_used).unwrap_or_default();
        let definition = parsed.definition.clone();
        let org = who.org();
        let missing = self.read(who, move |db| {
            let cut_off = match organization::by_id(db, org)?.map(|it| it.default_network) {
                Some(NetworkAccess::None) => definition.as_ref().map(PipelineDefinition::requests_by_default),
                Some(NetworkAccess::Host | NetworkAccess::Bridge) | None => None,
            };
            let cut_off =
                cut_off.unwrap_or_default().into_iter().map(|at| (at, CUT_OFF.to_owned())).collect();
            let unfulfillable =
                definition.map(|it| find_unfulfillable_rules(db, &it)).transpose()?.unwrap_or_default();
            let mut missing = Vec::new();
            for found in used.into_iter().take(DIAGNOSTICS_MAX) {
                if !secret::exists_anywhere(db, &found.name)? {
                    let text = format!("there is no secret {} yet; create it before this runs", found.name);
                    missing.push((found.pointer, text));
                }
            }
            Ok((missing, unfulfillable, cut_off))
        });
        let (missing, unfulfillable, cut_off) = missing.await?;
        let told = parsed.definition.as_ref().map(|it| it.notifications.clone()).unwrap_or_default();
        let unknown = self.read(who, move |db| super::webhooks::find_unknown_webhooks(db, &told)).await?;
        let valid = parsed.definition.is_some();
        let placed = self.parsing.run(who.org(), move || {
            let at = |code, found| diagnostics_at(&source, DiagnosticSeverity::Warning, code, found);
            let found = [
                ("missing_secret", missing),
                ("unfulfillable", unfulfillable),
                ("missing_webhook", unknown),
                ("no_network", cut_off),
            ];
            found.into_iter().flat_map(|(code, found)| at(code, found)).collect::<Vec<_>>()
        });
        parsed.diagnostics.extend(placed.await?);
        let diagnostics = parsed.diagnostics.iter().take(DIAGNOSTICS_MAX).map(diagnostic_to_api).collect();
        Ok(ApiResponse::ok(wire::DefinitionValidation { valid, diagnostics }))
    }
}
