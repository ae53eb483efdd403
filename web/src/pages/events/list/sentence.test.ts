import { expect, test } from "vitest";
import type { Event } from "@/api/types";
import { groupEvents } from "./groups";
import { splitSentence } from "./sentence";

type Part = Partial<Omit<Event, "kind">> & { kind?: string };

function makeEvent(part: Part): Event {
  const actor = { type: "user", name: "ada", id: "usr_1", tokenId: null };
  return { id: "evt_1", kind: "secret_created", actor, subjects: [], summary: "", ...part } as Event;
}

const linksOf = (part: Part) =>
  splitSentence(makeEvent(part), "acme").flatMap(({ text, link }) =>
    link ? [[text, link.to, ...(link.search ? [link.search] : [])]] : [],
  );

const PIPELINE = { type: "pipeline", id: "pl_1", name: null };
const DEPLOYMENT = { type: "deployment", id: "dep_1", name: null };

test("the actor, the environment and the pipeline of a claim are links", () => {
  const subjects = [{ type: "environment", id: "env_1", name: "qa-1" }, PIPELINE];
  const summary = "ada claimed qa-1 of shop: qa-1 for ada";
  expect(linksOf({ kind: "session_claimed", subjects, summary })).toEqual([
    ["ada", "/o/acme/settings/members/usr_1"],
    ["qa-1", "/o/acme/environments/pl_1/qa-1"],
    ["shop", "/o/acme/pipelines/pl_1"],
  ]);
});

test("a deployment, a stage and a step lead to the deployment", () => {
  const actor = { type: "system", name: "berth", id: null, tokenId: null } as const;
  const subjects = [DEPLOYMENT, PIPELINE];
  const link = (summary: string, more: Event["subjects"] = []) =>
    linksOf({ kind: "step_failed", actor, summary, subjects: [...subjects, ...more] })[0];
  expect(link("Deployment #7 of shop (v1) failed")).toEqual(["Deployment #7", "/o/acme/deployments/dep_1"]);
  expect(link("Stage staging of shop failed")).toEqual(["Stage staging", "/o/acme/deployments/dep_1"]);
  expect(
    link("Step deploy in staging of shop failed", [{ type: "step", id: "stp_1", name: "deploy" }]),
  ).toEqual(["Step deploy", "/o/acme/deployments/dep_1", { step: "stp_1" }]);
});

test("a member added by another one of the same name is the second mention", () => {
  const subjects = [{ type: "user", id: "usr_2", name: "ada" }];
  expect(linksOf({ kind: "member_added", subjects, summary: "ada added the member ada" })).toEqual([
    ["ada", "/o/acme/settings/members/usr_1"],
    ["ada", "/o/acme/settings/members/usr_2"],
  ]);
});

test("what was deleted is no link, and names are not patterns", () => {
  const subjects = [{ type: "secret", id: "sec_1", name: "A.*" }];
  expect(linksOf({ kind: "secret_deleted", subjects, summary: "ada deleted the secret A.*" })).toHaveLength(
    1,
  );
  expect(linksOf({ subjects, summary: "ada created the secret Abc" })).toHaveLength(1);
  expect(linksOf({ subjects, summary: "ada created the secret A.*" })).toHaveLength(2);
});

test("pieces join to the summary", () => {
  const subjects = [DEPLOYMENT, PIPELINE];
  const summary = "ada rolled production of shop back: deployment #3 was slow";
  const pieces = splitSentence(makeEvent({ kind: "deployment_rolled_back", subjects, summary }), "acme");
  expect(pieces.map(each => each.text).join("")).toBe(summary);
});

test("events are grouped by deployment, at the newest, under the newest event of the deployment itself", () => {
  const of = (id: string, kind: string, deployment?: string) =>
    makeEvent({ id, kind, subjects: deployment ? [{ ...DEPLOYMENT, id: deployment }] : [] });
  const groups = groupEvents([
    of("5", "step_failed", "dep_1"),
    of("4", "login_succeeded"),
    of("3", "deployment_started", "dep_1"),
    of("2", "deployment_queued", "dep_2"),
    of("1", "deployment_queued", "dep_1"),
  ]);
  expect(groups.map(({ head, events }) => [head.id, events.map(each => each.id)])).toEqual([
    ["3", ["5", "3", "1"]],
    ["4", ["4"]],
    ["2", ["2"]],
  ]);
});
