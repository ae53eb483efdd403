/** The API as tests use it: with a token, or signed in as somebody. */
import type { Person, World } from "./world";

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at by name
type Json = any;

export type Caller = (method: string, path: string, body?: unknown) => Promise<Json>;

function caller(world: World, headers: Record<string, string>): Caller {
  return async (method, path, body) => {
    const response = await fetch(`${world.base}/api/v1${path.replace("ORG", `organizations/${world.org}`)}`, {
      method,
      headers: { ...headers, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer.data;
  };
}

export function withToken(world: World): Caller {
  return caller(world, { Authorization: `Bearer ${world.token}` });
}

/** Logs in, and keeps the cookie with the person. */
export async function as(world: World, person: Person): Promise<Caller> {
  const response = await fetch(`${world.base}/api/v1/auth/login`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ email: person.email, password: person.password }),
  });
  if (!response.ok) throw new Error(`${person.email} cannot sign in: ${response.status}`);
  person.cookie = response.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  const { data } = await response.json();
  return caller(world, { Cookie: person.cookie, "X-Berth-CSRF": data.csrfToken });
}
