// A step that asks people first. It is called once to say what it would do, and again when somebody has agreed.

import type { Step } from "../protocol.js";

interface Params {
  table: string;
}

export const wipe: Step<Params> = {
  type: "WIPE",
  name: "Wipe",
  shortDescription: "Empties a table, after somebody has agreed",
  schema: {
    type: "object",
    properties: { table: { type: "string", minLength: 1, description: "The table that is emptied" } },
    required: ["table"],
    additionalProperties: false,
  },
  yamlExample: "- name: Wipe\n  type: {{name}}/wipe\n  params: { table: sessions }\n",

  run({ table }, { approval, log }) {
    if (!approval) {
      // This is what they are shown. Look here how much it would be.
      return { status: "APPROVAL_REQUIRED", approvalRequest: { context: `empties the table ${table}` } };
    }
    log(`empties ${table}: ${approval.approverId} has agreed`);
    return { status: "SUCCESS", data: { table } };
  },
};
