import { Container } from "@mantine/core";
import { IconMapOff } from "@tabler/icons-react";
import { Empty } from "@/ui/Empty";
import { LinkButton } from "@/ui/Link";
import { ProblemPanel } from "@/ui/Problem";

/** When a page broke, or there is none at this address. */
export function PageProblem({ error, reset }: { error?: unknown; reset?: () => void }) {
  return (
    <Container size="sm" py="xl">
      {error ? (
        <ProblemPanel error={error} retry={reset} />
      ) : (
        <Empty icon={IconMapOff} title="There is no page at this address">
          <LinkButton to="/" mt="sm">
            To the start
          </LinkButton>
        </Empty>
      )}
    </Container>
  );
}
