//! The service account that holds the sessions of a repository's pull requests.

use berth_core::access::{AccessTarget, Action, EffectiveAccess};
use berth_core::environment::{Environment, LockHolder};
use berth_core::event::ActorType;
use berth_core::forge::ForgeConnection;
use berth_core::id::UserId;
use berth_core::name::Slug;
use berth_store::StoreRead;
use berth_store::tables::member;

use crate::auth::authorize::load_unattended_access;
use crate::error::AppError;

/// A member of the organization who acts without a login: the service account, or a person by a comment,
/// an action link or a chat.
#[derive(Debug, Clone)]
pub(crate) struct ActingMember {
    pub(crate) holder: LockHolder,
    pub(crate) access: EffectiveAccess,
}

impl ActingMember {
    pub(crate) fn may(&self, action: Action, pipeline: &Slug, environment: &Environment) -> bool {
        let (pipeline, environment) = (pipeline.to_string(), environment.name.to_string());
        self.access.may(action, &AccessTarget::Environment { pipeline, environment })
    }
}

/// Loads the service account of a connection. The inner error says why it cannot act.
pub(super) fn load_account(
    db: &mut impl StoreRead,
    org: berth_core::id::OrgId,
    connection: &ForgeConnection,
) -> Result<Result<ActingMember, String>, AppError> {
    let found = load_member(db, org, connection.account)?;
    Ok(found
        .ok_or_else(|| "the service account of the forge connection cannot act; connect again".to_owned()))
}

/// Loads a member with the permissions at this moment. `None` if the account is not a member or may not act now.
pub(crate) fn load_member(
    db: &mut impl StoreRead,
    org: berth_core::id::OrgId,
    user: UserId,
) -> Result<Option<ActingMember>, AppError> {
    let Some(member) = member::find_view(db, user)? else { return Ok(None) };
    let Some(access) = load_unattended_access(db, org, user)? else { return Ok(None) };
    let kind = if member.is_service { ActorType::Service } else { ActorType::User };
    let holder =
        LockHolder { kind, id: user, name: member.name.to_string(), session_token: None, agent: None };
    Ok(Some(ActingMember { holder, access }))
}
