/** What an analysis says about itself, as people read it. */
import type { Analysis, FixPullRequest } from "@/api/types";

const CATEGORIES: Record<string, string> = {
  tls: "certificate",
  command: "command",
  runner: "machine",
};

export function formatCategory(category: string): string {
  return CATEGORIES[category] ?? category.replaceAll("_", " ");
}

export const CONFIDENCE: Record<NonNullable<Analysis["confidence"]>, string> = {
  high: "quite sure",
  medium: "probably",
  low: "a guess",
};

/** Only a model is called AI: the rules are written down. */
export function isModel(analyser: string | null | undefined): boolean {
  return analyser != null && analyser !== "rules";
}

export function formatAnalyser({ analyser, rule }: Pick<Analysis, "analyser" | "rule">): string {
  if (isModel(analyser)) return `AI answered: ${analyser}`;
  return rule ? `Found by the rule ${rule}, without AI` : "Looked at by rules, without AI";
}

export function formatLines({ firstLine, lastLine }: { firstLine: number; lastLine: number }): string {
  return firstLine === lastLine ? `Line ${firstLine}` : `Lines ${firstLine}–${lastLine}`;
}

export function linesAddress({ firstLine, lastLine }: { firstLine: number; lastLine: number }): string {
  return firstLine === lastLine ? `L${firstLine}` : `L${firstLine}-L${lastLine}`;
}

export function formatPullRequest({ state, number }: FixPullRequest): string {
  switch (state) {
    case "opening":
      return "The pull request is being made…";
    case "open":
      return `Pull request${number == null ? "" : ` ${number}`} waits for a person to merge it.`;
    case "pushed":
      return "The branch is pushed. Open a pull request of it by hand: this remote has no API that Berth may use.";
    case "failed":
      return "It could not be made. Nothing was changed.";
    case "merged":
      return `Pull request${number == null ? "" : ` ${number}`} was merged. If it fails again in the same way, another fix may be proposed.`;
    case "closed":
      return `Pull request${number == null ? "" : ` ${number}`} was closed without being merged. Another one may be proposed.`;
  }
}

/** A URL from outside, if it is HTTP or HTTPS. */
export function pageAddress(url: string | null | undefined): string | undefined {
  return url != null && /^https?:\/\//i.test(url) ? url : undefined;
}
