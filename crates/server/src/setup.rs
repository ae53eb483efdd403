//! Creates the first organization with its owner and an API token.

use berth_core::event::{Actor, ActorType};
use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email, Slug};
use berth_engine::credential::RedactedString;
use berth_store::tables::instance_admin;
use berth_store::tables::organization::{self, Organization};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::{Store, Tx, TxContext};

use crate::app::{default_name, insert_organization, issue_token};
use crate::auth::passwords::{self, PasswordCost};
use crate::error::AppError;

/// The result of `berth init`. Password and token are shown once.
pub struct CreatedOrganization {
    pub org: Organization,
    pub user: User,
    /// The generated password. `None` if the email address already has an account, which keeps its password.
    pub password: Option<RedactedString>,
    pub token: RedactedString,
}

pub fn create_organization(
    store: &Store,
    slug: Slug,
    email: Email,
    cost: PasswordCost,
) -> Result<CreatedOrganization, AppError> {
    let password = passwords::generate();
    let hash = passwords::hash(&password, cost);
    store.transact_blocking(TxContext::system(None), move |tx| {
        if organization::find_slug_owner(tx, &slug)?.is_some() {
            let text = format!("an organization \"{slug}\" already exists or existed");
            return Err(berth_core::decision::CommandRefusal::AlreadyExists(text).into());
        }
        let is_first = organization::count(tx)? == 0;
        let (user, password) = match user::by_email(tx, &email)? {
            Some(user) if matches!(user.account, UserAccount::Service { .. }) => {
                let text = format!("{email} is a service account; an owner must be a person");
                return Err(berth_core::decision::CommandRefusal::InvalidState(text).into());
            }
            Some(user) => (user, None),
            None => (create_owner(tx, email, hash)?, Some(password)),
        };
        let owner =
            Actor { kind: ActorType::User, id: Some(user.id), name: user.name.to_string(), token: None };
        tx.set_actor(owner);
        let org = insert_organization(tx, slug.clone(), DisplayName::from(slug), &user)?;
        // The operator who sets up the installation manages its organizations.
        if is_first {
            instance_admin::insert(tx, user.id)?;
        }
        tx.within_org(org.id, |tx| {
            let name = DisplayName::parse("init").map_err(|error| AppError::bug(error.to_string()))?;
            let (_, token) = issue_token(tx, user.id, name, None, None)?;
            Ok(CreatedOrganization { org: org.clone(), user, password, token })
        })
    })
}

fn create_owner(tx: &mut Tx<'_>, email: Email, password_hash: String) -> Result<User, AppError> {
    let user = User {
        id: UserId::from_parts(tx.now(), tx.entropy()?),
        name: default_name(&email)?,
        email,
        account: UserAccount::Person { password_hash: Some(password_hash), password_is_generated: true },
        created_at: tx.now(),
    };
    user::put(tx, &user)?;
    Ok(user)
}
