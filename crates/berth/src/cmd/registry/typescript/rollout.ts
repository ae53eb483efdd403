// A step for something that takes its time: the first call begins it, later ones look how far it is.
//
// Between two calls there is no process. The machine may die then, and another one goes on with what is remembered.

import type { Step } from "../protocol.js";

interface Params {
  version: string;
  replicas?: number;
}

export const rollout: Step<Params> = {
  type: "ROLLOUT",
  name: "Roll out",
  shortDescription: "Begins a rollout and waits until it is there",
  schema: {
    type: "object",
    properties: {
      version: { type: "string", minLength: 1, description: "What is rolled out" },
      replicas: { type: "integer", minimum: 1, maximum: 10, default: 2, description: "How many are wanted" },
    },
    required: ["version"],
    additionalProperties: false,
  },
  yamlExample: "- name: Roll out\n  type: {{name}}/rollout\n  params: { version: v1 }\n  timeout: 10m\n",

  run({ version, replicas = 2 }, { state, log }) {
    if (!state) {
      // Begin it here, once, and remember its id: an id is small, and no secret. Berth never repeats this call by
      // itself when its end is not known.
      log(`begins the rollout of ${version}`);
      return { status: "TRIGGERED", pollingState: { id: `rollout-${version}`, ready: 0 } };
    }
    // Ask here how far it is. This call may be repeated, so it must change nothing.
    const ready = Number(state["ready"]) + 1;
    log(`${ready} of ${replicas} are there`);
    if (ready < replicas) {
      return { status: "POLL_AGAIN", pollingState: { ...state, ready }, retryAfterMs: 1000 };
    }
    return { status: "SUCCESS", data: { id: state["id"], ready } };
  },
};
