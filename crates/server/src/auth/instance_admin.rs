//! Authorization of instance admins, who manage organizations. Being an owner of an organization is not enough.

use std::sync::Arc;

use berth_api::problem::Code;
use berth_core::id::UserId;
use berth_core::time::Timestamp;
use berth_store::tables::{instance_admin, organization, provider_identity, second_factor, token};
use berth_store::{StoreRead, Tx, TxContext};

use super::authorize::{AuthMethod, Principal, check_confirmed_at, find_browser_login};
use crate::error::AppError;

/// Proof that a principal is an instance admin.
#[derive(Debug, Clone)]
pub struct InstanceAdmin(Arc<Principal>);

impl InstanceAdmin {
    pub fn principal(&self) -> &Arc<Principal> {
        &self.0
    }

    pub fn context(&self) -> TxContext {
        TxContext {
            org: None,
            actor: self.0.actor(),
            request_id: Some(self.0.request_id.clone()),
            access: None,
        }
    }
}

/// Whether a principal may act as an instance admin. A restricted token or a session token never may, nor may a user
/// who lacks a second factor that an organization requires, or whom an organization's identity provider has refused.
pub fn is_instance_admin(db: &mut impl StoreRead, who: &Principal) -> Result<bool, AppError> {
    let is_limited = match &who.via {
        AuthMethod::Token { membership, is_of_session, .. } => {
            *is_of_session || membership.access.restriction.is_some()
        }
        AuthMethod::SignIn { .. } => false,
    };
    if who.is_service || is_limited || !instance_admin::contains(db, who.user)? {
        return Ok(false);
    }
    Ok(!is_kept_out(db, who.user)?)
}

/// Whether one of the user's organizations requires a second factor that the user lacks, or has suspended the user. A
/// login or a token of another organization must not get around that.
fn is_kept_out(db: &mut impl StoreRead, user: UserId) -> Result<bool, AppError> {
    for org in organization::list_of_user(db, user)? {
        if second_factor::is_missing_in(db, org.id, user)?
            || provider_identity::is_suspended_in(db, org.id, user)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn authorize_instance_admin(
    db: &mut impl StoreRead,
    who: &Arc<Principal>,
) -> Result<InstanceAdmin, AppError> {
    if !is_instance_admin(db, who)? {
        let text = "only an instance admin may do this; `berth admin instance-admin` on the server's machine adds one";
        return Err(AppError::new(Code::Forbidden, text));
    }
    Ok(InstanceAdmin(who.clone()))
}

/// Access of an instance admin at the time of a transaction.
pub struct InstanceAccess {
    /// When the password was last checked in this browser session. `None` for a token.
    confirmed_at: Option<Timestamp>,
}

impl InstanceAccess {
    /// Requires that the user has confirmed the password recently.
    pub fn check_confirmed(&self, now: Timestamp) -> Result<(), AppError> {
        check_confirmed_at(self.confirmed_at, now)
    }
}

/// Checks again inside the transaction, because access may have been revoked while the request was sent.
pub fn load_instance_access(tx: &mut Tx<'_>, who: &Arc<Principal>) -> Result<InstanceAccess, AppError> {
    let found = match &who.via {
        AuthMethod::Token { id, membership, .. } => {
            let live = tx.within_org(membership.org, |tx| token::find_access(tx, *id))?;
            live.map(|_| InstanceAccess { confirmed_at: None })
        }
        AuthMethod::SignIn { id } => find_browser_login(tx, *id)?
            .map(|browser| InstanceAccess { confirmed_at: Some(browser.confirmed_at) }),
    };
    let revoked = || AppError::unauthenticated("your access was revoked while the request was sent");
    let found = found.ok_or_else(revoked)?;
    authorize_instance_admin(tx, who)?;
    Ok(found)
}
