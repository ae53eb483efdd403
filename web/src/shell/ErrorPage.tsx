import { Button, Container, Group, Stack, Text } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { IconMapOff } from "@tabler/icons-react";
import { useRouter } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { EmptyState } from "@/ui/EmptyState";
import { LinkButton } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";

type Props = { error?: unknown; reset?: () => void; children?: ReactNode };

/** Error page: a page that failed to load, or an unknown URL. Children say more about the URL. */
export function ErrorPage({ error, reset, children }: Props) {
  const { history } = useRouter();
  useDocumentTitle(`${error ? "Page not loaded" : "Page not found"} · Berth`);
  return (
    <Container size="sm" py="xl">
      {error ? (
        <Page title="Page not loaded">
          <ProblemPanel error={error} retry={reset} />
        </Page>
      ) : (
        <EmptyState icon={IconMapOff} title="Page not found" isPage>
          <Stack gap="md" align="center">
            {children ?? <Text c="dimmed">The URL may be mistyped, or what it showed was deleted.</Text>}
            <Group>
              <Button variant="default" onClick={() => history.back()}>
                Go back
              </Button>
              <LinkButton to="/">Go to Home</LinkButton>
            </Group>
          </Stack>
        </EmptyState>
      )}
    </Container>
  );
}
