import type { Runner } from "@/api/types";

export function runnerName(runner: Runner): string {
  return runner.name ?? (runner.isEmbedded ? "Inside the server" : "Not registered yet");
}

const LEVELS: Record<string, string> = {
  bubblewrap: "isolated by bubblewrap",
  landlock: "restricted by Landlock",
  process: "not isolated",
};

/** How far steps are kept apart from their machine; nothing where no process was started. */
export function formatIsolation(level: string | null | undefined): string | undefined {
  return level == null || level === "none" ? undefined : (LEVELS[level] ?? level);
}

export function formatExposed(paths: string[]): string | undefined {
  return paths.length === 0 ? undefined : `can reach ${paths.join(", ")}`;
}
