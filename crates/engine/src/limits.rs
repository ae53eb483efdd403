//! Limits of the engine, with units.

use crate::admission::AdmissionCapacity;

/// Concurrent and queued verifications of the audit log.
pub const HISTORY_CHECKS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 1);
pub const HISTORY_CHECKS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(128, 32);

/// Concurrent and queued checks of definitions, which can be large.
pub const DEFINITIONS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 1);
pub const DEFINITIONS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(64, 32);

/// Deployments being started. They share fsyncs, and one that waits for git delays few others of its organization.
pub const BEGUN_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(32, 16);
pub const BEGUN_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(2_048, 512);
/// Concurrent and queued planning operations.
pub const PLANS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(3, 2);
pub const PLANS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(64, 32);

/// Log reads that search or split lines.
pub const LOG_READS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 3);
pub const LOG_READS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(256, 128);

/// Concurrent attempts to grant a step to a waiting runner. They share the store with requests of session holders and
/// must not starve those.
pub const GRANTS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 3);
pub const GRANTS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(16_384, 5_000);
/// Sources and artifacts being packed or unpacked for runners.
pub const TRANSFERS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 3);
pub const TRANSFERS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(256, 128);

pub const MEMBERS_PER_ORGANIZATION_MAX: i64 = 5_000;
pub const SECRETS_PER_ORGANIZATION_MAX: i64 = 10_000;

/// Fix pull requests being created.
pub const FIXES_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 1);

/// Concurrent and queued git processes.
pub const GIT_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(6, 3);
pub const GIT_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(1_024, 256);
pub const MIRROR_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Branches and tags of one repository.
pub const MIRROR_REFS_MAX: usize = 50_000;
/// Number of packs, plus loose objects divided by 32, above which a mirror is repacked.
pub const MIRROR_FILES_MAX: usize = 200;
pub const CHECKOUT_FILES_MAX: usize = 200_000;
pub const CHECKOUT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Repositories being synced. A slow remote keeps its slot until git times out.
pub const SYNCS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 1);

/// Registries being checked and built.
pub const REGISTRY_BUILDS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 1);

/// Running analyses of failures; most of their time is spent waiting for a model.
pub const ANALYSES_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(8, 1);
/// Queued analyses of one organization. At this limit requests for more are refused, and failures are not analyzed
/// automatically.
pub const ANALYSES_WAITING_MAX: i64 = 1_000;

/// Webhook deliveries in flight. Each webhook has at most one.
pub const SENDS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(64, 16);
/// Test deliveries in flight.
pub const PINGS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(32, 4);

/// For the first deployment of a stage, the number of commits whose authors may not approve it.
pub const FIRST_CHANGE_COMMITS_MAX: usize = 250;
/// Commits between the deployed and the new commit whose authors are read. Beyond this, some authors are unknown.
pub const CHANGE_COMMITS_MAX: usize = 10_000;
/// Author addresses per change.
pub const CHANGE_AUTHORS_MAX: usize = 1_000;
