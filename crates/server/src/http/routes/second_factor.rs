//! Endpoints for second factors.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::auth::{
    CurrentUser, RecoveryCodes, SecondFactorConfirmation, SecondFactorEnrolment, SecondFactorRemoval,
};
use berth_api::member::WireMember;
use berth_core::access::permit;
use berth_engine::credential::RedactedString;

use super::auth::EmptyBody;
use super::members::user_id;
use crate::app::{ApiResponse, App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::{RequireCaller, RequirePermit};
use crate::http::body::JsonBody;

/// Start to set up a second factor. Show `uri` as a QR code or type `secret` into an authenticator app, then confirm
/// with a code within an hour. Requires a login in a browser and a password confirmation less than an hour old.
#[utoipa::path(post, operation_id = "beginSecondFactor", path = "/api/v1/me/second-factor", tag = "sign-in",
    responses((status = 200, body = Data<SecondFactorEnrolment>)))]
pub(crate) async fn begin_second_factor(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    _: JsonBody<EmptyBody>,
) -> Result<ApiResponse<SecondFactorEnrolment>, AppError> {
    app.begin_second_factor(&who).await.map(ApiResponse::ok)
}

/// Switch on the second factor with a code of it. Returns recovery codes, which are shown only once.
#[utoipa::path(post, operation_id = "confirmSecondFactor", path = "/api/v1/me/second-factor/confirm", tag = "sign-in",
    request_body = SecondFactorConfirmation, responses((status = 200, body = Data<RecoveryCodes>)))]
pub(crate) async fn confirm_second_factor(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    JsonBody(body): JsonBody<SecondFactorConfirmation>,
) -> Result<ApiResponse<RecoveryCodes>, AppError> {
    app.confirm_second_factor(&who, RedactedString::new(body.code)).await.map(ApiResponse::ok)
}

/// Replace your recovery codes. The old ones stop working. Requires a password confirmation less than an hour old.
#[utoipa::path(post, operation_id = "replaceRecoveryCodes", path = "/api/v1/me/second-factor/recovery-codes",
    tag = "sign-in", responses((status = 200, body = Data<RecoveryCodes>)))]
pub(crate) async fn replace_recovery_codes(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    _: JsonBody<EmptyBody>,
) -> Result<ApiResponse<RecoveryCodes>, AppError> {
    app.replace_recovery_codes(&who).await.map(ApiResponse::ok)
}

/// Switch off your second factor with your password and a code.
#[utoipa::path(post, operation_id = "disableSecondFactor", path = "/api/v1/me/second-factor/disable", tag = "sign-in",
    request_body = SecondFactorRemoval, responses((status = 200, body = Data<CurrentUser>)))]
pub(crate) async fn disable_second_factor(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    JsonBody(body): JsonBody<SecondFactorRemoval>,
) -> Result<ApiResponse<CurrentUser>, AppError> {
    let (password, code) = (RedactedString::new(body.password), RedactedString::new(body.code));
    app.disable_second_factor(&who, password, code).await.map(ApiResponse::ok)
}

/// Reset the second factor of a member who has lost it. The member can log in with the password alone and set up a new
/// one. Only admins of the organization that created the account can do this.
#[utoipa::path(delete, operation_id = "resetSecondFactor",
    path = "/api/v1/organizations/{orgId}/members/{userId}/second-factor", tag = "members",
    responses((status = 200, body = Data<WireMember>)))]
pub(crate) async fn reset_second_factor(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, user)): Path<(String, String)>,
) -> Result<IdempotentResponse<WireMember>, AppError> {
    app.reset_member_second_factor(&who, user_id(&user)?).await
}
