//! API tokens. Only the hash of a token is stored.

use std::sync::Arc;

use berth_core::access::{EffectiveAccess, Role, TokenRestriction};
use berth_core::client_info::ClientInfo;
use berth_core::event::Actor;
use berth_core::id::{EnvironmentId, OrgId, TokenId, UserId};
use berth_core::name::{DisplayName, EnvName, Slug};
use berth_core::time::Timestamp;

use super::provider_identity::{self, AccountStanding};
use super::{grant, second_factor};
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_bounded_count, fetch_page};
use crate::sql::value::text;
use crate::sql::{
    BoundRead, FromRow, RowReader, SqlText, TableRow as _, ToParams as _, from_row, json_columns, sql,
    statements, table,
};
use crate::tx::{StoreRead, Tx};

/// Maximum number of valid tokens that a user can have in one organization.
pub const TOKENS_PER_USER_MAX: i64 = 100;

table!(Org Token in api_tokens {
    key: [id],
    insert: [user: user_id, name, prefix, created_at, expires_at, restriction, environment: environment_id],
    read: [last_used_at, last_used_address, last_used_client, revoked_at],
});

/// Appends columns about the account `u` in the organization `o`: whether a required second factor is missing, and how
/// many identities at identity providers it has. Most accounts have none, so their standing need not be read.
const fn with_standing(select: &'static str) -> SqlText {
    sql(select).then(", CAST(CASE WHEN ").then(second_factor::IS_MISSING_TEXT).then(
        " THEN 1 ELSE 0 END AS BIGINT),
          (SELECT CAST(COUNT(*) AS BIGINT) FROM provider_identities i WHERE i.user_id = u.id)",
    )
}

statements! {
    // A token has no permissions of its own, so the query loads the caller, the organization and the caller's current
    // role.
    Instance Read CALLER_BY_HASH => with_standing("SELECT t.id, t.org_id, o.slug, u.id, u.name,
          CAST(CASE u.kind WHEN 'person' THEN 0 ELSE 1 END AS BIGINT), CAST(CASE u.kind WHEN 'agent' THEN 1 ELSE 0 END AS BIGINT), m.role, t.last_used_at, t.expires_at, t.restriction, t.environment_id, p.slug, e.name").then(",
          (SELECT CAST(COUNT(*) AS BIGINT) FROM grants g
            WHERE g.org_id = m.org_id AND g.subject_kind = 'user' AND g.subject_id = m.user_id),
          (SELECT CAST(COUNT(*) AS BIGINT) FROM team_members tm WHERE tm.org_id = m.org_id AND tm.user_id = m.user_id)
        FROM api_tokens t JOIN organizations o ON o.id = t.org_id JOIN users u ON u.id = t.user_id
        JOIN memberships m ON m.user_id = t.user_id AND m.org_id = t.org_id
        LEFT JOIN environments e ON e.org_id = t.org_id AND e.id = t.environment_id
        LEFT JOIN pipelines p ON p.org_id = e.org_id AND p.id = e.pipeline_id
        WHERE t.hash = $1 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $2)");
    Org Read BY_ID => Token::TABLE.select("WHERE org_id = $1 AND id = $2");
    Org Read LIST => Token::TABLE.select("WHERE org_id = $1 AND revoked_at IS NULL AND environment_id IS NULL
        AND (CAST($2 AS TEXT) IS NULL OR user_id = $2) AND id > $3 ORDER BY id LIMIT $4 OFFSET $5");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT id FROM api_tokens
        WHERE org_id = $1 AND revoked_at IS NULL AND environment_id IS NULL
          AND (CAST($2 AS TEXT) IS NULL OR user_id = $2) LIMIT $3) AS counted";
    Org Read STANDING => with_standing("SELECT t.org_id, t.user_id, CAST(CASE u.kind WHEN 'agent' THEN 1 ELSE 0 END AS BIGINT), m.role, t.expires_at, t.restriction, t.environment_id, p.slug, e.name").then("
        FROM api_tokens t JOIN memberships m ON m.org_id = t.org_id AND m.user_id = t.user_id
        JOIN organizations o ON o.id = t.org_id JOIN users u ON u.id = t.user_id
        LEFT JOIN environments e ON e.org_id = t.org_id AND e.id = t.environment_id
        LEFT JOIN pipelines p ON p.org_id = e.org_id AND p.id = e.pipeline_id
        WHERE t.org_id = $1 AND t.id = $2 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $3)");
    Org Read COUNT_OF_USER = "SELECT CAST(COUNT(*) AS BIGINT) FROM api_tokens
        WHERE org_id = $1 AND user_id = $2 AND revoked_at IS NULL AND environment_id IS NULL
          AND (expires_at IS NULL OR expires_at > $3)";
    Org Write INSERT = "INSERT INTO api_tokens
        (org_id, id, user_id, name, prefix, created_at, expires_at, restriction, environment_id, hash, created_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    Org Read CREATOR = "SELECT created_by FROM api_tokens WHERE org_id = $1 AND id = $2";
    Org Write REVOKE = "UPDATE api_tokens SET revoked_at = $3 WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL";
    Org Write REVOKE_OF_USER = "UPDATE api_tokens SET revoked_at = $3
        WHERE org_id = $1 AND user_id = $2 AND revoked_at IS NULL";
    Instance Upkeep DELETE_ENDED = "DELETE FROM api_tokens WHERE environment_id IS NOT NULL AND expires_at <= $1";
    Org Upkeep USED = "UPDATE api_tokens SET last_used_at = $3, last_used_address = $4, last_used_client = $5
        WHERE org_id = $1 AND id = $2";
}

#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub id: TokenId,
    pub user: UserId,
    pub name: DisplayName,
    /// The first characters of the token, so that users can recognize it.
    pub prefix: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// What the token is limited to. `None` for a token with all permissions of its owner.
    pub restriction: Option<Vec<TokenRestriction>>,
    /// For a session token: the environment of its session.
    pub environment: Option<EnvironmentId>,
    pub last_used_at: Option<Timestamp>,
    pub last_used_address: Option<String>,
    /// `User-Agent` of the last use.
    pub last_used_client: Option<String>,
    pub revoked_at: Option<Timestamp>,
}
json_columns!(Vec<TokenRestriction>);

