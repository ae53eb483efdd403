//! Every limit on a pipeline definition, named with its unit.

/// The file itself, before anything is read.
pub const PIPELINE_BYTES_MAX: usize = 512 * 1024;

/// Lists and mappings inside one another, aliases followed.
pub const YAML_DEPTH_MAX: usize = 64;
/// Scalars, keys, lists and mappings, aliases followed.
pub const YAML_NODES_MAX: usize = 20_000;
pub const YAML_ALIASES_MAX: usize = 100;
/// How much text there may be with all aliases followed, for each byte of the file.
pub const YAML_EXPANSION_PER_BYTE_MAX: usize = 2;
/// A short file may repeat itself as if it were this long: fifty environments by alias are no attack.
pub const YAML_EXPANSION_BASE_BYTES: usize = 64 * 1024;

pub const DIAGNOSTICS_MAX: usize = 100;
/// A longer line is cut in a diagnostic, so that a file of one line is not sent back a hundred times.
pub const SOURCE_LINE_CHARS_MAX: usize = 400;
/// Text quoted inside a message is cut after this.
pub const QUOTED_CHARS_MAX: usize = 80;
/// "there is a, b and c" names at most so many.
pub const CHOICES_LISTED_MAX: usize = 20;
/// Longer words get no "did you mean": the comparison is quadratic.
pub const SUGGESTED_CHARS_MAX: usize = 64;

pub const STAGES_MAX: usize = 100;
/// Build steps and steps are counted apart.
pub const STEPS_MAX: usize = 500;
pub const ENVIRONMENTS_MAX: usize = 200;
pub const NOTIFICATIONS_MAX: usize = 50;
/// Any other list: needs, skips, labels, paths, outputs, approvers.
pub const LIST_ITEMS_MAX: usize = 500;
/// Any mapping with names of the author's choice: vars, env, secret files, artifacts, params.
pub const MAP_ENTRIES_MAX: usize = 500;

pub const NAME_CHARS_MAX: usize = 63;
pub const SECRET_NAME_CHARS_MAX: usize = 128;
pub const PATTERN_BYTES_MAX: usize = 1024;
pub const PATH_BYTES_MAX: usize = 1024;

/// The longest duration that can be written anywhere: a year.
pub const DURATION_S_MAX: u64 = 366 * 24 * 60 * 60;
pub const STEP_TIMEOUT_S_MAX: u64 = 7 * 24 * 60 * 60;
pub const RETRY_ATTEMPTS_MAX: u32 = 10;
pub const RETRY_BACKOFF_S_MAX: u64 = 60 * 60;
pub const APPROVALS_MAX: u32 = 20;
