import { Stack, Text } from "@mantine/core";
import type { Analysis } from "@/api/types";
import { When } from "@/ui/When";
import { Sent } from "./Sent";

/** Everything that left the server for a model, as it was sent. */
export function Requests({ requests }: { requests: Analysis["requests"] }) {
  if (requests.length === 0) return null;
  return (
    <details className="more">
      <summary>What was sent to the model</summary>
      <Stack gap="md" mt="xs">
        {requests.map(each => (
          <Stack key={each.number} gap={4}>
            <Text size="sm" className="wrap">
              <When at={each.sentAt} /> to <code>{each.url}</code>:{" "}
              {each.error ?? (each.status == null ? "no answer" : `answered ${each.status}`)},{" "}
              {each.usage.inputTokens.toLocaleString()} tokens in and{" "}
              {each.usage.outputTokens.toLocaleString()} out.
            </Text>
            <Text size="xs" c="dimmed" className="wrap">
              SHA-256 <code>{each.hash}</code>, as in the history
            </Text>
            {each.body == null ? (
              <Text size="sm" c="dimmed">
                Your role cannot see what was sent: it holds source files.
              </Text>
            ) : (
              <Sent body={each.body} label={`Request ${each.number}`} />
            )}
          </Stack>
        ))}
      </Stack>
    </details>
  );
}
