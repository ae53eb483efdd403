// A long-running step: the first call starts it, later calls poll it.
//
// No process runs between calls. If the machine is lost, another one continues with the stored state.

import type { Step } from "../protocol.js";

interface Params {
  version: string;
  replicas?: number;
}

export const rollout: Step<Params> = {
  type: "ROLLOUT",
  name: "Roll out",
  shortDescription: "Starts a rollout and waits for it",
  schema: {
    type: "object",
    properties: {
      version: { type: "string", minLength: 1, description: "Version to roll out" },
      replicas: { type: "integer", minimum: 1, maximum: 10, default: 2, description: "Number of replicas" },
    },
    required: ["version"],
    additionalProperties: false,
  },
  yamlExample: "- name: Roll out\n  type: {{name}}/rollout\n  params: { version: v1 }\n  timeout: 10m\n",

  run({ version, replicas = 2 }, { state, log }) {
    if (!state) {
      // Start it here and store its id. Berth never repeats this call on its own if its outcome is unknown.
      log(`starting the rollout of ${version}`);
      return { status: "TRIGGERED", pollingState: { id: `rollout-${version}`, ready: 0 } };
    }
    // Check the progress here. This call may be repeated, so it must not change anything.
    const ready = Number(state["ready"]) + 1;
    log(`${ready} of ${replicas} are ready`);
    if (ready < replicas) {
      return { status: "POLL_AGAIN", pollingState: { ...state, ready }, retryAfterMs: 1000 };
    }
    return { status: "SUCCESS", data: { id: state["id"], ready } };
  },
};
