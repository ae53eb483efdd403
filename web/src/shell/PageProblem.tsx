import { Container } from "@mantine/core";
import { IconMapOff } from "@tabler/icons-react";
import { Empty } from "@/ui/Empty";
import { LinkButton } from "@/ui/Link";
import { ProblemPanel } from "@/ui/Problem";

/** Error page: a page that failed to load, or an unknown URL. */
export function PageProblem({ error, reset }: { error?: unknown; reset?: () => void }) {
  return (
    <Container size="sm" py="xl">
      {error ? (
        <ProblemPanel error={error} retry={reset} />
      ) : (
        <Empty icon={IconMapOff} title="Page not found">
          <LinkButton to="/" mt="sm">
            Go to Home
          </LinkButton>
        </Empty>
      )}
    </Container>
  );
}