/// The caller that a token authenticates.
#[derive(Debug, Clone)]
pub struct TokenCaller {
    pub token: TokenId,
    pub org: OrgId,
    pub org_slug: Slug,
    pub user: UserId,
    pub user_name: DisplayName,
    pub is_service: bool,
    /// Whether it is an agent. Agents are service accounts, too.
    pub is_agent: bool,
    pub access: EffectiveAccess,
    pub last_used_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// For a session token: the environment of its session.
    pub environment: Option<EnvironmentId>,
    /// Whether the identity providers of the token's owner vouch for the owner.
    pub standing: AccountStanding,
}

/// A caller without its scoped grants and standing, which are read only if there can be any.
struct CallerRow {
    caller: TokenCaller,
    /// Number of the account's identities at identity providers.
    identities: i64,
    /// Number of grants to the member itself.
    grants: i64,
    /// Number of the member's teams, which may have grants.
    teams: i64,
}

impl FromRow for CallerRow {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (token, org, org_slug): (_, _, _) = row.take()?;
        let (user, user_name, is_service, is_agent): (_, _, _, _) = row.take()?;
        let (role, last_used_at, expires_at): (Role, _, _) = row.take()?;
        let TokenLimits { restriction, environment } = row.take()?;
        let (is_factor_missing, identities, grants, teams): (bool, _, _, _) = row.take()?;
        let access =
            EffectiveAccess { restriction, is_agent, is_factor_missing, ..EffectiveAccess::of_role(role) };
        let caller = TokenCaller {
            token,
            org,
            org_slug,
            user,
            user_name,
            is_service,
            is_agent,
            access,
            last_used_at,
            expires_at,
            environment,
            standing: AccountStanding::Local,
        };
        Ok(Self { caller, identities, grants, teams })
    }
}

/// Columns: restriction, environment_id, and the names of that environment's pipeline and of the environment.
struct TokenLimits {
    restriction: Option<Arc<[TokenRestriction]>>,
    environment: Option<EnvironmentId>,
}

impl FromRow for TokenLimits {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (restriction, environment): (Option<Vec<TokenRestriction>>, _) = row.take()?;
        let names: (Option<Slug>, Option<EnvName>) = row.take()?;
        let restriction = match (environment, names) {
            (None, _) => restriction.map(Into::into),
            (Some(_), (Some(pipeline), Some(name))) => {
                Some([TokenRestriction::of_session(&pipeline, &name)].into())
            }
            // The environment is gone, so the token allows nothing.
            (Some(_), _) => Some(Arc::default()),
        };
        Ok(Self { restriction, environment })
    }
}

