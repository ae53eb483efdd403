//! Invitations, through which people become members. The invited person either chooses a password for a new account or
//! logs in to an existing account.
//!
//! Berth does not send invitations by email, so nothing proves that an account belongs to its email address: the account may have been
//! created with an invitation link from another organization. An existing account therefore joins only if its user is
//! logged in *and* has the link of this invitation.

use berth_api::invitation as wire;
use berth_api::problem::Code;
use berth_core::access::{Action, EffectiveAccess, Role, permit};
use berth_core::client_info::ClientInfo;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{InvitationId, OrgId, UserId};
use berth_core::name::{DisplayName, Email};
use berth_engine::credential::RedactedString;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::invitation::{self, Invitation};
use berth_store::tables::member;
use berth_store::tables::organization::{self, ORGANIZATIONS_PER_USER_MAX};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::{StoreRead, Tx, TxContext};

use super::members::{self, check_reach, default_name};
use super::sign_in::{SignedIn, actor, begin_sign_in};
use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::{AuthMethod, AuthorizedCaller, Principal};
use crate::auth::passwords;
use crate::auth::tokens::{TokenKind, generate_token, hash_token, is_well_formed};
use crate::error::AppError;
use crate::integrations::oidc::PasswordLogin;
use crate::limits::{INVITATION_DAYS, INVITATIONS_PER_ORGANIZATION_MAX};
use crate::wire::role_to_wire;

/// The version is constant because invitations are immutable: they are created, then accepted, revoked or expired.
const INVITATION_VERSION: i64 = 1;

pub struct NewInvitation {
    pub email: Email,
    pub name: Option<DisplayName>,
    pub role: Role,
    /// Base URL of the dashboard, for the link.
    pub base_url: String,
}

/// Accepts an invitation by creating an account.
pub struct SignUpRequest {
    pub link: RedactedString,
    pub name: Option<DisplayName>,
    pub password: RedactedString,
    pub client: ClientInfo,
    pub request_id: String,
}

impl App {
    pub async fn list_invitations(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireInvitation>, AppError> {
        let slice = self.read(who, move |db| Ok(invitation::list(db, &from, limit)?)).await?;
        Ok(ResponsePage::from_list_page(&slice, |invitation| invitation.id.to_string(), to_response))
    }

    pub async fn view_invitation(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        id: InvitationId,
    ) -> Result<ApiResponse<wire::WireInvitation>, AppError> {
        self.read(who, move |db| {
            Ok(ApiResponse::ok(to_response(&find(db, id)?)).with_version(INVITATION_VERSION))
        })
        .await
    }

    /// Creates an invitation link for one person. An earlier link for the same address becomes invalid.
    pub async fn invite(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        new: NewInvitation,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::InvitationCreated>, AppError> {
        let (invited_by, org) = (who.principal().user, who.org());
        let invited_by_name = who.principal().name.clone();
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            check_reach(standing.role(), new.role)?;
            check_address(tx, &new.email)?;
            if invitation::count(tx)? >= INVITATIONS_PER_ORGANIZATION_MAX {
                let text = format!(
                    "an organization has at most {INVITATIONS_PER_ORGANIZATION_MAX} open invitations; revoke some"
                );
                return Err(AppError::new(Code::InvalidState, text));
            }
            let link = generate_token(TokenKind::Invitation);
            let created_at = tx.now();
            let invitation = Invitation {
                id: InvitationId::from_parts(created_at, tx.entropy()?),
                email: new.email,
                name: new.name,
                role: new.role,
                invited_by,
                invited_by_name,
                created_at,
                expires_at: created_at.plus_seconds(INVITATION_DAYS * 24 * 60 * 60),
            };
            invitation::replace_of_address(tx, &invitation, &hash_token(link.reveal()))?;
            tx.record(invitation_event(EventKind::MemberInvited, &invitation).with("role", invitation.role.as_str()))?;
            let location = format!("/api/v1/organizations/{org}/invitations/{}", invitation.id);
            let url = Some(format!("{}/invitation#{}", new.base_url, link.reveal()));
            let body = wire::InvitationCreated { invitation: to_response(&invitation), url };
            Ok(ApiResponse::created(location, body).with_version(INVITATION_VERSION))
        })
        .await
    }

