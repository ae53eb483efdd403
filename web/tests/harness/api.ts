/** API clients for tests: with a token, or logged in as a user. */
import type { Person, World } from "./world";

// biome-ignore lint/suspicious/noExplicitAny: tests access members of responses by name
type Json = any;

export type Caller = (method: string, path: string, body?: unknown) => Promise<Json>;

function caller(world: World, headers: Record<string, string>): Caller {
  return async (method, path, body) => {
    const response = await fetch(
      `${world.server}/api/v1${path.replace("ORG", `organizations/${world.org}`)}`,
      {
        method,
        headers: { ...headers, "Content-Type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
      },
    );
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer.data;
  };
}

export function withToken(world: World): Caller {
  return caller(world, { Authorization: `Bearer ${world.token}` });
}

/** Logs in and stores the cookie in `person`. */
export function as(world: World, person: Person): Promise<Caller> {
  return enter(world, person, "login", { email: person.email, password: person.password });
}

/** Adds a member: creates an invitation and signs up with its link. */
export async function addMember(world: World, person: Person, name: string, role: string) {
  const { url } = await withToken(world)("POST", "/ORG/invitations", { email: person.email, name, role });
  await enter(world, person, "sign-up", { token: tokenOf(url), password: person.password });
}

/** Returns the token in the fragment of a link. */
export function tokenOf(link: string): string {
  return new URL(link).hash.slice(1);
}

async function enter(world: World, person: Person, way: string, body: object): Promise<Caller> {
  const response = await fetch(`${world.server}/api/v1/auth/${way}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${way} of ${person.email}: ${response.status} ${await response.text()}`);
  person.cookie = response.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  const { data } = await response.json();
  return caller(world, { Cookie: person.cookie, "X-Berth-CSRF": data.csrfToken });
}
