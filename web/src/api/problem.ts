/** Problem details of the API (RFC 9457), and the texts shown for them. */
import { formatAlternatives, formatScopeName } from "@/format/access";
import type { components } from "./schema.gen";

export type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  code: string;
  requestId: string;
  errors?: components["schemas"]["InputError"][];
};

export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }

  static unreachable() {
    return new ProblemError({
      type: "about:blank",
      title: "Cannot reach the server",
      status: 0,
      detail:
        "Check your network connection and that the server is running. This page reconnects automatically.",
      instance: "",
      code: "unreachable",
      requestId: "",
    });
  }
}

/** Returns the problem in an error response, or a generic one if the body is not a problem. */
export function parseProblem(error: unknown, response: Response): Problem {
  if (isProblem(error)) return error;
  return {
    type: "about:blank",
    title: "Unexpected response",
    status: response.status,
    detail: `The server or a proxy in front of it returned status ${response.status}.`,
    instance: "",
    code: "unexpected",
    requestId: response.headers.get("x-request-id") ?? "",
  };
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "code" in value && "detail" in value;
}

/** Returns the problem of any thrown value. */
export function toProblem(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  const detail = error instanceof Error ? error.message : "An unexpected error occurred.";
  return { ...ProblemError.unreachable().problem, title: "This page failed to load", detail, code: "page" };
}

/** Returns the error of one request field, by its JSON pointer. */
export function fieldError(error: unknown, pointer: string): string | undefined {
  return toProblem(error).errors?.find(each => each.pointer === pointer)?.detail;
}

/** Returns an extension member of a problem, such as `holder` of `environment_locked`. */
export function problemMember<T>(problem: Problem, name: string): T | undefined {
  return (problem as Record<string, unknown>)[name] as T | undefined;
}

/** Returns whom to ask for a missing permission: “Ask Ada or Grace for stages:deploy on stage:shop@production.” */
function suggestGrantor(problem: Problem): string {
  const permission = problemMember<string>(problem, "permission");
  const scope = problemMember<string>(problem, "scope");
  const names = problemMember<string[]>(problem, "grantedBy") ?? [];
  const whom = names.length > 0 ? formatAlternatives(names) : "an admin of this organization";
  if (!permission) return `Ask ${whom} for access.`;
  return `Ask ${whom} for the permission ${permission}${scope && scope !== "org" ? ` on ${formatScopeName(scope)}` : ""}.`;
}

/** Returns what the user can do about a problem, or null. */
export function suggestAction(problem: Problem): string | null {
  switch (problem.code) {
    case "unreachable":
    case "unavailable":
      return "Try again in a moment.";
    case "unauthenticated":
      return "Log in again.";
    case "forbidden":
      return suggestGrantor(problem);
    case "not_found":
      return "It may have been deleted, or the link belongs to another organization.";
    case "precondition_failed":
    case "session_not_active":
      return "It has changed in the meantime. The page now shows its current state.";
    case "second_factor_required":
      return "Open your profile to set it up.";
    case "rate_limited":
      return "Wait a moment, then try again.";
    case "internal":
      return "Send the request ID to your server administrator to find the log entry.";
    default:
      return null;
  }
}