    pub async fn revoke_invitation(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        id: InvitationId,
    ) -> Result<IdempotentResponse<wire::WireInvitation>, AppError> {
        self.change(who, None, move |tx, standing| {
            let found = find(tx, id)?;
            check_reach(standing.role(), found.role)?;
            invitation::delete(tx, id)?;
            tx.record(invitation_event(EventKind::InvitationRevoked, &found))?;
            let deleted_at = Some(tx.now().to_string());
            Ok(ApiResponse::ok(wire::WireInvitation { deleted_at, ..to_response(&found) }))
        })
        .await
    }

    /// Returns what the invitation page shows to a person who has the link.
    pub async fn view_offer(&self, link: &RedactedString) -> Result<wire::InvitationOffer, AppError> {
        let link_hash = hash_link(link)?;
        self.services
            .store
            .read(None, move |db| {
                let (org, invitation) = find_open_invitation(db, &link_hash)?;
                let organization = organization::by_id(db, org)?.ok_or_else(invitation_over_error)?;
                Ok(wire::InvitationOffer {
                    organization: wire::InvitingOrganization {
                        slug: organization.slug.to_string(),
                        name: organization.name.to_string(),
                    },
                    has_account: user::by_email(db, &invitation.email)?.is_some(),
                    email: invitation.email.to_string(),
                    name: invitation.name.map(|name| name.to_string()),
                    role: role_to_wire(invitation.role),
                    invited_by: invitation.invited_by_name.to_string(),
                    expires_at: invitation.expires_at.to_string(),
                })
            })
            .await
    }

    /// Accepts an invitation with a new account and logs the user in.
    pub async fn sign_up(&self, new: SignUpRequest) -> Result<SignedIn, AppError> {
        let link_hash = hash_link(&new.link)?;
        let (hashed, rule) = (link_hash.clone(), self.config.password_login);
        let (email, name, slug) = self
            .services
            .store
            .read(None, move |db| {
                let (org, invitation) = find_open_invitation(db, &hashed)?;
                check_no_account(db, &invitation.email)?;
                if rule == PasswordLogin::Owners && invitation.role != Role::Owner {
                    let text =
                        "on this server, only owners have a password; log in through your identity provider";
                    return Err(AppError::new(Code::Forbidden, text));
                }
                let organization = organization::by_id(db, org)?.ok_or_else(invitation_over_error)?;
                Ok::<_, AppError>((invitation.email, invitation.name, organization.slug))
            })
            .await?;
        let name = new.name.or(name).map_or_else(|| default_name(&email), Ok)?;
        if let Some(weakness) =
            passwords::weakness(new.password.reveal(), &[email.as_str(), name.as_str(), slug.as_str()])
        {
            return Err(AppError::invalid_member("/password", weakness));
        }
        let password_hash = self.passwords.hash(new.password).await?;
        let context = TxContext { request_id: Some(new.request_id.clone()), ..TxContext::system(None) };
        let made = self.services.store.transact(context, move |tx| {
            let (org, invitation) = find_open_invitation(tx, &link_hash)?;
            check_no_account(tx, &invitation.email)?;
            let account =
                UserAccount::Person { password_hash: Some(password_hash), password_is_generated: false };
            let id = UserId::from_parts(tx.now(), tx.entropy()?);
            let user = User { id, email: invitation.email.clone(), name, account, created_at: tx.now() };
            user::put(tx, &user)?;
            accept(tx, org, &invitation, &user)?;
            let (id, secret) = begin_sign_in(tx, &user, &new.client, None)?;
            Ok::<_, AppError>((user, id, secret))
        });
        let (user, id, secret) = made.await?;
        self.build_signed_in(&user, id, secret, new.request_id).await
    }

    /// Accepts an invitation with the account of the logged-in user.
    pub async fn join_organization(
        &self,
        who: &Principal,
        link: &RedactedString,
    ) -> Result<ApiResponse<berth_api::organization::WireOrganization>, AppError> {
        if !matches!(who.via, AuthMethod::SignIn { .. }) {
            let text = "an API token belongs to one organization; log in to the dashboard to join another";
            return Err(AppError::new(Code::InvalidState, text));
        }
        let (link_hash, user) = (hash_link(link)?, self.load_user(who.user).await?);
        self.services
            .store
            .transact(self.context(who), move |tx| {
                let (org, invitation) = find_open_invitation(tx, &link_hash)?;
                if user.email.key() != invitation.email.key() {
                    let text = format!(
                        "the invitation is for {}, and you are logged in as {}; log in as {0}",
                        invitation.email, user.email
                    );
                    return Err(AppError::new(Code::Forbidden, text));
                }
                accept(tx, org, &invitation, &user)?;
                let organization = organization::by_id(tx, org)?.ok_or_else(invitation_over_error)?;
                let body = super::organizations::to_response(
                    &organization,
                    &EffectiveAccess::of_role(invitation.role),
                    &[],
                );
                Ok(ApiResponse::created(format!("/api/v1/organizations/{org}"), body))
            })
            .await
    }
}

