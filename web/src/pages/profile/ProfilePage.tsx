import {
  Alert,
  Box,
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
import type { ReactNode } from "react";
import { fieldError } from "@/api/problem";
import { useChangePassword, useMe, useOrganization } from "@/data/me";
import { lacksSecondFactor } from "@/data/secondFactor";
import { CodeInput } from "@/ui/CodeInput";
import { Link, LinkButton } from "@/ui/Link";
import { checkNewPassword, NewPasswordInput, newPasswordError } from "@/ui/NewPasswordInput";
import { NotificationRules } from "@/ui/notificationRules/NotificationRules";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { toast } from "@/ui/toast";
import { DesktopNotificationsCard } from "./DesktopNotificationsCard";
import { ForgeAccountsCard } from "./ForgeAccountsCard";
import { LinkedAccountsCard } from "./LinkedAccountsCard";
import { LoginsCard } from "./LoginsCard";
import { SecondFactorCard } from "./SecondFactorCard";
import { ThemeCard } from "./ThemeCard";
import { TokensCard } from "./TokensCard";

/** Profile outside of an organization: for users without one, and for those who must set up a second factor first. */
export function StandaloneProfilePage() {
  return (
    <Container component="main" size="sm" py="xl">
      <ProfilePage
        actions={
          <LinkButton to="/" variant="default">
            Back
          </LinkButton>
        }
      />
    </Container>
  );
}

/** Profile of the current user: password, second factor, notifications, active logins, tokens and theme. */
export function ProfilePage({ actions }: { actions?: ReactNode }) {
  const me = useMe();
  const { user, organizations } = me;
  const organization = useOrganization();
  const { required } = useSearch({ strict: false });
  const requiring = organizations.find(each => each.slug === required);
  return (
    <Box maw={860}>
      <Page title="Your profile" lead={`${user.name}, ${user.email}`} actions={actions}>
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
        {organization && <NotificationRules scope={{ kind: "own" }} org={organization} mayWrite />}
        <LinkedAccountsCard />
        <ForgeAccountsCard />
        <LoginsCard />
        <TokensCard />
        <DesktopNotificationsCard />
        <ThemeCard />
        <OrganizationsCard />
      </Page>
    </Box>
  );
}

function OrganizationsCard() {
  const { organizations } = useMe();
  return (
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
