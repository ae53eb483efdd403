/** API clients for tests: with a token, or logged in as a user. */
import type { Person, World } from "./world";

// biome-ignore lint/suspicious/noExplicitAny: tests access members of responses by name
type Json = any;

export type ApiCaller = (method: string, path: string, body?: unknown) => Promise<Json>;

/** The organization that a caller works in. */
type Place = Pick<World, "server" | "org">;

function createCaller(world: Place, headers: Record<string, string>): ApiCaller {
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

export function withToken(world: Place & Pick<World, "token">): ApiCaller {
  return createCaller(world, { Authorization: `Bearer ${world.token}` });
}

/** Logs in and stores the cookie in `person`. */
export function logInAs(world: World, person: Person): Promise<ApiCaller> {
  return authenticate(world, person, "login", { email: person.email, password: person.password });
}

/** Adds a member: creates an invitation and signs up with its link. */
export async function addMember(world: World, person: Person, name: string, role: string) {
  const { url } = await withToken(world)("POST", "/ORG/invitations", { email: person.email, name, role });
  await authenticate(world, person, "sign-up", { token: tokenInLink(url), password: person.password });
}

/** Returns the token in the fragment of a link. */
export function tokenInLink(link: string): string {
  return new URL(link).hash.slice(1);
}

async function authenticate(world: World, person: Person, way: string, body: object): Promise<ApiCaller> {
  const response = await fetch(`${world.server}/api/v1/auth/${way}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${way} of ${person.email}: ${response.status} ${await response.text()}`);
  person.cookie = response.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  const { data } = await response.json();
  return createCaller(world, { Cookie: person.cookie, "X-Berth-CSRF": data.csrfToken });
}
