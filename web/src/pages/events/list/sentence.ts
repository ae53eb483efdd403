/** Splits the summary of an event into text and links to what it names. */
import type { Event } from "@/api/types";

export type LinkTarget = { to: string; search?: Record<string, string> };
export type SentencePiece = { text: string; link?: LinkTarget; isActor?: boolean };

type Mention = Omit<SentencePiece, "text"> & { pattern: RegExp };

/** Pages of records below the settings; `one` if each record has its own page. */
const SETTINGS_PAGES: Record<string, { page: string; one: boolean }> = {
  user: { page: "members", one: true },
  invitation: { page: "members", one: false },
  team: { page: "teams", one: true },
  token: { page: "tokens", one: false },
  secret: { page: "secrets", one: false },
  repository: { page: "repositories", one: true },
  webhook: { page: "webhooks", one: true },
  registry: { page: "custom-steps", one: true },
  runner: { page: "runners", one: false },
};

export function splitSentence(event: Event, org: string): SentencePiece[] {
  const found: (Omit<SentencePiece, "text"> & { from: number; to: number })[] = [];
  for (const { pattern, ...rest } of listMentions(event, `/o/${encodeURIComponent(org)}`)) {
    for (const match of event.summary.matchAll(pattern)) {
      const [from, to] = [match.index, match.index + match[0].length];
      if (found.some(other => from < other.to && other.from < to)) continue;
      found.push({ ...rest, from, to });
      break;
    }
  }
  const pieces: SentencePiece[] = [];
  let at = 0;
  for (const { from, to, ...rest } of found.sort((a, b) => a.from - b.from)) {
    if (from > at) pieces.push({ text: event.summary.slice(at, from) });
    pieces.push({ text: event.summary.slice(from, to), ...rest });
    at = to;
  }
  if (at < event.summary.length) pieces.push({ text: event.summary.slice(at) });
  return pieces;
}

/** What the summary may mention; the first ones win if they overlap. */
function listMentions(event: Event, base: string): Mention[] {
  const { actor, subjects } = event;
  const subject = (type: string) => subjects.find(each => each.type === type);
  const [deployment, environment, pipeline, step] = ["deployment", "environment", "pipeline", "step"].map(
    subject,
  );
  const mentions: Mention[] = [];
  const add = (pattern: RegExp, to: string, search?: Record<string, string>) =>
    mentions.push({ pattern, link: { to, ...(search && { search }) } });

  if (actor.type !== "system")
    mentions.push({
      pattern: matchName(actor.name),
      isActor: true,
      ...(actor.id && { link: { to: `${base}/settings/members/${actor.id}` } }),
    });
  if (deployment) {
    const page = `${base}/deployments/${deployment.id}`;
    if (step)
      add(new RegExp(`\\bStep ${escapePattern(step.name ?? "")}(?![\\w-])`, "g"), page, { step: step.id });
    else add(/\b[Dd]eployment(?: #\d+)?\b|^Stage [\w-]+/g, page);
  }
  if (environment?.name && pipeline)
    add(matchName(environment.name), `${base}/environments/${pipeline.id}/${environment.name}`);
  const isGone = /_(?:deleted|removed|revoked)$/.test(event.kind);
  if (pipeline && !isGone)
    add(
      pipeline.name ? matchName(pipeline.name) : /(?<= of )[a-z0-9-]+/g,
      `${base}/pipelines/${pipeline.id}`,
    );
  for (const { type, id, name } of isGone ? [] : subjects) {
    const settings = SETTINGS_PAGES[type];
    if (settings && name)
      add(matchName(name), `${base}/settings/${settings.page}${settings.one ? `/${id}` : ""}`);
  }
  return mentions;
}

/** Matches a name as a whole word. */
function matchName(name: string): RegExp {
  return new RegExp(`(?<![\\w-])${escapePattern(name)}(?![\\w-])`, "g");
}

function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}
