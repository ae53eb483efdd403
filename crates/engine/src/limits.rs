//! Limits of the engine, each with its unit.

use crate::admission::Capacity;

/// Histories checked at once; so many wait.
pub const HISTORY_CHECKS_AT_ONCE: Capacity = Capacity::new(2, 1);
pub const HISTORY_CHECKS_WAITING_MAX: Capacity = Capacity::new(128, 32);

/// Definitions can be large: so many are checked at once, so many wait.
pub const DEFINITIONS_AT_ONCE: Capacity = Capacity::new(2, 1);
pub const DEFINITIONS_WAITING_MAX: Capacity = Capacity::new(64, 32);

/// Deployments begun at once: they share flushes, and one that waits for git holds up few others of its organization.
pub const BEGUN_AT_ONCE: Capacity = Capacity::new(32, 16);
pub const BEGUN_WAITING_MAX: Capacity = Capacity::new(2_048, 512);
/// Plans made at once; so many wait.
pub const PLANS_AT_ONCE: Capacity = Capacity::new(3, 2);
pub const PLANS_WAITING_MAX: Capacity = Capacity::new(64, 32);

/// Logs cut into lines or searched at once; so many wait.
pub const LOG_READS_AT_ONCE: Capacity = Capacity::new(4, 3);
pub const LOG_READS_WAITING_MAX: Capacity = Capacity::new(256, 128);

/// Attempts at once to grant a step to a runner that waits for one. They share the store with callers that hold an
/// environment, and must not queue before them.
pub const GRANTS_AT_ONCE: Capacity = Capacity::new(4, 3);
pub const GRANTS_WAITING_MAX: Capacity = Capacity::new(16_384, 5_000);
/// Sources and artifacts packed or unpacked for runners at once; so many wait.
pub const TRANSFERS_AT_ONCE: Capacity = Capacity::new(4, 3);
pub const TRANSFERS_WAITING_MAX: Capacity = Capacity::new(256, 128);

pub const MEMBERS_PER_ORGANIZATION_MAX: i64 = 5_000;
pub const SECRETS_PER_ORGANIZATION_MAX: i64 = 10_000;

/// Fix pull requests made at once.
pub const FIXES_AT_ONCE: Capacity = Capacity::new(2, 1);

/// Runs of git at once; so many wait.
pub const GIT_AT_ONCE: Capacity = Capacity::new(6, 3);
pub const GIT_WAITING_MAX: Capacity = Capacity::new(1_024, 256);
pub const MIRROR_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Branches and tags of one repository.
pub const MIRROR_REFS_MAX: usize = 50_000;
/// Packs and loose objects, thirty-two for one, before they are packed together.
pub const MIRROR_FILES_MAX: usize = 200;
pub const CHECKOUT_FILES_MAX: usize = 200_000;
pub const CHECKOUT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Repositories synced at once. A remote that sends a byte now and then keeps its place until git is stopped.
pub const SYNCS_AT_ONCE: Capacity = Capacity::new(4, 1);

/// Registries looked at and built at once.
pub const REGISTRY_BUILDS_AT_ONCE: Capacity = Capacity::new(2, 1);

/// Failures looked into at once. Most of that time a model is waited for.
pub const ANALYSES_AT_ONCE: Capacity = Capacity::new(8, 1);
/// Queued analyses of one organization. At this limit requests for more are refused, and failures are not analyzed
/// automatically.
pub const ANALYSES_WAITING_MAX: i64 = 1_000;

/// Tries under way at once. One webhook has one.
pub const SENDS_AT_ONCE: Capacity = Capacity::new(64, 16);
/// Try-outs under way at once.
pub const PINGS_AT_ONCE: Capacity = Capacity::new(32, 4);

/// Commits of the first deployment of a stage whose authors may not approve it.
pub const FIRST_CHANGE_COMMITS_MAX: usize = 250;
/// Commits between what a stage has and what it gets whose authors are read. Of more, some authors are unknown.
pub const CHANGE_COMMITS_MAX: usize = 10_000;
/// Their addresses.
pub const CHANGE_AUTHORS_MAX: usize = 1_000;
