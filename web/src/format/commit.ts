const SHORT = 8;

/** A commit as people quote it: hashes are cut, names of branches and tags stay whole. */
export function shortCommit(commit: string): string {
  return /^[0-9a-f]{20,64}$/.test(commit) ? commit.slice(0, SHORT) : commit;
}
