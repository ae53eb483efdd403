// The contract with Berth. One process per call; nothing lives between calls.
//
//   <start> --input <json> --output <file> --log-dir <dir> --execution-id <id>
//
// The file named by --output is the answer. The exit code says nothing: a step that failed writes FAILED into the file.

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";

export type State = Record<string, unknown>;

export type Answer =
  // `data` becomes the outputs of the step: ${{ steps.<id>.<name> }}. No secrets: they are refused.
  | { status: "SUCCESS"; data?: Record<string, unknown> }
  | { status: "FAILED"; error: string; errorCode?: string }
  // People have to agree; then the step is called again with an `approval`.
  | { status: "APPROVAL_REQUIRED"; approvalRequest: { context?: string } }
  // It has begun something. What it remembers is stored before the next call, and handed over with it.
  | { status: "TRIGGERED"; pollingState: State }
  | { status: "POLL_AGAIN"; pollingState: State; retryAfterMs?: number };

export interface Context {
  /** Who agreed, once somebody has. */
  approval?: { approved: boolean; approverId: string };
  /** What the step answered to be remembered. */
  state?: State;
  /** Lines for the log of the step, with data if there is some. Secrets are masked in it. */
  log(message: string, data?: Record<string, unknown>): void;
}

export interface Step<Params> {
  /** Unique in this registry. In a pipeline it is `type: <registry>/<type in lower case>`. */
  type: string;
  name: string;
  shortDescription: string;
  /** JSON Schema. A pipeline is checked against it before anything runs, so say as much as you know. */
  schema: Record<string, unknown>;
  yamlExample?: string;
  run(params: Params, context: Context): Answer | Promise<Answer>;
}

type Task =
  | { job: "SYNTHESIZE-METADATA" }
  | {
      job: "EXECUTE";
      type: string;
      params: Record<string, unknown>;
      approvalContext?: { approved: boolean; approverId: string };
      pollingState?: State;
    };

// Steps with different params stand in one list: Berth has checked the params against the schema.
type AnyStep = Step<never>;

export async function serve(steps: AnyStep[]): Promise<void> {
  let answer: unknown;
  try {
    answer = await answerTo(JSON.parse(argument("--input")) as Task, steps);
  } catch (error) {
    // Without an answer nobody knows what happened, and somebody has to look. Say what is known.
    answer = { status: "FAILED", error: error instanceof Error ? error.message : String(error) };
  }
  writeFileSync(argument("--output"), JSON.stringify(answer));
}

async function answerTo(task: Task, steps: AnyStep[]): Promise<unknown> {
  if (task.job === "SYNTHESIZE-METADATA") {
    const metadata = steps.map(({ type, name, shortDescription, schema, yamlExample }) => ({
      stepType: type,
      name,
      shortDescription,
      yamlExample,
      paramsJsonSchema: schema,
    }));
    return { status: "SUCCESS", data: { metadata } };
  }
  const step = steps.find(({ type }) => type === task.type);
  if (!step) {
    return { status: "FAILED", error: `there is no step of the type ${task.type}`, errorCode: "STEP_NOT_FOUND" };
  }
  const file = join(argument("--log-dir"), `${argument("--execution-id")}.jsonl`);
  const log: Context["log"] = (message, data) => {
    const entry = { timestamp: new Date().toISOString(), level: "info", message, data };
    appendFileSync(file, `${JSON.stringify(entry)}\n`);
  };
  return step.run(task.params as never, { approval: task.approvalContext, state: task.pollingState, log });
}

function argument(name: string): string {
  const value = argv[argv.indexOf(name) + 1];
  if (!argv.includes(name) || value === undefined) throw new Error(`the argument ${name} is missing`);
  return value;
}
