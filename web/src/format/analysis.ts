/** Texts for failure analyses. */
import type { Analysis, FixPullRequest } from "@/api/types";

const CATEGORIES: Record<string, string> = {
  tls: "certificate",
  command: "command",
  runner: "runner",
};

export function formatCategory(category: string): string {
  return CATEGORIES[category] ?? category.replaceAll("_", " ");
}

export const CONFIDENCE_LABEL: Record<NonNullable<Analysis["confidence"]>, string> = {
  high: "high confidence",
  medium: "medium confidence",
  low: "low confidence",
};

/** Whether a model produced the analysis. Rules are not called AI. */
export function isModelAnalyzer(analyser: string | null | undefined): boolean {
  return analyser != null && analyser !== "rules";
}

export function formatAnalyser({ analyser, rule }: Pick<Analysis, "analyser" | "rule">): string {
  if (isModelAnalyzer(analyser)) return `Analyzed by AI (${analyser})`;
  return rule ? `Matched rule ${rule} (no AI)` : "Analyzed by rules (no AI)";
}

export function formatLines({ firstLine, lastLine }: { firstLine: number; lastLine: number }): string {
  return firstLine === lastLine ? `Line ${firstLine}` : `Lines ${firstLine}–${lastLine}`;
}

export function formatLineRange({ firstLine, lastLine }: { firstLine: number; lastLine: number }): string {
  return firstLine === lastLine ? `L${firstLine}` : `L${firstLine}-L${lastLine}`;
}

export function formatPullRequest({ state, number }: FixPullRequest): string {
  switch (state) {
    case "opening":
      return "Opening the pull request…";
    case "open":
      return `Pull request${number == null ? "" : ` #${number}`} is open.`;
    case "pushed":
      return "Branch pushed. Open a pull request yourself: Berth has no API access to this remote.";
    case "failed":
      return "The pull request could not be opened. Nothing was changed.";
    case "merged":
      return `Pull request${number == null ? "" : ` #${number}`} was merged.`;
    case "closed":
      return `Pull request${number == null ? "" : ` #${number}`} was closed without merging.`;
  }
}

/** Returns an untrusted URL if it is HTTP or HTTPS. */
export function safeUrl(url: string | null | undefined): string | undefined {
  return url != null && /^https?:\/\//i.test(url) ? url : undefined;
}
