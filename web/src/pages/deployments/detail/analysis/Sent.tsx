import { Code } from "@mantine/core";
import { escapeBidi } from "@/ui/escape";

/** A request as text: JSON is laid out, and the line ends inside of it are line ends. */
export function Sent({ body, label }: { body: string; label: string }) {
  return (
    <Code
      block
      tabIndex={0}
      role="region"
      aria-label={label}
      mah="24rem"
      style={{ overflow: "auto", whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}
    >
      {escapeBidi(laidOut(body))}
    </Code>
  );
}

function laidOut(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2).replaceAll("\\n", "\n");
  } catch {
    return body;
  }
}
