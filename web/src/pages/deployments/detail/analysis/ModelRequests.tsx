import { Stack, Text } from "@mantine/core";
import type { Analysis } from "@/api/types";
import { RelativeTime } from "@/ui/RelativeTime";
import { RequestBody } from "./RequestBody";

/** Requests that were sent to the model. */
export function ModelRequests({ requests }: { requests: Analysis["requests"] }) {
  if (requests.length === 0) return null;
  return (
    <details className="more">
      <summary>Requests sent to the model</summary>
      <Stack gap="md" mt="xs">
        {requests.map(each => (
          <Stack key={each.number} gap={4}>
            <Text size="sm" className="wrap">
              <RelativeTime at={each.sentAt} /> to <code>{each.url}</code>:{" "}
              {each.error ?? (each.status == null ? "no response" : `status ${each.status}`)},{" "}
              {each.usage.inputTokens.toLocaleString()} input tokens,{" "}
              {each.usage.outputTokens.toLocaleString()} output tokens
            </Text>
            <Text size="xs" c="dimmed" className="wrap">
              SHA-256 <code>{each.hash}</code>, as in the audit log
            </Text>
            {each.body == null ? (
              <Text size="sm" c="dimmed">
                You don’t have permission to see the request: it contains source code.
              </Text>
            ) : (
              <RequestBody body={each.body} label={`Request ${each.number}`} />
            )}
          </Stack>
        ))}
      </Stack>
    </details>
  );
}
