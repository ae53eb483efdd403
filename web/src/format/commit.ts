const SHORT = 8;

/** Shortens commit hashes; returns names of branches and tags unchanged. */
export function formatCommit(commit: string): string {
  return /^[0-9a-f]{20,64}$/.test(commit) ? commit.slice(0, SHORT) : commit;
}
