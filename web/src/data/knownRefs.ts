/** Branches, tags and commits that are known to exist in a pipeline's repository. */
import { useQuery } from "@tanstack/react-query";
import type { Deployment } from "@/api/types";
import { recentDeploymentsQuery } from "./deployments";
import { pipelineQuery } from "./pipelines";
import { openPullRequestsQuery } from "./pullRequests";

export type KnownRef = { name: string; detail: string };

export type KnownRefs = {
  /** The tracked branch first, then pull requests, then what was deployed recently. */
  refs: KnownRef[];
  /** Names that the newest deployment of them could not find. */
  missing: string[];
};

const HASH = /^[0-9a-f]{7,64}$/i;

export function isHash(name: string): boolean {
  return HASH.test(name);
}

/** Names that deployments resolved, newest first, each once. */
export function listDeployedRefs(deployments: Deployment[]): KnownRef[] {
  const found = new Map<string, KnownRef>();
  for (const { commitId, resolvedCommitId, commit } of deployments) {
    if (!resolvedCommitId || isHash(commitId) || found.has(commitId)) continue;
    found.set(commitId, { name: commitId, detail: commit?.title ?? "deployed recently" });
  }
  return [...found.values()];
}

/** Names that the newest deployment of them did not find in the repository. */
export function listMissingRefs(deployments: Deployment[]): string[] {
  const newest = new Map<string, Deployment>();
  for (const each of deployments) if (!newest.has(each.commitId)) newest.set(each.commitId, each);
  return [...newest.values()].filter(each => each.cause === "commit_not_found").map(each => each.commitId);
}

/** Known names of a pipeline's repository; none for a pipeline without one, which accepts any name. */
export function useKnownRefs(org: string, pipelineId: string): KnownRefs {
  const pipeline = useQuery(pipelineQuery(org, pipelineId)).data;
  const repository = pipeline?.repository;
  const hasRepository = repository != null;
  const deployments = useQuery({ ...recentDeploymentsQuery(org, pipelineId), enabled: hasRepository }).data;
  const pullRequests = useQuery({ ...openPullRequestsQuery(org), enabled: hasRepository }).data;
  if (!repository) return { refs: [], missing: [] };
  const all = [
    ...(pipeline.tracks ? [{ name: pipeline.tracks, detail: "tracked branch" }] : []),
    ...(pullRequests?.data ?? [])
      .filter(each => each.repositoryId === repository.id && !each.isFork)
      .map(each => ({ name: each.headBranch, detail: `#${each.number} ${each.title}` })),
    ...listDeployedRefs(deployments?.data ?? []),
  ];
  const byName = new Map([...all].reverse().map(each => [each.name, each]));
  const names = [...new Set(all.map(each => each.name))];
  return {
    refs: names.flatMap(name => byName.get(name) ?? []),
    missing: listMissingRefs(deployments?.data ?? []),
  };
}

/** Why a name is doubtful: it was not found before, or is so similar to a known one that it may be mistyped. */
export type RefDoubt = { similar?: string; isMissing: boolean };

/** Whether a name may be mistyped. The server knows all branches, so an unknown name alone is not doubtful. */
export function findDoubt(name: string, { refs, missing }: KnownRefs): RefDoubt | null {
  const wanted = name.trim().replace(/^refs\/(heads|tags)\//, "");
  if (wanted === "" || isHash(wanted) || refs.some(each => each.name === wanted)) return null;
  const near = refs
    .map(each => ({ name: each.name, distance: editDistance(wanted.toLowerCase(), each.name.toLowerCase()) }))
    .filter(each => withoutDigits(each.name) !== withoutDigits(wanted))
    .sort((a, b) => a.distance - b.distance)[0];
  const isNear = near && near.distance <= Math.min(2, wanted.length / 2);
  const isMissing = missing.includes(wanted);
  return isNear ? { similar: near.name, isMissing } : isMissing ? { isMissing } : null;
}

/** Versions differ in their digits on purpose. */
function withoutDigits(name: string): string {
  return name.replace(/\d/g, "");
}

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1);
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
