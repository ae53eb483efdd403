import { Alert, Anchor, Button, Group, List, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { suggestAction, toProblem } from "@/api/problem";
import { CopyIconButton } from "./Copy";
import { LinkButton } from "./Link";

type Props = { error: unknown; retry?: () => void; compact?: boolean };

/** Alert for an error: what failed, what to do, and the request ID for the server's log. */
export function ProblemPanel({ error, retry, compact }: Props) {
  const problem = toProblem(error);
  const hint = suggestAction(problem);
  return (
    <Alert
      role="alert"
      color="buoy"
      radius="lg"
      icon={<IconAlertTriangle />}
      title={problem.title}
      my={compact ? 0 : "md"}
    >
      <Stack gap="xs">
        <Text size="sm" className="wrap">
          {toSentence(problem.detail)} {hint}
        </Text>
        {problem.errors && (
          <List size="sm">
            {problem.errors.map(each => (
              <List.Item key={`${each.pointer}${each.code}`} className="wrap">
                <code>{each.pointer}</code> {each.detail}
              </List.Item>
            ))}
          </List>
        )}
        <Group gap="md">
          {retry && (
            <Button size="xs" variant="default" onClick={retry}>
              Try again
            </Button>
          )}
          {problem.status === 404 && (
            <LinkButton to="/" size="xs" variant="default">
              Go to Home
            </LinkButton>
          )}
          {problem.type.startsWith("/docs/") && (
            <Anchor href={problem.type} size="xs">
              About “{problem.code}”
            </Anchor>
          )}
          {problem.requestId && (
            <Group gap={4} wrap="nowrap">
              <Text size="xs" className="wrap">
                Request ID <code>{problem.requestId}</code>
              </Text>
              <CopyIconButton value={problem.requestId} label="Copy request ID" />
            </Group>
          )}
        </Group>
      </Stack>
    </Alert>
  );
}

function toSentence(text: string): string {
  const capitalized = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(capitalized) ? capitalized : `${capitalized}.`;
}
