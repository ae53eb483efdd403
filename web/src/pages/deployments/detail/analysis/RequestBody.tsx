import { Code } from "@mantine/core";
import { escapeBidi } from "@/ui/escape";

/** Body of a request. JSON is indented, and escaped line breaks in it are shown as line breaks. */
export function RequestBody({ body, label }: { body: string; label: string }) {
  return (
    <Code
      block
      tabIndex={0}
      role="region"
      aria-label={label}
      mah="24rem"
      style={{ overflow: "auto", whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}
    >
      {escapeBidi(formatJson(body))}
    </Code>
  );
}

function formatJson(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2).replaceAll("\\n", "\n");
  } catch {
    return body;
  }
}
