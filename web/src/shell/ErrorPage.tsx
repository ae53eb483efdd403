import { Container } from "@mantine/core";
import { IconMapOff } from "@tabler/icons-react";
import { EmptyState } from "@/ui/EmptyState";
import { LinkButton } from "@/ui/Link";
import { ProblemPanel } from "@/ui/ProblemPanel";

/** Error page: a page that failed to load, or an unknown URL. */
export function ErrorPage({ error, reset }: { error?: unknown; reset?: () => void }) {
  return (
    <Container size="sm" py="xl">
      {error ? (
        <ProblemPanel error={error} retry={reset} />
      ) : (
        <EmptyState icon={IconMapOff} title="Page not found">
          <LinkButton to="/" mt="sm">
            Go to Home
          </LinkButton>
        </EmptyState>
      )}
    </Container>
  );
}
