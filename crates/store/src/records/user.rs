//! Users: people, who sign in, and service accounts, which only have tokens.

use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

statements! {
    Instance Read BY_ID = "SELECT id, email, name, kind, owner_id, password_hash, password_is_generated, created_at
        FROM users WHERE id = $1";
    Instance Read BY_EMAIL = "SELECT id, email, name, kind, owner_id, password_hash, password_is_generated, created_at
        FROM users WHERE email_key = $1";
    // An account is of no organization, so no trail can hold it: whoever changes one records what that means in each.
    Instance Upkeep PUT = "INSERT INTO users
        (id, email, email_key, name, kind, owner_id, password_hash, password_is_generated, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, password_hash = excluded.password_hash,
          password_is_generated = excluded.password_is_generated";
}

#[derive(Debug, Clone, PartialEq)]
pub struct User {
    pub id: UserId,
    pub email: Email,
    pub name: DisplayName,
    pub account: Account,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Account {
    Person {
        /// Argon2id, in PHC form.
        password_hash: String,
        password_is_generated: bool,
    },
    Service {
        owner: UserId,
    },
}

impl Account {
    pub fn kind(&self) -> &'static str {
        match self {
            Account::Person { .. } => "person",
            Account::Service { .. } => "service",
        }
    }
}

fn read(row: &Row) -> Result<User, StoreError> {
    let account = match row.text(3)? {
        "service" => Account::Service { owner: row.parse(4)? },
        _ => Account::Person {
            password_hash: row.text(5)?.to_owned(),
            password_is_generated: row.int(6)? != 0,
        },
    };
    Ok(User { id: row.parse(0)?, email: row.name(1)?, name: row.name(2)?, account, created_at: row.time(7)? })
}

pub fn by_id(db: &mut impl Read, id: UserId) -> Result<Option<User>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn by_email(db: &mut impl Read, email: &Email) -> Result<Option<User>, StoreError> {
    db.row(&BY_EMAIL, &[email.key().into()])?.as_ref().map(read).transpose()
}

pub fn put(tx: &mut Tx<'_>, user: &User) -> Result<(), StoreError> {
    let (owner, hash, generated) = match &user.account {
        Account::Person { password_hash, password_is_generated } => {
            (None, Some(password_hash.as_str()), *password_is_generated)
        }
        Account::Service { owner } => (Some(*owner), None, false),
    };
    let params = [
        text(user.id),
        text(&user.email),
        user.email.key().into(),
        text(&user.name),
        user.account.kind().into(),
        owner.map(text).into(),
        hash.into(),
        generated.into(),
        user.created_at.into(),
    ];
    tx.execute_one(&PUT, &params)
}
