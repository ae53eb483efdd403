// A step that needs an approval: the first call describes what it would do, the second one does it.

import type { Step } from "../protocol.js";

interface Params {
  table: string;
}

export const wipe: Step<Params> = {
  type: "WIPE",
  name: "Wipe",
  shortDescription: "Empties a table after an approval",
  schema: {
    type: "object",
    properties: { table: { type: "string", minLength: 1, description: "Table to empty" } },
    required: ["table"],
    additionalProperties: false,
  },
  yamlExample: "- name: Wipe\n  type: {{name}}/wipe\n  params: { table: sessions }\n",

  run({ table }, { approval, log }) {
    if (!approval) {
      // Shown to the approvers. Describe the effect here.
      return { status: "APPROVAL_REQUIRED", approvalRequest: { context: `empties the table ${table}` } };
    }
    log(`emptying ${table}, approved by ${approval.approverId}`);
    return { status: "SUCCESS", data: { table } };
  },
};
