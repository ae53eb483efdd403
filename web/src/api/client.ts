/** API client: typed by openapi.json, authenticated by the login cookie and its CSRF token. */
import createClient, { type Middleware } from "openapi-fetch";
import { asProblem, ProblemError } from "./problem";
import type { paths } from "./schema.gen";

let csrfToken: string | null = null;
let onSignedOut: () => void = () => {};
let confirmPassword: () => Promise<boolean> = async () => false;

/** Sets the CSRF token from `GET /me`; it is sent with every request that changes something. */
export function rememberCsrfToken(token: string | null | undefined) {
  csrfToken = token ?? null;
}

/** Sets the handler for responses with status 401. */
export function whenSignedOut(act: () => void) {
  onSignedOut = act;
}

/** Sets the prompt for the user's password; it resolves to false when the user cancels. */
export function whenPasswordNeeded(ask: () => Promise<boolean>) {
  confirmPassword = ask;
}

const browser: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && csrfToken) request.headers.set("X-Berth-CSRF", csrfToken);
    return request;
  },
};

/** Sends a request. If the server requires reauthentication, asks for the password and repeats the request once. */
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

/** Returns the body of a successful response; throws a `ProblemError` otherwise. Text is the type of endpoints that can also stream. */
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

/** Returns the `data` member of a successful response. */
export async function data<Body extends { data: unknown }>(
  request: Promise<Answer<Body | string>>,
): Promise<Body["data"]> {
  return ((await body(request)) as Body).data;
}
