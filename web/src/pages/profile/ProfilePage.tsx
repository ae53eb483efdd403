import {
  Alert,
  Button,
  Card,
  Checkbox,
  Container,
  Group,
  PasswordInput,
  Stack,
  Text,
  Title,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconShieldLock } from "@tabler/icons-react";
import { useSearch } from "@tanstack/react-router";
import { fieldError } from "@/api/problem";
import { useChangePassword, useMe } from "@/data/me";
import { lacksSecondFactor } from "@/data/secondFactor";
import { CodeInput } from "@/ui/CodeInput";
import { Link, LinkButton } from "@/ui/Link";
import { checkNewPassword, NewPasswordInput, newPasswordError } from "@/ui/NewPasswordInput";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { toast } from "@/ui/toast";
import { ForgeAccountsCard } from "./ForgeAccountsCard";
import { LinkedAccountsCard } from "./LinkedAccountsCard";
import { LoginsCard } from "./LoginsCard";
import { SecondFactorCard } from "./SecondFactorCard";

/** Profile of the current user: password, second factor, active logins and organizations. */
export function ProfilePage() {
  const me = useMe();
  const { user, organizations } = me;
  const { required } = useSearch({ from: "/profile" });
  const requiring = organizations.find(each => each.slug === required);
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
        {requiring && lacksSecondFactor(me, requiring) && (
          <Alert
            role="status"
            color="lantern"
            icon={<IconShieldLock />}
            title={`${requiring.name} requires a second factor`}
          >
            Set one up below to continue. Until then, your API tokens do not work in {requiring.name} either.
          </Alert>
        )}
        {user.hasPassword && (
          <>
            <SecondFactorCard />
            <PasswordCard isGenerated={user.passwordIsGenerated} />
          </>
        )}
        <LinkedAccountsCard />
        <ForgeAccountsCard />
        <LoginsCard />
        <Card component="section" aria-label="Your organizations">
          <Title order={2} mb="sm">
            Your organizations
          </Title>
          {organizations.length === 0 && (
            <Text c="dimmed">You are not a member of any organization. Ask an admin to invite you.</Text>
          )}
          <Stack gap="xs">
            {organizations.map(each => (
              <Group key={each.id} justify="space-between">
                <LinkButton to="/o/$org" params={{ org: each.slug }} variant="default">
                  {each.name}
                </LinkButton>
                <Group>
                  <Text c="dimmed">{each.role}</Text>
                  <Link to="/o/$org/settings/tokens" params={{ org: each.slug }} size="sm">
                    API tokens
                  </Link>
                </Group>
              </Group>
            ))}
          </Stack>
        </Card>
      </Page>
    </Container>
  );
}

function PasswordCard({ isGenerated }: { isGenerated: boolean }) {
  const change = useChangePassword();
  const hasFactor = useMe().secondFactor.status === "enabled";
  const form = useForm({
    initialValues: { currentPassword: "", newPassword: "", revokeTokens: false, code: "" },
    validate: { newPassword: checkNewPassword },
  });
  const current = form.getInputProps("currentPassword");
  const chosen = form.getInputProps("newPassword");
  const isWrong = change.isError && fieldError(change.error, "/currentPassword") !== undefined;
  const wrongCode = change.isError && fieldError(change.error, "/code");
  const chosenProblem = newPasswordError(change.error, "/newPassword");
  const submit = form.onSubmit(({ code, ...values }) =>
    change.mutate(hasFactor ? { ...values, code } : values, {
      onSuccess: () => {
        form.reset();
        toast.success("Password changed");
      },
    }),
  );
  return (
    <Card component="section" aria-label="Password">
      <Title order={2} mb={4}>
        Password
      </Title>
      <Text c="dimmed" size="sm" mb="sm">
        {isGenerated ? "You are using a temporary password. " : ""}Changing it logs you out in all other
        browsers.
      </Text>
      <form onSubmit={submit}>
        <Stack>
          <PasswordInput
            label="Current password"
            required
            autoComplete="current-password"
            {...current}
            error={current.error ?? (isWrong && "Wrong password")}
          />
          <NewPasswordInput {...chosen} error={chosen.error ?? chosenProblem} />
          {hasFactor && (
            <CodeInput {...form.getInputProps("code")} error={wrongCode && `The code ${wrongCode}`} />
          )}
          <Checkbox
            label="Also revoke my API tokens"
            description="They stop working immediately, in all your organizations"
            {...form.getInputProps("revokeTokens", { type: "checkbox" })}
          />
          {change.isError && !isWrong && !chosenProblem && !wrongCode && (
            <ProblemPanel error={change.error} compact />
          )}
          <Group justify="flex-end">
            <Button type="submit" loading={change.isPending}>
              Change password
            </Button>
          </Group>
        </Stack>
      </form>
    </Card>
  );
}
