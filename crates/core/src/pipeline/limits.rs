//! Limits of a pipeline definition, with their units.

/// Maximum size of the file, checked before parsing.
pub const PIPELINE_BYTES_MAX: usize = 512 * 1024;

/// Maximum nesting of lists and mappings, with aliases expanded.
pub const YAML_DEPTH_MAX: usize = 64;
/// Maximum number of scalars, keys, lists and mappings, with aliases expanded.
pub const YAML_NODES_MAX: usize = 20_000;
pub const YAML_ALIASES_MAX: usize = 100;
/// Maximum size of the text with all aliases expanded, as a multiple of the file size.
pub const YAML_EXPANSION_PER_BYTE_MAX: usize = 2;
/// Expanded size that is always allowed, however short the file is; enough for fifty environments defined by aliases.
pub const YAML_EXPANSION_BASE_BYTES: usize = 64 * 1024;

pub const DIAGNOSTICS_MAX: usize = 100;
/// Longer source lines are truncated in diagnostics; otherwise a large one-line file would be returned with every
/// diagnostic.
pub const SOURCE_LINE_CHARS_MAX: usize = 400;
/// Longer quotes in messages are truncated.
pub const QUOTED_CHARS_MAX: usize = 80;
/// Maximum number of valid choices listed in a message.
pub const CHOICES_LISTED_MAX: usize = 24;
/// Longer words get no "did you mean" suggestion, because the comparison takes quadratic time.
pub const SUGGESTED_CHARS_MAX: usize = 64;

pub const STAGES_MAX: usize = 100;
/// Maximum number of build steps, and also of regular steps.
pub const STEPS_MAX: usize = 500;
pub const ENVIRONMENTS_MAX: usize = 200;
pub const NOTIFICATIONS_MAX: usize = 50;
/// Maximum number of items in all other lists: needs, skips, labels, paths, outputs, approvers.
pub const LIST_ITEMS_MAX: usize = 500;
/// Maximum number of entries in mappings with user-defined keys: vars, env, secret files, artifacts, params.
pub const MAP_ENTRIES_MAX: usize = 500;

pub const NAME_CHARS_MAX: usize = 63;
pub const SECRET_NAME_CHARS_MAX: usize = 128;
/// Maximum length of the audience of an ID token.
pub const AUDIENCE_CHARS_MAX: usize = 255;
pub const PATTERN_BYTES_MAX: usize = 1024;
pub const PATH_BYTES_MAX: usize = 1024;

/// The longest duration in seconds: one (leap) year.
pub const DURATION_S_MAX: u64 = 366 * 24 * 60 * 60;
/// How long a waiting claim stays in its class, in seconds.
pub const QUEUE_AGEING_S_MIN: u64 = 60;
pub const QUEUE_AGEING_S_DEFAULT: u64 = 30 * 60;
pub const STEP_TIMEOUT_S_MAX: u64 = 7 * 24 * 60 * 60;
pub const RETRY_ATTEMPTS_MAX: u32 = 10;
pub const RETRY_BACKOFF_S_MAX: u64 = 60 * 60;
pub const APPROVALS_MAX: u32 = 20;
