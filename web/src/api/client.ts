/** The one way to the server: typed by openapi.json, with the sign-in cookie and its CSRF token. */
import createClient, { type Middleware } from "openapi-fetch";
import { asProblem, ProblemError } from "./problem";
import type { paths } from "./schema.gen";

let csrfToken: string | null = null;
let onSignedOut: () => void = () => {};

/** The token of `GET /me`, sent back with every change. */
export function rememberCsrfToken(token: string | null | undefined) {
  csrfToken = token ?? null;
}

/** What happens when an answer says that nobody is signed in. */
export function whenSignedOut(act: () => void) {
  onSignedOut = act;
}

const browser: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrfToken) request.headers.set("X-Berth-CSRF", csrfToken);
    return request;
  },
};

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin" });
api.use(browser);

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** The body of a good answer; a problem is thrown. Where an address can also stream, its text is not what we asked for. */
export async function body<T>(request: Promise<Answer<T>>): Promise<Exclude<T, string>> {
  let answer: Answer<T>;
  try {
    answer = await request;
  } catch {
    throw ProblemError.unreachable();
  }
  if (answer.response.ok && answer.data !== undefined) return answer.data as Exclude<T, string>;
  const problem = asProblem(answer.error, answer.response);
  if (problem.status === 401 && !answer.response.url.endsWith("/auth/login")) onSignedOut();
  throw new ProblemError(problem);
}

/** The `data` member of a good answer. */
export async function data<Body extends { data: unknown }>(
  request: Promise<Answer<Body | string>>,
): Promise<Body["data"]> {
  return ((await body(request)) as Body).data;
}
