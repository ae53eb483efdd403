import { Button, Card, Container, Group, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useChangePassword, useMe } from "@/data/me";
import { LinkButton } from "@/ui/Link";
import { tell } from "@/ui/notify";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/Problem";

const PASSWORD_CHARS_MIN = 15;

/** The reader's own: name, organizations, password. */
export function Profile() {
  const { user, organizations } = useMe();
  return (
    <Container component="main" size="sm" py="xl">
      <Page
        title="Your profile"
        lead={`${user.name}, ${user.email}`}
        actions={
          <LinkButton to="/" variant="default">
            Back
          </LinkButton>
        }
      >
        <Password isGenerated={user.passwordIsGenerated} />
        <Card component="section" aria-label="Your organizations">
          <Title order={2} mb="sm">
            Your organizations
          </Title>
          {organizations.length === 0 && <Text c="dimmed">None. An admin of one can add you.</Text>}
          <Stack gap="xs">
            {organizations.map(each => (
              <Group key={each.id} justify="space-between">
                <LinkButton to="/o/$org" params={{ org: each.slug }} variant="default">
                  {each.name}
                </LinkButton>
                <Text c="dimmed">{each.role}</Text>
              </Group>
            ))}
          </Stack>
        </Card>
      </Page>
    </Container>
  );
}

function Password({ isGenerated }: { isGenerated: boolean }) {
  const change = useChangePassword();
  const form = useForm({
    initialValues: { currentPassword: "", newPassword: "" },
    validate: {
      newPassword: value =>
        value.length < PASSWORD_CHARS_MIN
          ? `At least ${PASSWORD_CHARS_MIN} characters; a sentence is fine`
          : null,
    },
  });
  const submit = form.onSubmit(values =>
    change.mutate(values, {
      onSuccess: () => {
        form.reset();
        tell("Your password is changed.");
      },
    }),
  );
  return (
    <Card component="section" aria-label="Password">
      <Title order={2} mb={4}>
        Password
      </Title>
      <Text c="dimmed" size="sm" mb="sm">
        {isGenerated ? "You still use the one you were given. " : ""}At least {PASSWORD_CHARS_MIN} characters.
      </Text>
      <form onSubmit={submit}>
        <Stack>
          <PasswordInput
            label="The one you have"
            required
            autoComplete="current-password"
            {...form.getInputProps("currentPassword")}
          />
          <PasswordInput
            label="The new one"
            required
            autoComplete="new-password"
            {...form.getInputProps("newPassword")}
          />
          {change.isError && <ProblemPanel error={change.error} compact />}
          <Group justify="flex-end">
            <Button type="submit" loading={change.isPending}>
              Change it
            </Button>
          </Group>
        </Stack>
      </form>
    </Card>
  );
}
