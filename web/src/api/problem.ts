/** Problems as the API tells them (RFC 9457), and as people read them. */
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
      title: "The server does not answer",
      status: 0,
      detail: "Is it running, and is your network up? This page tries again by itself.",
      instance: "",
      code: "unreachable",
      requestId: "",
    });
  }
}

/** Whatever came back, as a problem. */
export function asProblem(error: unknown, response: Response): Problem {
  if (isProblem(error)) return error;
  return {
    type: "about:blank",
    title: "Unexpected answer",
    status: response.status,
    detail: `The server, or something in front of it, answered ${response.status}.`,
    instance: "",
    code: "unexpected",
    requestId: response.headers.get("x-request-id") ?? "",
  };
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "code" in value && "detail" in value;
}

export function problemOf(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  const detail = error instanceof Error ? error.message : "Something unexpected happened in this page.";
  return { ...ProblemError.unreachable().problem, title: "This page broke", detail, code: "page" };
}

/** What is wrong with one field of what was sent, by its JSON pointer. */
export function fieldProblem(error: unknown, pointer: string): string | undefined {
  return problemOf(error).errors?.find(each => each.pointer === pointer)?.detail;
}

/** A further member of a problem, such as `holder` of `environment_locked`. */
export function member<T>(problem: Problem, name: string): T | undefined {
  return (problem as Record<string, unknown>)[name] as T | undefined;
}

/** What to do about it, where there is something to do. */
export function advice(problem: Problem): string | null {
  const required = member<string>(problem, "requiredPermission");
  switch (problem.code) {
    case "unreachable":
    case "unavailable":
      return "Nothing was lost. Try again in a moment.";
    case "unauthenticated":
      return "Log in again.";
    case "forbidden":
      return `Ask an admin of this organization${required ? ` for ${required}` : ""}.`;
    case "not_found":
      return "It may have been deleted, or the link is for another organization.";
    case "precondition_failed":
    case "session_not_active":
      return "It changed while you were looking. The page shows the new state now.";
    case "rate_limited":
      return "Wait a moment, then try again.";
    case "internal":
      return "Give the request id to whoever runs this server: it leads to the log line.";
    default:
      return null;
  }
}
