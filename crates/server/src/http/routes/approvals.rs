//! Endpoints for approvals.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::approval::{ApprovalApprove, ApprovalStatusFilter, WireApproval};
use berth_api::approval_changes::ApprovalChanges;
use berth_api::page::List;
use berth_api::pipeline::ReasonBody;
use berth_core::access::permit;
use berth_core::approval::ApprovalChoice;
use berth_core::id::{ApprovalId, DeploymentId};
use berth_core::name::Reason;

use crate::app::{ApiResponse, App, ApprovalFilter, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::input_checker::InputChecker;
use crate::http::query::{ListResponse, PageQuery};

const STATUSES: &[&str] = &["pending", "approved", "rejected", "expired", "lapsed", "all"];

/// List approvals, newest first. Only pending ones unless `status` is given.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/approvals", tag = "approvals",
    params(("status" = Option<ApprovalStatusFilter>, Query, description = "Only approvals with this status, or `all`. Defaults to `pending`"),
           ("deployment" = Option<String>, Query, description = "Only approvals of this deployment (id)")),
    responses((status = 200, body = List<WireApproval>)))]
pub(crate) async fn list_approvals(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::ApprovalsRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireApproval>, AppError> {
    let status = paging.params.one_of("status", STATUSES)?.unwrap_or_else(|| "pending".into());
    let deployment = paging.params.parse::<DeploymentId>("deployment")?;
    let filter = ApprovalFilter { status: (status != "all").then_some(status), deployment };
    let start = paging.start::<ApprovalId>()?;
    let page = app.list_approvals(&who, filter, start, paging.limit).await?;
    Ok(paging.list(page))
}

/// Get an approval. Shows what it is for, who is eligible and who has voted.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/approvals/{approvalId}", tag = "approvals",
    responses((status = 200, body = Data<WireApproval>)))]
pub(crate) async fn view_approval(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::ApprovalsRead>,
    Path((_, id)): Path<(String, String)>,
) -> Result<ApiResponse<WireApproval>, AppError> {
    app.view_approval(&who, id).await
}

/// Get what an approval would change: commits, files, definition and secrets, compared with what is deployed there. After
/// the approval has ended, compares with what was deployed until then.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/approvals/{approvalId}/changes", tag = "approvals",
    responses((status = 200, body = Data<ApprovalChanges>)))]
pub(crate) async fn view_approval_changes(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::ApprovalsRead>,
    Path((_, id)): Path<(String, String)>,
) -> Result<ApiResponse<ApprovalChanges>, AppError> {
    app.view_approval_changes(&who, id).await
}

/// Approve a pending approval. When enough people have approved, the deployment continues immediately.
#[utoipa::path(post, operation_id = "approveApproval", path = "/api/v1/organizations/{orgId}/approvals/{approvalId}/approve", tag = "approvals",
    request_body = Option<ApprovalApprove>, responses((status = 200, body = Data<WireApproval>)))]
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::ApprovalsDecide>,
    Path((_, id)): Path<(String, String)>,
    posted: PostBody<ApprovalApprove>,
) -> Result<IdempotentResponse<WireApproval>, AppError> {
    let mut check = InputChecker::default();
    let comment = check.optional("/comment", posted.body.comment.as_deref(), Reason::parse);
    app.answer_approval(
        &who,
        id,
        ApprovalChoice::Approve,
        check.finish(Some(comment))?,
        posted.idempotency_key,
    )
    .await
}

/// Reject a pending approval. One rejection is final; the step or stage that waits for it fails.
#[utoipa::path(post, operation_id = "rejectApproval", path = "/api/v1/organizations/{orgId}/approvals/{approvalId}/reject", tag = "approvals",
    request_body = Option<ReasonBody>, responses((status = 200, body = Data<WireApproval>)))]
pub(crate) async fn reject(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::ApprovalsDecide>,
    Path((_, id)): Path<(String, String)>,
    posted: PostBody<ReasonBody>,
) -> Result<IdempotentResponse<WireApproval>, AppError> {
    let mut check = InputChecker::default();
    let reason = check.optional("/reason", posted.body.reason.as_deref(), Reason::parse);
    app.answer_approval(&who, id, ApprovalChoice::Reject, check.finish(Some(reason))?, posted.idempotency_key)
        .await
}
