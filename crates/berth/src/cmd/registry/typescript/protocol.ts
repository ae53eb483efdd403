// The protocol between Berth and this registry. One process per call; no process runs between calls.
//
//   <start> --input <json> --output <file> --log-dir <dir> --execution-id <id>
//
// The answer is the file named by --output. The exit code is ignored: a failed step writes FAILED to the file.

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";

export type State = Record<string, unknown>;

export type Answer =
  // `data` becomes the outputs of the step: ${{ steps.<id>.<name> }}. Outputs that contain secrets are refused.
  | { status: "SUCCESS"; data?: Record<string, unknown> }
  | { status: "FAILED"; error: string; errorCode?: string }
  // Needs an approval; then the step is called again with `approval` set.
  | { status: "APPROVAL_REQUIRED"; approvalRequest: { context?: string } }
  // Something was started. The state is stored and passed to the next call.
  | { status: "TRIGGERED"; pollingState: State }
  | { status: "POLL_AGAIN"; pollingState: State; retryAfterMs?: number };

export interface Context {
  /** Set once the step was approved. */
  approval?: { approved: boolean; approverId: string };
  /** The `pollingState` of the previous call. */
  state?: State;
  /** Writes a line, and optional data, to the log of the step. Secrets are masked. */
  log(message: string, data?: Record<string, unknown>): void;
}

export interface Step<Params> {
  /** Unique in this registry. In a pipeline it is `type: <registry>/<type in lower case>`. */
  type: string;
  name: string;
  shortDescription: string;
  /** JSON Schema of the params. Pipelines are checked against it before anything runs. */
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

// Steps have different params; Berth has checked them against the schema.
type AnyStep = Step<never>;

export async function serve(steps: AnyStep[]): Promise<void> {
  let answer: unknown;
  try {
    answer = await answerTo(JSON.parse(argument("--input")) as Task, steps);
  } catch (error) {
    // Without an answer the outcome would be unknown, so report the error.
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
    return { status: "FAILED", error: `no step of type ${task.type}`, errorCode: "STEP_NOT_FOUND" };
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
  if (!argv.includes(name) || value === undefined) throw new Error(`missing argument ${name}`);
  return value;
}