pub fn find_caller(
    db: &mut impl StoreRead,
    hash: &[u8],
    now: Timestamp,
) -> Result<Option<TokenCaller>, StoreError> {
    let found: Option<CallerRow> = db.fetch_optional(&CALLER_BY_HASH, &[hash.into(), now.into()])?;
    let Some(CallerRow { mut caller, identities, grants, teams }) = found else { return Ok(None) };
    let (org, user) = (caller.org, caller.user);
    let (may_have_grants, has_identities) = (grants + teams > 0, identities > 0);
    if may_have_grants && has_identities {
        db.read_ahead(|_| {
            vec![grant::read_of_member_in(org, user), provider_identity::read_of_standing(org, user)]
        })?;
    }
    if may_have_grants {
        caller.access.grants = grant::list_of_member_in(db, org, user)?;
    }
    if has_identities {
        caller.standing = provider_identity::load_standing(db, org, user)?;
    }
    Ok(Some(caller))
}

pub fn by_id(db: &mut impl StoreRead, id: TokenId) -> Result<Option<Token>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

/// Lists the tokens of one user or of the whole organization, except revoked tokens.
pub fn list(
    db: &mut impl StoreRead,
    of: Option<UserId>,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Token>, StoreError> {
    let filter = [of.map(text).into()];
    let total = fetch_bounded_count(db, &COUNT, &filter)?;
    Ok(fetch_page(db, &LIST, &filter, from.by_id(), limit)?.with_total(total))
}

/// What the token currently allows, and its expiry.
pub struct TokenAccess {
    pub access: EffectiveAccess,
    pub expires_at: Option<Timestamp>,
}

/// The first reads of [`find_access`] for a token of this user, to be read ahead.
pub fn reads_of_access(db: &impl StoreRead, id: TokenId, user: UserId) -> Vec<BoundRead> {
    vec![read_of_owner(db, id), grant::read_of_member(user)]
}

fn read_of_owner(db: &impl StoreRead, id: TokenId) -> BoundRead {
    BoundRead::new(&STANDING, [text(id), db.now().into()])
}

/// The current access of the token. `None` if the token is no longer valid, its user is no longer a member, or no
/// identity provider vouches for the user.
pub fn find_access(db: &mut impl StoreRead, id: TokenId) -> Result<Option<TokenAccess>, StoreError> {
    let found: Vec<TokenOwner> = db.fetch_bound(&read_of_owner(db, id))?;
    let Some(owner) = found.into_iter().next() else { return Ok(None) };
    let TokenOwner { org, user, is_agent, role, expires_at, limits, is_factor_missing, identities } = owner;
    if identities > 0 && !provider_identity::load_standing(db, org, user)?.is_good() {
        return Ok(None);
    }
    let grants = grant::list_of_member(db, user)?;
    let access =
        EffectiveAccess { role, grants, restriction: limits.restriction, is_factor_missing, is_agent };
    Ok(Some(TokenAccess { access, expires_at }))
}

struct TokenOwner {
    org: OrgId,
    user: UserId,
    is_agent: bool,
    role: Role,
    expires_at: Option<Timestamp>,
    limits: TokenLimits,
    is_factor_missing: bool,
    /// Number of the user's identities at identity providers.
    identities: i64,
}
from_row!(TokenOwner { org, user, is_agent, role, expires_at, limits, is_factor_missing, identities });

pub fn count_of_user(db: &mut impl StoreRead, user: UserId, now: Timestamp) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT_OF_USER, &[text(user), now.into()])
}

/// Inserts a token. The actor of the transaction is stored as its creator.
pub fn insert(tx: &mut Tx<'_>, token: &Token, hash: &[u8]) -> Result<(), StoreError> {
    let mut params = Vec::new();
    token.to_params(&mut params)?;
    (hash, tx.actor()).to_params(&mut params)?;
    tx.execute_one(&INSERT, &params)
}

/// The creator of a token, even if the token was revoked. `None` if the creator was not stored.
pub fn find_creator(db: &mut impl StoreRead, id: TokenId) -> Result<Option<Actor>, StoreError> {
    Ok(db.fetch_optional(&CREATOR, &[text(id)])?.flatten())
}

pub fn revoke(tx: &mut Tx<'_>, id: TokenId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute_one(&REVOKE, &[text(id), now.into()])
}

pub fn revoke_all_of_user(tx: &mut Tx<'_>, user: UserId) -> Result<u64, StoreError> {
    let now = tx.now();
    tx.execute(&REVOKE_OF_USER, &[text(user), now.into()])
}

/// Deletes session tokens that have expired. Their sessions have ended or were given up long before.
pub fn delete_expired_of_sessions(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_ENDED, &[now.into()]).map(drop)
}

/// Records that a token has just been used by this client.
pub fn touch(tx: &mut Tx<'_>, id: TokenId, client: &ClientInfo) -> Result<(), StoreError> {
    let now = tx.now();
    let params = [text(id), now.into(), text(client.address()), client.user_agent().into()];
    tx.execute(&USED, &params).map(drop)
}
