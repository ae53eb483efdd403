import type { Runner } from "@/api/types";

export function formatRunnerName(runner: Runner): string {
  return runner.name ?? (runner.isEmbedded ? "Built-in runner" : "Not registered yet");
}

const LEVELS: Record<string, string> = {
  bubblewrap: "isolated by bubblewrap",
  container: "in a container",
  landlock: "restricted by Landlock",
  process: "not isolated",
};

/** How steps are isolated from their machine; undefined if no process was started. */
export function formatIsolation(level: string | null | undefined): string | undefined {
  return level == null || level === "none" ? undefined : (LEVELS[level] ?? level);
}

export function formatNetwork(network: string | null | undefined): string | undefined {
  return network === "none" ? "no network" : network === "bridge" ? "own network" : undefined;
}

export function formatExposed(paths: string[]): string | undefined {
  return paths.length === 0 ? undefined : `with access to ${paths.join(", ")}`;
}
