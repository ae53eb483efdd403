/** API client: typed by openapi.json, authenticated by the login cookie and its CSRF token. */
import createClient, { type Middleware } from "openapi-fetch";
import { ProblemError, parseProblem } from "./problem";
import type { paths } from "./schema.gen";

let csrfToken: string | null = null;
let onLoggedOut: () => void = () => {};
let onSecondFactorMissing: () => void = () => {};
let confirmPassword: () => Promise<boolean> = async () => false;

/** Sets the CSRF token from `GET /me`; it is sent with every request that changes something. */
export function setCsrfToken(token: string | null | undefined) {
  csrfToken = token ?? null;
}

/** Sets the handler for responses with status 401. */
export function setLoggedOutHandler(act: () => void) {
  onLoggedOut = act;
}

/** Sets the handler for requests to an organization that requires a second factor which the account lacks. */
export function setSecondFactorHandler(act: () => void) {
  onSecondFactorMissing = act;
}

/** Sets the prompt for the user's password; it resolves to false when the user cancels. */
export function setPasswordPrompt(ask: () => Promise<boolean>) {
  confirmPassword = ask;
}

const csrfMiddleware: Middleware = {
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
  if (!(await requiresPassword(response))) return response;
  return (await confirmPassword()) ? fetch(repeat) : response;
}

async function requiresPassword(response: Response): Promise<boolean> {
  if (response.status !== 403) return false;
  const problem: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  return parseProblem(problem, response).code === "reauthentication_required";
}

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin", fetch: send });
api.use(csrfMiddleware);

type ApiResult<T> = { data?: T; error?: unknown; response: Response };

/** Returns the body of a successful response; throws a `ProblemError` otherwise. Text is the type of endpoints that can also stream. */
export async function fetchBody<T>(request: Promise<ApiResult<T>>): Promise<Exclude<T, string>> {
  let answer: ApiResult<T>;
  try {
    answer = await request;
  } catch {
    throw ProblemError.unreachable();
  }
  if (answer.response.ok && answer.data !== undefined) return answer.data as Exclude<T, string>;
  const problem = parseProblem(answer.error, answer.response);
  if (problem.status === 401 && !answer.response.url.endsWith("/auth/login")) onLoggedOut();
  if (problem.code === "second_factor_required") onSecondFactorMissing();
  throw new ProblemError(problem);
}

/** Returns the `data` member of a successful response. */
export async function fetchData<Body extends { data: unknown }>(
  request: Promise<ApiResult<Body | string>>,
): Promise<Body["data"]> {
  return ((await fetchBody(request)) as Body).data;
}
