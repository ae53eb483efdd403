/** Texts about pull requests and their environments. */
import type { PullRequestClaim } from "@/api/types";
import { formatRoughDuration, formatSince } from "@/format/time";

/** 1st, 2nd, 3rd, 4th, 11th. */
export function formatOrdinal(number: number): string {
  const isTeen = Math.floor((number % 100) / 10) === 1;
  const suffix = isTeen ? undefined : { 1: "st", 2: "nd", 3: "rd" }[number % 10];
  return `${number}${suffix ?? "th"}`;
}

/** "2nd in queue for qa-1, about 12 min", "qa-1 until 16:00", "stopped in qa-1". */
export function formatClaim(claim: PullRequestClaim, now: number): string {
  const { name } = claim.environment;
  switch (claim.state) {
    case "queued": {
      const position = claim.position == null ? "waiting" : `${formatOrdinal(claim.position)} in queue`;
      const eta = claim.etaSeconds == null ? "" : `, about ${formatRoughDuration(claim.etaSeconds)}`;
      return `${position} for ${name}${eta}`;
    }
    case "held":
      return claim.expiresAt ? `${name} until ${formatSince(claim.expiresAt, now)}` : name;
    case "stopped":
      return `stopped in ${name}`;
  }
}

/** The path of the repository in the URL of a pull request: "acme/shop". */
export function formatRepositoryOf(url: string): string {
  const path = URL.canParse(url) ? new URL(url).pathname : url;
  return path.replace(/\/(-\/merge_requests|pulls?|pull-requests)\/\d+\/?$/, "").replace(/^\//, "");
}
