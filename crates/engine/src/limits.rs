//! Limits of the engine. Each [`AdmissionCapacity`] consists of the total and the share of one organization.

use crate::admission::AdmissionCapacity;

/// Maximum number of concurrent verifications of the audit log. The next constant limits the queued ones.
pub const HISTORY_CHECKS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 1);
pub const HISTORY_CHECKS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(128, 32);

/// Maximum number of concurrent checks of definitions, which can be large. The next constant limits the queued ones.
pub const DEFINITIONS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 1);
pub const DEFINITIONS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(64, 32);

/// Maximum number of deployments being started at the same time. It is high because concurrent starts share fsyncs, and
/// because a start that waits for git should not delay other starts of its organization.
pub const BEGUN_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(32, 16);
pub const BEGUN_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(2_048, 512);
/// Maximum number of concurrent planning operations. The next constant limits the queued ones.
pub const PLANS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(3, 2);
pub const PLANS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(64, 32);

/// Maximum number of concurrent log reads that search the log or split it into lines.
pub const LOG_READS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 3);
pub const LOG_READS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(256, 128);

/// Maximum number of concurrent grants to waiting runners. Grants share the store with the requests of session holders
/// and must not starve them.
pub const GRANTS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 3);
pub const GRANTS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(16_384, 5_000);
/// Maximum number of sources and artifacts being packed or unpacked for runners at the same time.
pub const TRANSFERS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 3);
pub const TRANSFERS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(256, 128);

pub const MEMBERS_PER_ORGANIZATION_MAX: i64 = 5_000;
pub const SECRETS_PER_ORGANIZATION_MAX: i64 = 10_000;

/// Maximum number of pull requests with fixes being created at the same time.
pub const FIXES_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 1);

/// Maximum number of concurrent git processes. The next constant limits the queued ones.
pub const GIT_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(6, 3);
pub const GIT_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(1_024, 256);
pub const MIRROR_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum number of branches and tags in one repository.
pub const MIRROR_REFS_MAX: usize = 50_000;
/// Maximum number of pull requests in one mirror.
pub const MIRROR_PULL_REQUESTS_MAX: usize = 10_000;
/// A mirror is repacked when its number of packs, plus its number of loose objects divided by 32, exceeds this limit.
pub const MIRROR_FILES_MAX: usize = 200;
/// Maximum number of submodules in a checkout, including nested ones.
pub const SUBMODULES_MAX: usize = 100;
/// Maximum depth of nested submodules.
pub const SUBMODULE_DEPTH_MAX: usize = 5;
/// Maximum number of submodule mirrors kept for a repository. The least recently used are removed.
pub const SUBMODULE_MIRRORS_MAX: usize = 200;
/// Maximum number of commits kept in the mirror of a submodule. Above this, the mirror is created again.
pub const SUBMODULE_COMMITS_MAX: usize = 1_000;
/// Maximum size of a `.gitmodules` file.
pub const SUBMODULE_SETTINGS_BYTES_MAX: u64 = 256 * 1024;
/// Maximum size of the files of Git LFS that are kept for a repository. Above this, files that the current checkout does
/// not need are removed.
pub const LFS_CACHE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
pub const CHECKOUT_FILES_MAX: usize = 200_000;
pub const CHECKOUT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Maximum number of repositories being synced at the same time. A slow remote occupies its slot until git times out.
pub const SYNCS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 1);

/// Maximum number of registries being checked and built at the same time.
pub const REGISTRY_BUILDS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 1);

/// Maximum number of failure analyses running at the same time. They spend most of their time waiting for a model.
pub const ANALYSES_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(8, 1);
/// Maximum number of queued analyses per organization. At this limit, requests for another analysis are refused, and
/// new failures are not analyzed automatically.
pub const ANALYSES_WAITING_MAX: i64 = 1_000;

/// Maximum number of webhook deliveries in flight. Each webhook has at most one delivery in flight.
pub const SENDS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(64, 16);
/// Maximum number of test deliveries in flight.
pub const PINGS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(32, 4);

/// Maximum number of commits whose authors are read for the first deployment to a stage. These authors may be barred
/// from approving it.
pub const FIRST_CHANGE_COMMITS_MAX: usize = 250;
/// Maximum number of commits between the deployed and the new commit whose authors are read. If there are more, not all
/// authors are known.
pub const CHANGE_COMMITS_MAX: usize = 10_000;
/// Maximum number of author addresses per change.
pub const CHANGE_AUTHORS_MAX: usize = 1_000;
