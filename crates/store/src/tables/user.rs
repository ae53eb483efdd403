//! Users: people, who can log in, and service accounts, which only have tokens. Agents are service accounts.

use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{FromRow, RowReader, TableRow as _, ToParams, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Instance User in users {
    key: [id],
    update: [name, account: (kind, owner_id, password_hash, password_is_generated)],
    derived: [email_key = |it| it.email.key()],
    insert: [email, created_at],
});

statements! {
    Instance Read BY_ID => User::TABLE.select("WHERE id = $1");
    Instance Read BY_EMAIL => User::TABLE.select("WHERE email_key = $1");
    // Counts as upkeep, because an account belongs to no organization. The caller records the events.
    Instance Upkeep PUT => User::TABLE.upsert("");
}

#[derive(Debug, Clone, PartialEq)]
pub struct User {
    pub id: UserId,
    pub email: Email,
    pub name: DisplayName,
    pub account: UserAccount,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub enum UserAccount {
    Person {
        /// Argon2id hash in PHC string format. `None` if the person logs in only through an identity provider.
        password_hash: Option<String>,
        password_is_generated: bool,
    },
    Service {
        owner: UserId,
        /// Whether it is the account of an agent, which has limits in each of its organizations.
        is_agent: bool,
    },
}

impl UserAccount {
    pub fn kind(&self) -> &'static str {
        match self {
            UserAccount::Person { .. } => "person",
            UserAccount::Service { is_agent: false, .. } => "service",
            UserAccount::Service { is_agent: true, .. } => "agent",
        }
    }
}

impl FromRow for UserAccount {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let kind: String = row.take()?;
        if kind != "person" {
            let owner = row.take()?;
            row.skip(2);
            return Ok(UserAccount::Service { owner, is_agent: kind == "agent" });
        }
        row.skip(1);
        let (password_hash, password_is_generated) = row.take()?;
        Ok(UserAccount::Person { password_hash, password_is_generated })
    }
}

impl ToParams for UserAccount {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let (owner, hash, is_generated) = match self {
            UserAccount::Person { password_hash, password_is_generated } => {
                (None, password_hash.as_ref(), *password_is_generated)
            }
            UserAccount::Service { owner, .. } => (Some(owner), None, false),
        };
        (self.kind(), owner, hash, is_generated).to_params(params)
    }
}

pub fn by_id(db: &mut impl StoreRead, id: UserId) -> Result<Option<User>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_email(db: &mut impl StoreRead, email: &Email) -> Result<Option<User>, StoreError> {
    db.fetch_optional(&BY_EMAIL, &[email.key().into()])
}

pub fn put(tx: &mut Tx<'_>, user: &User) -> Result<(), StoreError> {
    tx.put(&PUT, user)
}
