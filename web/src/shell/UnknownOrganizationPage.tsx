import { Container, Group, Text } from "@mantine/core";
import { useMe, useOrg } from "@/data/me";
import { LinkButton } from "@/ui/Link";
import { ErrorPage } from "./ErrorPage";

/** Shown instead of the pages of an organization that does not exist, or that the user is not a member of. */
export function UnknownOrganizationPage() {
  const org = useOrg();
  const { organizations } = useMe();
  return (
    <Container component="main">
      <ErrorPage>
        <Text>
          There is no organization “{org}”, or you are not a member. Ask one of its admins for an invitation.
        </Text>
        {organizations.length > 0 && (
          <Group component="nav" aria-label="Your organizations" justify="center">
            {organizations.map(each => (
              <LinkButton key={each.id} to="/o/$org" params={{ org: each.slug }} variant="default">
                {each.name}
              </LinkButton>
            ))}
          </Group>
        )}
      </ErrorPage>
    </Container>
  );
}
