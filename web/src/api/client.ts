/** The one way to the server: typed by openapi.json, with the sign-in cookie and its CSRF token. */
import createClient, { type Middleware } from "openapi-fetch";
import { asProblem, ProblemError } from "./problem";
import type { paths } from "./schema.gen";

let csrfToken: string | null = null;
let onSignedOut: () => void = () => {};
let confirmPassword: () => Promise<boolean> = async () => false;

/** The token of `GET /me`, sent back with every change. */
export function rememberCsrfToken(token: string | null | undefined) {
  csrfToken = token ?? null;
}

/** What happens when an answer says that nobody is signed in. */
export function whenSignedOut(act: () => void) {
  onSignedOut = act;
}

/** How the person is asked for their password; resolves to false when they cancel. */
export function whenPasswordNeeded(ask: () => Promise<boolean>) {
  confirmPassword = ask;
}

const browser: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrfToken) request.headers.set("X-Berth-CSRF", csrfToken);
    return request;
  },
};

/** Sends a request. Where the server wants the password first, asks for it and repeats the request once. */
async function send(request: Request): Promise<Response> {
  if (request.method === "GET") return fetch(request);
  const repeat = request.clone();
  const response = await fetch(request);
  if (!(await wantsPassword(response))) return response;
  return (await confirmPassword()) ? fetch(repeat) : response;
}

async function wantsPassword(response: Response): Promise<boolean> {
  if (response.status !== 403) return false;
  const problem: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  return asProblem(problem, response).code === "reauthentication_required";
}

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin", fetch: send });
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
