// The simplest step: one call, one answer.

import type { Step } from "../protocol.js";

interface Params {
  who: string;
  greeting?: string;
}

export const greet: Step<Params> = {
  type: "GREET",
  name: "Greet",
  shortDescription: "Says hello",
  schema: {
    type: "object",
    properties: {
      who: { type: "string", minLength: 1, description: "Whom to greet" },
      greeting: { type: "string", default: "Hello", description: "Greeting to use" },
    },
    required: ["who"],
    additionalProperties: false,
  },
  yamlExample: "- name: Say hello\n  type: {{name}}/greet\n  params: { who: world }\n",

  run({ who, greeting = "Hello" }, { log }) {
    const text = `${greeting}, ${who}!`;
    log(text);
    // Pass secrets with `env` in the pipeline: `env: { TOKEN: "${{ secrets.TOKEN }}" }`, here `process.env.TOKEN`.
    return { status: "SUCCESS", data: { text } };
  },
};