/// Adds the user as a member with the role of the invitation, and deletes the invitation.
fn accept(tx: &mut Tx<'_>, org: OrgId, invitation: &Invitation, user: &User) -> Result<(), AppError> {
    // The inviter may have been demoted or removed in the meantime. The link is valid only if the inviter could still
    // create it.
    let inviter = member::role_in(tx, invitation.invited_by, org)?;
    if inviter.is_none_or(|role| !role.includes(invitation.role) || !role.may(Action::MembersWrite)) {
        return Err(invitation_over_error());
    }
    if member::role_in(tx, user.id, org)?.is_some() {
        return Err(AppError::new(Code::AlreadyExists, format!("{} is already a member", user.email)));
    }
    if member::list_organizations(tx, user.id)?.len() as i64 >= ORGANIZATIONS_PER_USER_MAX {
        let text = format!("a user can be in at most {ORGANIZATIONS_PER_USER_MAX} organizations");
        return Err(AppError::new(Code::InvalidState, text));
    }
    tx.set_actor(actor(user));
    tx.within_org(org, |tx| {
        invitation::delete(tx, invitation.id)?;
        members::add_member(tx, user.id, &user.name, invitation.role)
    })
}

fn hash_link(link: &RedactedString) -> Result<Vec<u8>, AppError> {
    match is_well_formed(TokenKind::Invitation, link.reveal()) {
        true => Ok(hash_token(link.reveal())),
        false => Err(invitation_over_error()),
    }
}

fn find_open_invitation(db: &mut impl StoreRead, link_hash: &[u8]) -> Result<(OrgId, Invitation), AppError> {
    invitation::by_hash(db, link_hash)?.ok_or_else(invitation_over_error)
}

fn invitation_over_error() -> AppError {
    AppError::new(Code::NotFound, "this invitation was used, revoked or has expired; ask for a new one")
}

fn check_no_account(db: &mut impl StoreRead, email: &Email) -> Result<(), AppError> {
    match user::by_email(db, email)? {
        None => Ok(()),
        Some(_) => Err(AppError::new(
            Code::AlreadyExists,
            format!("{email} already has an account; log in to accept the invitation"),
        )),
    }
}

/// Checks whether this email address may be invited.
fn check_address(tx: &mut Tx<'_>, email: &Email) -> Result<(), AppError> {
    let Some(user) = user::by_email(tx, email)? else { return Ok(()) };
    let text = match user.account {
        UserAccount::Service { .. } => format!("{email} is in use by a service account"),
        UserAccount::Person { .. } if member::by_user(tx, user.id)?.is_some() => {
            format!("{email} is already a member")
        }
        UserAccount::Person { .. } => return Ok(()),
    };
    Err(AppError::new(Code::AlreadyExists, text))
}

fn find(db: &mut impl StoreRead, id: InvitationId) -> Result<Invitation, AppError> {
    invitation::by_id(db, id)?.ok_or_else(|| AppError::not_found("invitation"))
}

fn invitation_event(kind: EventKind, invitation: &Invitation) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("invitation", invitation.id, Some(invitation.email.as_str())))
}

fn to_response(invitation: &Invitation) -> wire::WireInvitation {
    wire::WireInvitation {
        id: invitation.id.to_string(),
        email: invitation.email.to_string(),
        name: invitation.name.as_ref().map(ToString::to_string),
        role: role_to_wire(invitation.role),
        invited_by: wire::InvitationSender {
            id: invitation.invited_by.to_string(),
            name: invitation.invited_by_name.to_string(),
        },
        created_at: invitation.created_at.to_string(),
        expires_at: invitation.expires_at.to_string(),
        deleted_at: None,
    }
}
