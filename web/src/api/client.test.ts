import { afterEach, expect, test, vi } from "vitest";
import { api, fetchData, setPasswordPrompt } from "./client";

const CONFIRM = { code: "reauthentication_required", detail: "confirm your password", status: 403 };
const FORBIDDEN = { code: "forbidden", detail: "permission denied", status: 403 };

function respond(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
}

/** Stubs `fetch` with these responses, in order; returns the request bodies. */
function stubResponses(...responses: Response[]): string[] {
  const sent: string[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    sent.push(await request.text());
    const next = responses.shift();
    if (!next) throw new Error("unexpected request");
    return next;
  });
  return sent;
}

function createToken() {
  return fetchData(
    api.POST("/api/v1/organizations/{orgId}/api-tokens", {
      baseUrl: "http://berth.test",
      params: { path: { orgId: "acme" } },
      body: { name: "laptop" },
    }),
  );
}

function answerPrompt(isConfirmed: boolean) {
  const ask = vi.fn(async () => isConfirmed);
  setPasswordPrompt(ask);
  return ask;
}

afterEach(() => vi.unstubAllGlobals());

test("a request that requires reauthentication is repeated once after the password is confirmed", async () => {
  const sent = stubResponses(respond(403, CONFIRM), respond(201, { data: { id: "tok_1" } }));
  const ask = answerPrompt(true);
  expect(await createToken()).toEqual({ id: "tok_1" });
  expect(ask).toHaveBeenCalledTimes(1);
  expect(sent).toEqual(['{"name":"laptop"}', '{"name":"laptop"}']);
});

test("a repeated request that still requires reauthentication fails without a second prompt", async () => {
  const sent = stubResponses(respond(403, CONFIRM), respond(403, CONFIRM));
  const ask = answerPrompt(true);
  await expect(createToken()).rejects.toThrow(CONFIRM.detail);
  expect(ask).toHaveBeenCalledTimes(1);
  expect(sent).toHaveLength(2);
});

test("a request whose password prompt is cancelled fails with the original problem", async () => {
  const sent = stubResponses(respond(403, CONFIRM));
  answerPrompt(false);
  await expect(createToken()).rejects.toMatchObject({ problem: CONFIRM });
  expect(sent).toHaveLength(1);
});

test("a request that fails with another 403 does not prompt for the password", async () => {
  stubResponses(respond(403, FORBIDDEN));
  const ask = answerPrompt(true);
  await expect(createToken()).rejects.toThrow(FORBIDDEN.detail);
  expect(ask).not.toHaveBeenCalled();
});
