import { List } from "@mantine/core";
import type { components } from "@/api/schema.gen";
import { InlineCode } from "../InlineCode";

type Diagnostic = components["schemas"]["Diagnostic"];

/** Problems in a definition, with their lines. */
export function DiagnosticList({ diagnostics }: { diagnostics: Diagnostic[] }) {
  return (
    <List size="sm" listStyleType="disc">
      {diagnostics.map(each => (
        <List.Item key={`${each.pointer}${each.code}${each.line}`} className="wrap">
          Line {each.line}: <InlineCode text={each.message} />
          {each.suggestion && !each.message.includes(each.suggestion) && ` Suggestion: ${each.suggestion}`}
        </List.Item>
      ))}
    </List>
  );
}
